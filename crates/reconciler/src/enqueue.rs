//! Adds keys to the queue of a controller, with a priority that depends on the cause.

use std::sync::Arc;

use windlass_indexer::ObjectKey;
use windlass_workqueue::{Add, Priority, WorkQueue};

use crate::cause::Cause;
use crate::debounce::Debounce;
use crate::guard::{FIX, caught};

/// The queue of a controller.
pub(crate) type Queue = WorkQueue<ObjectKey, Cause>;

/// Decides how urgent a key is.
pub(crate) type PriorityPolicy = Arc<dyn Fn(&ObjectKey, &Cause) -> Priority + Send + Sync>;

/// Adds keys to the queue of a controller.
#[derive(Clone)]
pub(crate) struct Enqueuer {
    pub(crate) queue: Queue,
    pub(crate) controller: Arc<str>,
    pub(crate) priority: PriorityPolicy,
    /// `None` if keys run at once.
    pub(crate) debounce: Option<Arc<Debounce>>,
}

impl Enqueuer {
    /// Adds a key because something has happened.
    pub(crate) fn wake(&self, key: ObjectKey, cause: Cause) {
        let add = match &self.debounce {
            Some(debounce) if cause.is_urgent() => Add::after(debounce.note(&key)),
            _ => Add::now(),
        };
        self.add(key, add, cause);
    }

    /// Adds a key. A queue that is shut down ignores it: the controller has stopped.
    pub(crate) fn add(&self, key: ObjectKey, add: Add<Cause>, cause: Cause) {
        let priority = caught(|| (self.priority)(&key, &cause)).unwrap_or_else(|| {
            tracing::error!(
                controller = &*self.controller, %key, %cause,
                "the priority policy panicked; the key gets the normal priority; {FIX}"
            );
            Priority::Normal
        });
        self.add_at(priority, key, add, cause);
    }

    /// Adds a key with a priority that the policy does not decide.
    pub(crate) fn add_at(&self, at: Priority, key: ObjectKey, add: Add<Cause>, cause: Cause) {
        let _ = self.queue.add_with(key, add.priority(at).cause(cause));
    }
}

/// The default policy: low for objects that existed before and for resyncs, because nothing has
/// just happened to them.
pub(crate) fn default_priority(_: &ObjectKey, cause: &Cause) -> Priority {
    if cause.is_urgent() { Priority::Normal } else { Priority::Low }
}
