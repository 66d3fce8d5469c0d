//! How events become keys: the handler that a controller adds to each of its informers.
//!
//! Predicates and mappers are user code and may panic, which is logged. An event whose predicate
//! panics counts. An event whose mapper panics leads to no key.

use windlass_indexer::{ByController, Cached, ObjectKey, Reader};
use windlass_informer::{
    Event, HandlerOptions, InformerError, Resource, SharedInformer, SharedInformerFactory,
};
use windlass_workqueue::Add;

use crate::bounds::ObjectType;
use crate::cause::Cause;
use crate::enqueue::Enqueuer;
use crate::guard::{FIX, caught};
use crate::ownership::owner_of;
use crate::predicate::Predicate;
use crate::source::Source;
use crate::watch::Watch;

/// Connects informers to the queue of one controller.
#[derive(Clone)]
pub(crate) struct Wiring {
    pub(crate) factory: SharedInformerFactory,
    pub(crate) enqueuer: Enqueuer,
    /// The resource that is reconciled, and its cache.
    pub(crate) primary: (Resource, Reader),
}

impl Wiring {
    /// A source whose events enqueue nothing.
    pub(crate) fn reads<T: ObjectType>(&self, watch: Watch<T>) -> Result<Source, InformerError> {
        let (informer, _) = watch.open(&self.factory)?;
        Ok(Source::new(informer, None))
    }

    /// A source whose events enqueue the controller owner of the object.
    pub(crate) fn owns<T: ObjectType>(&self, watch: Watch<T>) -> Result<Source, InformerError> {
        // For `RunContext::owned`.
        let watch = watch.options(|informer| informer.index(ByController));
        let (informer, predicate) = watch.open(&self.factory)?;
        let (owner, owners) = self.primary.clone();
        self.attach(informer, predicate, move |event, object| {
            let (key, uid) = owner_of(object.head(), &owner)?;
            let is_other = owners.get(&key).is_some_and(|present| present.head().uid() != uid);
            // An object with the name of the owner, but another uid, is not the owner: it was
            // created later. A deletion counts for it, too: the deleted object was in its way.
            let is_meant = !is_other || matches!(event, Event::Deleted { .. });
            is_meant.then_some(key)
        })
    }

    /// A source whose events enqueue the keys that `keys` returns.
    pub(crate) fn watches<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        &self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<Source, InformerError> {
        let (informer, predicate) = watch.open(&self.factory)?;
        self.attach(informer, predicate, move |_, object| keys(object))
    }

    /// Adds a handler to an informer. For each event that the predicate passes, it enqueues what
    /// `keys` returns for the object; for an update also what it returns for the old version.
    pub(crate) fn attach<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        &self,
        informer: SharedInformer<T>,
        predicate: Predicate<T>,
        keys: impl Fn(&Event<T>, &Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<Source, InformerError> {
        // Not the whole wiring: the handler must not hold the factory, which holds the handler.
        let (enqueuer, resource) = (self.enqueuer.clone(), informer.resource().clone());
        let handler = move |event: Event<T>| {
            let report = |what: &str, consequence: &str| {
                tracing::error!(
                    controller = &*enqueuer.controller, %resource, object = %event.key(),
                    "the {what} of a watch panicked; {consequence}; {FIX}"
                );
            };
            let passes = caught(|| predicate.passes(&event)).unwrap_or_else(|| {
                report("predicate", "the event counts");
                true
            });
            if !passes {
                return;
            }
            let map = |object: &Cached<T>| {
                let mapped = caught(|| keys(&event, object).into_iter().collect::<Vec<_>>());
                mapped.unwrap_or_else(|| {
                    report("mapper", "what the event leads to is not reconciled");
                    Vec::new()
                })
            };
            let mut to_add = map(event.object());
            if let Event::Updated { old, .. } = &event
                && !event.is_resync()
            {
                to_add.extend(map(old));
                // Mostly both lead to the same key, which gets one cause and not two.
                to_add.sort_unstable();
                to_add.dedup();
            }
            let cause = Cause::of(&resource, &event);
            for key in to_add {
                enqueuer.add(key, Add::now(), cause.clone());
            }
        };
        let name = format!("controller {}", self.enqueuer.controller);
        let options = HandlerOptions::new().name(name);
        let registration = informer.add_handler_with(options, handler)?;
        Ok(Source::new(informer, Some(registration)))
    }
}
