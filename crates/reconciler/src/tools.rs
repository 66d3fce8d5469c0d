//! What the parts of a controller share: its workers and their runs, its handles, its metrics.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
#[cfg(feature = "prometheus")]
use prometheus_client::metrics::histogram::Histogram;
use windlass_indexer::ObjectKey;
use windlass_informer::Resource;

use crate::applied::Applied;
use crate::children::CheckedOwners;
use crate::enqueue::Enqueuer;
use crate::expectations::{Expectations, PendingWrites};
use crate::finished::{OnError, RunSubscribers};
use crate::guard::caught;
use crate::inactive::InactiveKeys;
use crate::journal::Journal;
use crate::pause::Pause;
use crate::plan::PlanBook;
use crate::recorder::Recorder;
use crate::run_id::RunIds;
use crate::running::Running;
use crate::server_warnings::ServerWarnings;
use crate::source::Sources;
use crate::span::SpanShape;
use crate::write::{Recorded, Write};

/// What the parts of a controller share, whatever the type of its objects.
pub(crate) struct Tools {
    pub(crate) controller: Arc<str>,
    /// Whether the controller was given a name, instead of that of its kind.
    pub(crate) is_named: bool,
    /// The resource that the controller reconciles.
    pub(crate) primary: Resource,
    /// Kinds of children that the controller does not make any more.
    pub(crate) retired: Vec<Resource>,
    pub(crate) workers: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) pause: Pause,
    pub(crate) on_error: Option<OnError>,
    pub(crate) span: Option<SpanShape>,
    pub(crate) client: Client,
    pub(crate) sources: Sources,
    pub(crate) enqueuer: Enqueuer,
    pub(crate) expectations: Expectations,
    pub(crate) recorder: Recorder,
    /// The owners whose retired kinds were already searched.
    pub(crate) checked_owners: CheckedOwners,
    pub(crate) applied: Applied,
    pub(crate) warnings: ServerWarnings,
    /// The observer of writes, if the user has set one.
    pub(crate) on_write: OnceLock<OnWrite>,
    pub(crate) ids: RunIds,
    pub(crate) running: Running,
    pub(crate) inactive: InactiveKeys,
    pub(crate) journal: Journal,
    pub(crate) subscribers: Arc<RunSubscribers>,
    /// Set in [plan mode](crate::Controller::plan): collects what the runs would write.
    pub(crate) plan: OnceLock<PlanBook>,
    /// Set if the controller is shown in metrics: how long its runs took.
    #[cfg(feature = "prometheus")]
    pub(crate) durations: OnceLock<Histogram>,
}

type OnWrite = Box<dyn Fn(&ObjectKey, &Write) + Send + Sync>;

impl Tools {
    /// Whether every cache is caught up with this write.
    pub(crate) fn is_seen(&self, recorded: &Recorded) -> bool {
        self.sources.behind(recorded).is_empty()
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
        self.expectations.put(key, pending, |recorded| self.is_seen(recorded));
    }

    /// Makes the next run of a key report `cache_behind`: nobody knows whether the caches show
    /// everything that its earlier runs have written.
    pub(crate) fn expect_unknown_write(&self, key: &ObjectKey) {
        let mut pending = PendingWrites::default();
        pending.has_unknown = true;
        self.expect_writes(key, pending);
    }
}
