//! The handler of unassigned pods: they go into the scheduler's queue.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass::indexer::ObjectKey;
use windlass::informer::{Event, Handler};
use windlass::workqueue::WorkQueue;

use crate::pod::SlimPod;

/// Pods without a node. Clones are the same.
#[derive(Clone, Debug)]
pub struct Waiting {
    pods: Arc<Mutex<BTreeSet<ObjectKey>>>,
    /// Whom to tell, if somebody schedules.
    queue: Option<WorkQueue<ObjectKey>>,
}

impl Waiting {
    /// Tells `queue`, if there is one.
    pub fn new(queue: Option<WorkQueue<ObjectKey>>) -> Self {
        Self { pods: Arc::default(), queue }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pods().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pods().is_empty()
    }

    /// Puts all of them into the queue again: something has changed that they may have waited for.
    /// Returns how many there are.
    pub fn try_all_again(&self) -> usize {
        let pods = self.pods().clone();
        for pod in &pods {
            self.enqueue(pod);
        }
        pods.len()
    }

    fn enqueue(&self, pod: &ObjectKey) {
        if let Some(queue) = &self.queue {
            // Refused only after the queue was shut down, and then nobody schedules.
            let _ = queue.add(pod.clone());
        }
    }

    fn pods(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler<SlimPod> for Waiting {
    fn handle(&mut self, event: Event<SlimPod>) {
        match &event {
            Event::Added { .. } | Event::Updated { .. } => {
                self.pods().insert(event.key().clone());
                self.enqueue(event.key());
            }
            // It was assigned, or it is gone. Who takes it from the queue will see.
            Event::Deleted { .. } => drop(self.pods().remove(event.key())),
        }
    }
}
