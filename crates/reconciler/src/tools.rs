//! What all runs of a controller share.

use std::sync::{Arc, OnceLock};

use kube::Client;
use windlass_indexer::ObjectKey;
use windlass_informer::Resource;

use crate::applied::Applied;
use crate::children::CheckedOwners;
use crate::expectations::{Expectations, PendingWrites};
use crate::guard::caught;
use crate::recorder::Recorder;
use crate::server_warnings::ServerWarnings;
use crate::source::Sources;
use crate::write::{Recorded, Write};

/// What all runs of a controller share.
pub(crate) struct Tools {
    pub(crate) controller: Arc<str>,
    /// Whether the controller was given a name, instead of that of its kind.
    pub(crate) is_named: bool,
    /// The resource that the controller reconciles.
    pub(crate) primary: Resource,
    /// Kinds of children that the controller does not make any more.
    pub(crate) retired: Vec<Resource>,
    pub(crate) client: Client,
    pub(crate) sources: Sources,
    pub(crate) expectations: Expectations,
    pub(crate) recorder: Recorder,
    /// The owners whose retired kinds were already searched.
    pub(crate) checked_owners: CheckedOwners,
    pub(crate) applied: Applied,
    pub(crate) warnings: ServerWarnings,
    pub(crate) on_write: WriteObserver,
}

/// Whom every write is reported to, if somebody asked for it.
#[derive(Default)]
pub(crate) struct WriteObserver(OnceLock<OnWrite>);

type OnWrite = Box<dyn Fn(&ObjectKey, &Write) + Send + Sync>;

impl WriteObserver {
    /// Returns whether it was the first.
    pub(crate) fn set(&self, observer: OnWrite) -> bool {
        self.0.set(observer).is_ok()
    }

    /// Reports what a run of `key` wrote.
    pub(crate) fn report(&self, key: &ObjectKey, write: &Write) {
        if let Some(observer) = self.0.get() {
            // The answer of the server must reach the reconciler, whatever the observer does.
            let _ = caught(|| observer(key, write));
        }
    }
}

impl Tools {
    /// Whether every cache is caught up with this write.
    pub(crate) fn is_seen(&self, recorded: &Recorded) -> bool {
        self.sources.behind(recorded).is_empty()
    }

    /// Notes what a run of a key has written.
    pub(crate) fn expect_writes(&self, key: &ObjectKey, pending: PendingWrites) {
        self.expectations.put(key, pending, |recorded| self.is_seen(recorded));
    }

    /// Notes that a run of a key may have written something that nobody knows of.
    pub(crate) fn expect_unknown_write(&self, key: &ObjectKey) {
        let mut pending = PendingWrites::default();
        pending.has_unknown = true;
        self.expect_writes(key, pending);
    }
}
