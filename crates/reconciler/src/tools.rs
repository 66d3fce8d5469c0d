//! What all runs of a controller share.

use std::sync::Arc;

use kube::Client;
use windlass_indexer::ObjectKey;

use crate::expectations::{Expectations, Pending};
use crate::recorder::Recorder;
use crate::source::Sources;
use crate::write::Recorded;
use crate::writing::Writing;

/// What all runs of a controller share.
pub(crate) struct Tools {
    pub(crate) controller: Arc<str>,
    pub(crate) client: Client,
    pub(crate) sources: Sources,
    pub(crate) expectations: Expectations,
    pub(crate) recorder: Recorder,
    pub(crate) writing: Writing,
}

impl Tools {
    /// Whether no cache has to be waited for to show this write.
    pub(crate) fn is_seen(&self, recorded: &Recorded) -> bool {
        self.sources.behind(recorded).is_empty()
    }

    /// Notes what a run of a key has written.
    pub(crate) fn expect_writes(&self, key: &ObjectKey, pending: Pending) {
        self.expectations.put(key, pending, |recorded| self.is_seen(recorded));
    }

    /// Notes that a run of a key may have written something that nobody knows of.
    pub(crate) fn expect_unknown_write(&self, key: &ObjectKey) {
        let mut pending = Pending::default();
        pending.has_unknown = true;
        self.expect_writes(key, pending);
    }
}
