//! How events become keys: the handler that a controller adds to each of its informers.
//!
//! Predicates, mappers and policies are the user's, and may panic, which is logged. An event whose
//! predicate panics counts, and a key whose policy panics is as urgent as others, so neither loses
//! a key. An event whose mapper panics leads to no key.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use windlass_indexer::{Cached, ObjectKey, Reader};
use windlass_informer::{
    Event, HandlerOptions, InformerError, Resource, SharedInformer, SharedInformerFactory,
};
use windlass_workqueue::Add;

use crate::cause::Cause;
use crate::controller::Queue;
use crate::guard::{FIX, caught};
use crate::owner::OwnerMapper;
use crate::predicate::Predicate;
use crate::priority::PriorityPolicy;
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
        let (informer, predicate) = watch.open(&self.factory)?;
        self.attach(
            informer,
            predicate,
            move |event, object| match event {
                Event::Deleted { .. } => mapper.key_of_gone(object.head()),
                Event::Added { .. } | Event::Updated { .. } => mapper.key(object.head()),
            },
            LooksBack::Yes,
        )
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
        self.attach(informer, predicate, move |_, object| keys(object), looks_back)
    }

    /// The same, with keys that depend on the event, too. They are asked for an object of it.
    fn attach<T, I>(
        &self,
        informer: SharedInformer<T>,
        predicate: Option<Predicate<T>>,
        keys: impl Fn(&Event<T>, &Cached<T>) -> I + Send + Sync + 'static,
        looks_back: LooksBack,
    ) -> Result<Source, InformerError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        let (waker, resource) = (self.waker(), informer.resource().clone());
        let handler = move |event: Event<T>| {
            let passes = |predicate: &Predicate<T>| {
                let passes = caught(|| predicate.passes(&event));
                passes.unwrap_or_else(|| {
                    waker.complain(&resource, event.key(), "predicate", "the event counts");
                    true
                })
            };
            if !predicate.as_ref().is_none_or(passes) {
                return;
            }
            let mapped = |object: &Cached<T>| {
                let keys = caught(|| keys(&event, object).into_iter().collect::<Vec<_>>());
                keys.unwrap_or_else(|| {
                    let lost = "what the event leads to is not reconciled";
                    waker.complain(&resource, event.key(), "mapper", lost);
                    Vec::new()
                })
            };
            let mut woken = mapped(event.object());
            if let Event::Updated { old, .. } = &event
                && looks_back == LooksBack::Yes
                && !event.is_resync()
            {
                woken.extend(mapped(old));
                // Mostly it leads to the same, which is one cause and not two.
                woken.sort_unstable();
                woken.dedup();
            }
            let cause = Cause::of(&resource, &event);
            for key in woken {
                waker.wake(key, cause.clone());
            }
        };
        let options = HandlerOptions::new().name(format!("controller {}", self.controller));
        let registration = informer.add_handler_with(options, handler)?;
        Ok(Source::new(informer, Some(registration)))
    }

    /// Puts a key into the queue.
    pub(crate) fn wake(&self, key: ObjectKey, cause: Cause) {
        self.waker().wake(key, cause);
    }

    fn waker(&self) -> Enqueuer {
        Enqueuer {
            queue: self.queue.clone(),
            controller: Arc::clone(&self.controller),
            priority: self.priority.clone(),
        }
    }
}

/// The part of the wiring that handlers have. They must not hold the factory, which holds them.
struct Enqueuer {
    queue: Queue,
    controller: Arc<str>,
    priority: PriorityPolicy,
}

impl Enqueuer {
    fn wake(&self, key: ObjectKey, cause: Cause) {
        let priority = self.priority.of(&self.controller, &key, &cause);
        // A queue that is shut down takes nothing: the controller has stopped.
        let _ = self.queue.add_with(key, Add::now().priority(priority).cause(cause));
    }

    /// Code of the user's has panicked over an event.
    fn complain(&self, resource: &Resource, object: &ObjectKey, what: &str, so: &str) {
        let controller = &*self.controller;
        tracing::error!(
            controller, %resource, %object,
            "the {what} of a watch panicked; {so}; {FIX}"
        );
    }
}
