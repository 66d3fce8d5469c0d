//! What a run is given beside its object.

use std::fmt;
use std::sync::Arc;

use kube::Client;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;

use crate::cause::Cause;

/// One run: which key, why, for which time in a row, and until when.
pub struct Context {
    pub(crate) controller: Arc<str>,
    pub(crate) client: Client,
    pub(crate) key: ObjectKey,
    pub(crate) causes: Vec<Cause>,
    pub(crate) causes_omitted: u64,
    pub(crate) attempt: u32,
    pub(crate) deadline: Option<Instant>,
}

impl Context {
    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Asks the server, and writes to it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The key that runs.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Why it runs: the oldest and the newest reasons.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// How many reasons between them were left out.
    pub fn causes_omitted(&self) -> u64 {
        self.causes_omitted
    }

    /// The how-manieth try this is since the last success: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When the run is cancelled, if it has a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("controller", &self.controller)
            .field("key", &self.key)
            .field("causes", &self.causes)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
