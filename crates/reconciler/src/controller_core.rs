//! What the parts of a controller share: its sources, its workers and their runs, its handles, its
//! metrics.
//!
//! Handlers of informers and streams hold only the enqueuer and what their filters read: a
//! reference to the core would be a cycle. A [handle](crate::ControllerHandle) and a client of a
//! run hold a `Weak` of it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
#[cfg(feature = "prometheus")]
use prometheus_client::metrics::histogram::Histogram;
use windlass_indexer::{ObjectKey, Reader};
use windlass_informer::{Resource, SharedInformerFactory};

use crate::api::children::kinds::ChildKinds;
use crate::api::children::retired::RetiredChildren;
use crate::guard::caught;
use crate::history::finished::{OnError, RunSubscribers};
use crate::history::inactive::InactiveKeys;
use crate::history::journal::Journal;
use crate::history::run_record::RunIds;
use crate::history::watchdog::Running;
use crate::plan::OpenPlan;
use crate::recorder::Recorder;
use crate::sources::enqueue::{Enqueuer, RetryPriority};
use crate::sources::key_stream::Streams;
use crate::sources::mapping::status::MapperCounts;
use crate::sources::pause::Pause;
use crate::sources::predicate::AnyFilter;
use crate::sources::source::Sources;
use crate::writes::applied::Applied;
use crate::writes::expectations::{Expectations, PendingWrites};
use crate::writes::server_warnings::ServerWarnings;
use crate::writes::write::{TrackedWrite, Write};

/// What all parts of a controller share, whatever the type of its objects. `wiring.rs` adds the
/// methods that make sources; `catch_up.rs`, `settle.rs`, `report.rs` and `status.rs` add those
/// about runs.
pub(crate) struct ControllerCore {
    // Settings, which do not change.
    pub(crate) controller: Arc<str>,
    /// The resource that the controller reconciles.
    pub(crate) primary: Resource,
    /// The kinds of children that the controller makes, or made.
    pub(crate) child_kinds: ChildKinds,
    pub(crate) workers: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) pause: Pause,
    pub(crate) retry_priority: Option<RetryPriority>,
    pub(crate) on_error: Option<OnError>,
    /// For the events of all sources.
    pub(crate) filter: Option<AnyFilter>,

    // What is read, and what makes keys run.
    pub(crate) factory: SharedInformerFactory,
    /// The cache of the objects that are reconciled.
    pub(crate) objects: Reader,
    pub(crate) sources: Sources,
    pub(crate) streams: Arc<Streams>,
    pub(crate) mappers: Arc<MapperCounts>,
    pub(crate) enqueuer: Enqueuer,

    // What is written.
    pub(crate) client: Client,
    pub(crate) expectations: Expectations,
    pub(crate) recorder: Recorder,
    pub(crate) retired_children: RetiredChildren,
    pub(crate) applied: Applied,
    pub(crate) warnings: ServerWarnings,
    /// The observer of writes, if the user has set one.
    pub(crate) on_write: OnceLock<OnWrite>,
    /// Set in [plan mode](crate::Controller::plan): collects what the runs would write.
    pub(crate) plan: OnceLock<OpenPlan>,

    // The runs under way, and those that have ended.
    pub(crate) ids: RunIds,
    pub(crate) running: Running,
    pub(crate) inactive: Arc<InactiveKeys>,
    pub(crate) journal: Journal,
    pub(crate) subscribers: Arc<RunSubscribers>,
    /// Set if the controller is shown in metrics: how long its runs took.
    #[cfg(feature = "prometheus")]
    pub(crate) durations: OnceLock<Histogram>,
}

/// Called with every write of a run, and the key that ran. See
/// [`Controller::on_write`](crate::Controller::on_write).
pub type OnWrite = Arc<dyn Fn(&ObjectKey, &Write) + Send + Sync>;

impl ControllerCore {
    /// Whether every cache is caught up with this write.
    pub(crate) fn is_seen(&self, tracked: &TrackedWrite) -> bool {
        self.sources.behind(tracked).is_empty()
    }

    /// The namespaces in which the reconciled objects are watched; `None` stands for all, and for
    /// no namespace.
    pub(crate) fn owner_namespaces(&self) -> Vec<Option<String>> {
        // The first source is that of the reconciled objects.
        let primary = self.sources.all().into_iter().next();
        let primary = primary.expect("a controller must have a primary source");
        primary.cache.namespaces().map(|namespace| namespace.map(str::to_owned)).collect()
    }

    /// Reports what a run of `key` wrote.
    pub(crate) fn report_write(&self, key: &ObjectKey, write: &Write) {
        if let Some(observer) = self.on_write.get() {
            // The answer of the server must reach the reconciler, whatever the observer does.
            let _ = caught(|| observer(key, write));
        }
    }

    /// Notes what a run of a key has written.
    pub(crate) fn expect_writes(&self, key: &ObjectKey, pending: PendingWrites) {
        self.expectations.put(key, pending, |tracked| self.is_seen(tracked));
    }

    /// Makes the next run of a key report `cache_behind`, because the run that should have reported
    /// it did not begin.
    pub(crate) fn report_behind_to_next_run(&self, key: &ObjectKey) {
        let mut pending = PendingWrites::default();
        pending.reports_behind = true;
        self.expect_writes(key, pending);
    }
}
