//! How urgent a key is, by what woke it.

use std::sync::Arc;

use windlass_indexer::ObjectKey;
use windlass_workqueue::Priority;

use crate::cause::Cause;
use crate::guard::{FIX, caught};

/// Says how urgent a key is. It is the user's, and may panic: then the key is as urgent as others.
#[derive(Clone)]
pub(crate) struct PriorityPolicy(Arc<Policy>);

type Policy = dyn Fn(&ObjectKey, &Cause) -> Priority + Send + Sync;

impl PriorityPolicy {
    pub(crate) fn new(
        policy: impl Fn(&ObjectKey, &Cause) -> Priority + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(policy))
    }

    pub(crate) fn of(&self, controller: &str, key: &ObjectKey, cause: &Cause) -> Priority {
        caught(|| (self.0)(key, cause)).unwrap_or_else(|| {
            tracing::error!(
                controller, %key, %cause,
                "the priority policy panicked; the key is as urgent as others; {FIX}"
            );
            Priority::Normal
        })
    }
}

/// What was there before, or has not changed, lets others pass.
impl Default for PriorityPolicy {
    fn default() -> Self {
        let default = |_: &ObjectKey, cause: &Cause| {
            if cause.is_patient() { Priority::Low } else { Priority::Normal }
        };
        Self::new(default)
    }
}
