//! How events become keys: the handler that a controller adds to each of its informers.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use windlass_indexer::{Cached, ObjectKey, Reader};
use windlass_informer::{
    Event, HandlerOptions, InformerError, Resource, SharedInformer, SharedInformerFactory,
};
use windlass_workqueue::{Add, Priority};

use crate::cause::Cause;
use crate::controller::Queue;
use crate::owner::OwnerMapper;
use crate::predicate::Predicate;
use crate::source::Source;
use crate::watch::Watch;

/// Connects informers to the queue of one controller.
#[derive(Clone)]
pub(crate) struct Wiring {
    pub(crate) factory: SharedInformerFactory,
    pub(crate) queue: Queue,
    pub(crate) controller: Arc<str>,
    pub(crate) priority: PriorityPolicy,
    /// What is reconciled, and what there is of it.
    pub(crate) primary: (Resource, Reader),
}

/// How urgent a key is, by what woke it.
pub(crate) type PriorityPolicy = Arc<dyn Fn(&ObjectKey, &Cause) -> Priority + Send + Sync>;

/// Whether an update also wakes what the object led to before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LooksBack {
    Yes,
    /// It leads to the same, always.
    No,
}

impl Wiring {
    /// Only reads.
    pub(crate) fn reads<T>(&self, watch: Watch<T>) -> Result<Source, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let (informer, _) = watch.open(&self.factory)?;
        Ok(Source::new(informer, None))
    }

    /// Wakes the controller owners of what changes.
    pub(crate) fn owns<T>(&self, watch: Watch<T>) -> Result<Source, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let (owner, owners) = self.primary.clone();
        let mapper = OwnerMapper::new(owner, owners);
        self.watches(watch, move |object| mapper.key(object.head()))
    }

    /// Wakes what `keys` says.
    pub(crate) fn watches<T, I>(
        &self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<Source, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        let (informer, predicate) = watch.open(&self.factory)?;
        self.connect(informer, predicate, keys, LooksBack::Yes)
    }

    /// Turns the events of an informer into keys in the queue.
    pub(crate) fn connect<T, I>(
        &self,
        informer: SharedInformer<T>,
        predicate: Option<Predicate<T>>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
        looks_back: LooksBack,
    ) -> Result<Source, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        let (queue, priority) = (self.queue.clone(), Arc::clone(&self.priority));
        let resource = informer.resource().clone();
        let handler = move |event: Event<T>| {
            if predicate.as_ref().is_some_and(|predicate| !predicate.passes(&event)) {
                return;
            }
            let cause = Cause::of(&resource, &event);
            let mut woken: Vec<ObjectKey> = keys(event.object()).into_iter().collect();
            if let Event::Updated { old, .. } = &event
                && looks_back == LooksBack::Yes
                && !event.is_resync()
            {
                woken.extend(keys(old));
                // Mostly it leads to the same, which is one cause and not two.
                woken.sort_unstable();
                woken.dedup();
            }
            for key in woken {
                wake(&queue, &priority, key, cause.clone());
            }
        };
        let options = HandlerOptions::new().name(format!("controller {}", self.controller));
        let registration = informer.add_handler_with(options, handler)?;
        Ok(Source::new(informer, Some(registration)))
    }

    /// Puts a key into the queue.
    pub(crate) fn wake(&self, key: ObjectKey, cause: Cause) {
        wake(&self.queue, &self.priority, key, cause);
    }
}

fn wake(queue: &Queue, priority: &PriorityPolicy, key: ObjectKey, cause: Cause) {
    let priority = priority(&key, &cause);
    // A queue that is shut down takes nothing: the controller has stopped.
    let _ = queue.add_with(key, Add::now().priority(priority).cause(cause));
}

/// What was there before, or has not changed, lets others pass.
pub(crate) fn default_priority() -> PriorityPolicy {
    Arc::new(|_, cause| if cause.is_patient() { Priority::Low } else { Priority::Normal })
}
