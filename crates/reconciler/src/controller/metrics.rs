//! The controllers' metrics on a `prometheus-client` registry, under controller-runtime's names.
//!
//! Only the durations of runs are pushed. Everything else is counted by the controller anyway, and
//! a scrape reads it through a weak handle. So there is no task, and a gauge is as old as its
//! scrape.
//!
//! Invariant: a scrape holds no lock of this module while it reads a controller. If the last owner
//! of a controller goes away during a scrape, the scrape drops what is left of the controller.

mod families;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use windlass_workqueue::QueueMetrics;

use crate::controller_core::ControllerCore;
use families::FAMILIES;
use parking_lot::Mutex;

/// Shows any number of controllers, and their queues, on one `prometheus_client` registry. All
/// metrics have the label `controller`, with the [name](crate::ControllerBuilder::name) of the
/// controller. Those of controller-runtime, with its names, types and buckets:
///
/// | metric, after `controller_runtime_` | type | of each controller |
/// |---|---|---|
/// | `reconcile_total` | counter | runs, by `result` (see below) |
/// | `reconcile_errors_total` | counter | runs with the result `error` |
/// | `terminal_reconcile_errors_total` | counter | those that are not retried |
/// | `reconcile_panics_total` | counter | those that panicked |
/// | `reconcile_timeouts_total` | counter | those that were cancelled because they took too long |
/// | `reconcile_time_seconds` | histogram | how long runs took |
/// | `max_concurrent_reconciles` | gauge | workers |
/// | `active_workers` | gauge | workers that have a key |
///
/// | `result` | a run that |
/// |---|---|
/// | `success` | returned [`Action::done`](crate::Action::done), or [`OwnerDeleted`] |
/// | `requeue_after` | returned [`Action::requeue_after`](crate::Action::requeue_after) |
/// | `requeue` | never: there is no such action. It is shown as zero |
/// | `error` | returned an error of any [`Class`](crate::Class), panicked or took too long |
///
/// As in controller-runtime, a conflict is an error, and so is a write that was refused because
/// this replica does not lead: whoever wants to leave them out subtracts them by class. Errors of
/// the classes `Terminal` and `Undecodable` are terminal.
///
/// [`OwnerDeleted`]: crate::OwnerDeleted
///
/// And those of Windlass:
///
/// | metric, after `windlass_controller_` | type | of each controller |
/// |---|---|---|
/// | `failures_total` | counter | runs that returned an error, by `class` |
/// | `behind_total` | counter | runs that began although a cache lacked what the last one wrote |
/// | `hot_loops_total` | counter | keys that their own writes woke again and again |
/// | `paused` | gauge | objects that are not reconciled, because they are paused |
/// | `given_up` | gauge | keys that are not retried, because all of their attempts failed |
/// | `terminal` | gauge | keys that are not retried, because their error is terminal |
/// | `mapper_failures_total` | counter | calls of mappers that failed, by `result` |
/// | `mapper_waiting` | gauge | objects whose events wait to be mapped again |
/// | `journal_bytes` | gauge | memory that the record of runs takes |
/// | `events_dropped_total` | counter | Kubernetes events that were dropped: there were too many |
///
/// The queues are shown as [`QueueMetrics`] describes it.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use prometheus_client::registry::Registry;
/// use windlass_reconciler::{Controller, ControllerMetrics, Watch};
///
/// let mut registry = Registry::default();
/// let metrics = ControllerMetrics::register(&mut registry);
/// let builder = Controller::named("configmap", Watch::<ConfigMap>::new()).metrics(&metrics);
/// # drop(builder);
/// ```
///
/// The registry is the caller's, and so are its prefix and labels; there is no global one. Clones
/// are the same metrics.
///
/// A controller is shown, with all of its counters, from when it is built until it is dropped.
/// Controllers that share a name are shown as one, and their numbers are added up.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    queues: QueueMetrics,
    controllers: Arc<Controllers>,
}

/// By name, so that scrapes are in order.
#[derive(Default)]
struct Controllers(Mutex<BTreeMap<Arc<str>, Shown>>);

/// The controllers of one name.
#[derive(Clone)]
struct Shown {
    /// Shared by all of them.
    durations: Histogram,
    cores: Vec<Weak<ControllerCore>>,
}

/// Upper bounds of the buckets, in seconds. They are controller-runtime's.
const BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

impl ControllerMetrics {
    /// Registers the metrics with a registry, once for all controllers. [`QueueMetrics`] are
    /// registered with them.
    #[must_use = "only controllers that are built with it are shown"]
    pub fn register(registry: &mut Registry) -> Self {
        let controllers = Arc::new(Controllers::default());
        registry.register_collector(Box::new(Arc::clone(&controllers)));
        Self { queues: QueueMetrics::register(registry), controllers }
    }

    /// The metrics of queues on the same registry, for queues that no controller has.
    pub fn queues(&self) -> &QueueMetrics {
        &self.queues
    }

    /// Shows a controller. Returns the histogram for the durations of its runs.
    pub(crate) fn show(&self, core: &Arc<ControllerCore>) -> Histogram {
        let mut by_name = self.controllers.0.lock();
        // Controllers that come and go must not pile up, even if nobody ever scrapes.
        by_name.retain(|_, shown| {
            shown.cores.retain(|core| core.strong_count() > 0);
            !shown.cores.is_empty()
        });
        let new = || Shown { durations: Histogram::new(BUCKETS), cores: Vec::new() };
        let shown = by_name.entry(Arc::clone(&core.controller)).or_insert_with(new);
        shown.cores.push(Arc::downgrade(core));
        shown.durations.clone()
    }
}

impl Collector for Controllers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // A clone, so that the lock is not held while the controllers are read.
        let shown = self.0.lock().clone();
        let mut by_name = BTreeMap::new();
        for (name, Shown { durations, cores }) in shown {
            let cores = cores.iter().filter_map(Weak::upgrade);
            let statuses: Vec<_> = cores.map(|core| core.status()).collect();
            if !statuses.is_empty() {
                by_name.insert(name, (durations, statuses));
            }
        }
        if by_name.is_empty() {
            return Ok(());
        }
        FAMILIES.iter().try_for_each(|family| family.encode(&mut encoder, &by_name))
    }
}

impl fmt::Debug for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}
