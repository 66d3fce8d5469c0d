//! The table of the metrics.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::Shown;
use crate::counts::Counts;
use crate::error::Class;

/// One metric of all controllers. The encoder adds the unit and `_total` to the name.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    values: Values,
}

enum Values {
    Count(fn(&Counts) -> u64),
    /// Counts with the values of a second label.
    Counts(&'static str, fn(&Counts) -> Vec<(String, u64)>),
    Dropped,
    Gauge(fn(&Shown) -> usize),
    Durations,
}

/// All classes. Each is shown from the start, as zero.
const CLASSES: [Class; 8] = [
    Class::Conflict,
    Class::Throttled,
    Class::Forbidden,
    Class::Transient,
    Class::Undecodable,
    Class::Terminal,
    Class::NotLeader,
    Class::Other,
];

pub(super) static FAMILIES: [Family; 15] = [
    Family {
        name: "controller_runtime_reconcile",
        help: "Runs, by result.",
        values: Values::Counts("result", results),
    },
    Family {
        name: "controller_runtime_reconcile_errors",
        help: "Runs that returned an error, panicked or took too long.",
        values: Values::Count(errors),
    },
    Family {
        name: "controller_runtime_terminal_reconcile_errors",
        help: "Runs that returned an error that is not retried.",
        values: Values::Count(|counts| {
            counts.failed_with(Class::Terminal) + counts.failed_with(Class::Undecodable)
        }),
    },
    Family {
        name: "controller_runtime_reconcile_panics",
        help: "Runs that panicked.",
        values: Values::Count(|counts| counts.panicked),
    },
    Family {
        name: "controller_runtime_reconcile_timeouts",
        help: "Runs that were cancelled because they took too long.",
        values: Values::Count(|counts| counts.timed_out),
    },
    Family {
        name: "controller_runtime_reconcile_time",
        help: "How long runs took.",
        values: Values::Durations,
    },
    Family {
        name: "controller_runtime_max_concurrent_reconciles",
        help: "Workers of the controller.",
        values: Values::Gauge(|shown| shown.measures.workers),
    },
    Family {
        name: "controller_runtime_active_workers",
        help: "Workers that have a key.",
        values: Values::Gauge(|shown| shown.measures.active_workers),
    },
    Family {
        name: "windlass_controller_failures",
        help: "Runs that returned an error, by its class.",
        values: Values::Counts("class", failures),
    },
    Family {
        name: "windlass_controller_behind",
        help: "Runs that began although a cache did not show what the last run had written.",
        values: Values::Count(|counts| counts.behind),
    },
    Family {
        name: "windlass_controller_hot_loops",
        help: "Keys that their own writes woke again and again.",
        values: Values::Count(|counts| counts.hot_loops),
    },
    Family {
        name: "windlass_controller_paused",
        help: "Objects that are not reconciled, because they are paused.",
        values: Values::Gauge(|shown| shown.measures.paused),
    },
    Family {
        name: "windlass_controller_given_up",
        help: "Keys that are not retried before something changes: all of their attempts failed.",
        values: Values::Gauge(|shown| shown.measures.given_up),
    },
    Family {
        name: "windlass_controller_terminal",
        help: "Keys that are not retried before something changes: their error is terminal.",
        values: Values::Gauge(|shown| shown.measures.terminal),
    },
    Family {
        name: "windlass_controller_events_dropped",
        help: "Kubernetes events that were dropped, because there were too many.",
        values: Values::Dropped,
    },
];

impl Family {
    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        shown: &[Shown],
    ) -> fmt::Result {
        let (kind, unit) = match self.values {
            Values::Gauge(_) => (MetricType::Gauge, None),
            Values::Durations => (MetricType::Histogram, Some(&Unit::Seconds)),
            Values::Count(_) | Values::Counts(..) | Values::Dropped => (MetricType::Counter, None),
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, unit, kind)?;
        for controller in shown {
            let name = ("controller", &*controller.name);
            let counts = match &self.values {
                Values::Gauge(of) => {
                    family.encode_family(&[name])?.encode_gauge(&(of(controller) as u64))?;
                    continue;
                }
                Values::Durations => {
                    controller.series.durations.encode(family.encode_family(&[name])?)?;
                    continue;
                }
                Values::Count(of) => vec![(None, of(&controller.measures.counts))],
                Values::Dropped => vec![(None, controller.measures.events_dropped)],
                Values::Counts(label, of) => of(&controller.measures.counts)
                    .into_iter()
                    .map(|(value, count)| (Some((*label, value)), count))
                    .collect(),
            };
            for (label, count) in counts {
                let label = label.as_ref().map(|(label, value)| (*label, value.as_str()));
                let labels: Vec<_> = [name].into_iter().chain(label).collect();
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        Ok(())
    }
}

/// In the order of controller-runtime.
fn results(counts: &Counts) -> Vec<(String, u64)> {
    let requeue = 0; // There is no such action.
    let results = [
        ("error", errors(counts)),
        ("requeue_after", counts.requeued),
        ("requeue", requeue),
        ("success", counts.done),
    ];
    results.map(|(result, count)| (result.to_owned(), count)).into()
}

fn errors(counts: &Counts) -> u64 {
    counts.failed.values().sum::<u64>() + counts.panicked + counts.timed_out
}

fn failures(counts: &Counts) -> Vec<(String, u64)> {
    let mut failed = counts.failed.clone();
    for class in CLASSES {
        failed.entry(class).or_default();
    }
    let name = |class: Class| class.to_string().replace(' ', "_");
    failed.into_iter().map(|(class, count)| (name(class), count)).collect()
}
