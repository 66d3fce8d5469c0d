//! The table of the metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;

use crate::controller::status::ControllerStatus;
use crate::error::Class;

/// One metric of all controllers. The encoder adds the unit and `_total` to the name.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    values: Values,
}

enum Values {
    Counter(fn(&ControllerStatus) -> u64),
    /// One counter for each value of a second label.
    Counters(&'static str, Rows),
    Gauge(fn(&ControllerStatus) -> usize),
    Durations,
}

/// The values of a label, and what is counted for each.
type Rows = &'static [(&'static str, fn(&ControllerStatus) -> u64)];

/// The results of runs, in the order of controller-runtime.
const RESULTS: Rows = &[
    ("error", |status| status.counts.failures()),
    ("requeue_after", |status| status.counts.requeued),
    // There is no such action.
    ("requeue", |_| 0),
    ("success", |status| status.counts.done + status.counts.owner_deleted),
];

/// All classes. Each is shown from the start, as zero.
const CLASSES: Rows = &[
    ("conflict", |status| status.counts.failed_with(Class::Conflict)),
    ("throttled", |status| status.counts.failed_with(Class::Throttled)),
    ("forbidden", |status| status.counts.failed_with(Class::Forbidden)),
    ("transient", |status| status.counts.failed_with(Class::Transient)),
    ("undecodable", |status| status.counts.failed_with(Class::Undecodable)),
    ("terminal", |status| status.counts.failed_with(Class::Terminal)),
    ("not_leader", |status| status.counts.failed_with(Class::NotLeader)),
    ("stale_read", |status| status.counts.failed_with(Class::StaleRead)),
    ("other", |status| status.counts.failed_with(Class::Other)),
];

/// Why a mapper was called again or its event given up.
const MAPPER_RESULTS: Rows = &[
    ("error", |status| status.mappers.failed),
    ("panic", |status| status.mappers.panicked),
    ("timeout", |status| status.mappers.timed_out),
];

pub(super) static FAMILIES: [Family; 18] = [
    Family {
        name: "controller_runtime_reconcile",
        help: "Runs, by result.",
        values: Values::Counters("result", RESULTS),
    },
    Family {
        name: "controller_runtime_reconcile_errors",
        help: "Runs that returned an error, panicked or took too long.",
        values: Values::Counter(|status| status.counts.failures()),
    },
    Family {
        name: "controller_runtime_terminal_reconcile_errors",
        help: "Runs that returned an error that is not retried.",
        values: Values::Counter(|status| {
            status.counts.failed_with(Class::Terminal)
                + status.counts.failed_with(Class::Undecodable)
        }),
    },
    Family {
        name: "controller_runtime_reconcile_panics",
        help: "Runs that panicked.",
        values: Values::Counter(|status| status.counts.panicked),
    },
    Family {
        name: "controller_runtime_reconcile_timeouts",
        help: "Runs that were cancelled because they took too long.",
        values: Values::Counter(|status| status.counts.timed_out),
    },
    Family {
        name: "controller_runtime_reconcile_time",
        help: "How long runs took.",
        values: Values::Durations,
    },
    Family {
        name: "controller_runtime_max_concurrent_reconciles",
        help: "Workers of the controller.",
        values: Values::Gauge(|status| status.workers),
    },
    Family {
        name: "controller_runtime_active_workers",
        help: "Workers that have a key.",
        values: Values::Gauge(|status| status.active_workers),
    },
    Family {
        name: "windlass_controller_failures",
        help: "Runs that returned an error, by its class.",
        values: Values::Counters("class", CLASSES),
    },
    Family {
        name: "windlass_controller_behind",
        help: "Runs that began although a cache did not show what the last run had written.",
        values: Values::Counter(|status| status.counts.behind),
    },
    Family {
        name: "windlass_controller_hot_loops",
        help: "Keys that their own writes woke again and again.",
        values: Values::Counter(|status| status.counts.hot_loops),
    },
    Family {
        name: "windlass_controller_paused",
        help: "Objects that are not reconciled, because they are paused.",
        values: Values::Gauge(|status| status.paused),
    },
    Family {
        name: "windlass_controller_given_up",
        help: "Keys that are not retried before something changes: all of their attempts failed.",
        values: Values::Gauge(|status| status.given_up),
    },
    Family {
        name: "windlass_controller_terminal",
        help: "Keys that are not retried before something changes: their error is terminal.",
        values: Values::Gauge(|status| status.terminal),
    },
    Family {
        name: "windlass_controller_mapper_failures",
        help: "Calls of mappers of watches_changes that failed, by result.",
        values: Values::Counters("result", MAPPER_RESULTS),
    },
    Family {
        name: "windlass_controller_mapper_waiting",
        help: "Objects whose events wait to be mapped again, because a mapper of watches_changes \
               failed.",
        values: Values::Gauge(|status| status.mappers.waiting),
    },
    Family {
        name: "windlass_controller_journal_bytes",
        help: "Memory that the record of runs takes.",
        values: Values::Gauge(|status| status.journal.bytes),
    },
    Family {
        name: "windlass_controller_events_dropped",
        help: "Kubernetes events that were dropped, because there were too many.",
        values: Values::Counter(|status| status.events.dropped),
    },
];

impl Family {
    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        by_name: &BTreeMap<Arc<str>, (Histogram, Vec<ControllerStatus>)>,
    ) -> fmt::Result {
        let (kind, unit) = match self.values {
            Values::Gauge(_) => (MetricType::Gauge, None),
            Values::Durations => (MetricType::Histogram, Some(&Unit::Seconds)),
            Values::Counter(_) | Values::Counters(..) => (MetricType::Counter, None),
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, unit, kind)?;
        for (name, (durations, statuses)) in by_name {
            let name = ("controller", &**name);
            match self.values {
                Values::Durations => durations.encode(family.encode_family(&[name])?)?,
                Values::Gauge(of) => {
                    let sum = statuses.iter().map(of).sum::<usize>() as u64;
                    family.encode_family(&[name])?.encode_gauge(&sum)?;
                }
                Values::Counter(of) => {
                    let sum = statuses.iter().map(of).sum::<u64>();
                    let labels = [name];
                    let mut metric = family.encode_family(&labels)?;
                    metric.encode_counter::<NoLabelSet, _, u64>(&sum, None)?;
                }
                Values::Counters(label, rows) => {
                    for (value, of) in rows {
                        let sum = statuses.iter().map(of).sum::<u64>();
                        let labels = [name, (label, value)];
                        let mut metric = family.encode_family(&labels)?;
                        metric.encode_counter::<NoLabelSet, _, u64>(&sum, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}
