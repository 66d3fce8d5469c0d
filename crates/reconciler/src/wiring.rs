//! How events become keys: the handler that a controller adds to each of its informers.
//!
//! Predicates and mappers are user code and may panic, which is logged. An event whose predicate
//! panics counts. An event whose mapper panics leads to no key.

use std::sync::Arc;

use futures::StreamExt as _;
use windlass_indexer::{ByController, Cached, ObjectKey, Reader};
use windlass_informer::{
    Event, HandlerOptions, InformerError, Resource, SharedInformer, SharedInformerFactory,
};

use crate::annotations::annotation;
use crate::bounds::ObjectType;
use crate::cause::Cause;
use crate::error::Error;
use crate::guard::{FIX, caught};
use crate::key_stream::{KeyStream, Streams};
use crate::mapping::mapped;
use crate::ownership::owners_of;
use crate::pause::Pause;
use crate::predicate::{AnyEvent, AnyFilter, Predicate};
use crate::source::Source;
use crate::tools::Tools;
use crate::watch::{OwnedBy, Watch};

/// Connects informers to the queue of one controller.
pub(crate) struct Wiring {
    pub(crate) tools: Arc<Tools>,
    pub(crate) factory: SharedInformerFactory,
    /// The resource that is reconciled, and its cache.
    pub(crate) primary: (Resource, Reader),
    pub(crate) streams: Arc<Streams>,
    /// For the events of all sources.
    pub(crate) filter: Option<AnyFilter>,
}

/// Decides which events of one source count.
pub(crate) struct EventFilter<T> {
    pub(crate) controller: Arc<str>,
    pub(crate) resource: Resource,
    predicate: Predicate<T>,
    of_all: Option<AnyFilter>,
    /// For the reconciled objects: an object that is no longer paused runs, whatever the predicates
    /// say.
    pause: Option<Pause>,
}

impl<T: 'static> EventFilter<T> {
    pub(crate) fn passes(&self, event: &Event<T>) -> bool {
        let passes = caught(|| {
            self.predicate.passes(event)
                && self.of_all.as_ref().is_none_or(|of| of(&AnyEvent::of(&self.resource, event)))
        });
        let passes = passes.unwrap_or_else(|| {
            self.report_panic("predicate", "the event counts", event);
            true
        });
        passes || self.pause.as_ref().is_some_and(|pause| toggles_pause(pause, event))
    }

    pub(crate) fn report_mapper_panic(&self, event: &Event<T>) {
        self.report_panic("mapper", "what the event leads to is not reconciled", event);
    }

    fn report_panic(&self, what: &str, consequence: &str, event: &Event<T>) {
        let Self { controller, resource, .. } = self;
        tracing::error!(
            controller = &**controller, %resource, object = %event.key(),
            "the {what} of a watch panicked; {consequence}; {FIX}"
        );
    }
}

/// Whether an update paused an object, or ended its pause.
fn toggles_pause<T>(pause: &Pause, event: &Event<T>) -> bool {
    match event {
        Event::Updated { old, new } => pause.has_changed(old.object(), new.object()),
        Event::Added { .. } | Event::Deleted { .. } => false,
    }
}

impl Wiring {
    /// The source of the objects that are reconciled.
    pub(crate) fn reconciles<T: ObjectType>(
        &self,
        informer: SharedInformer<T>,
        predicate: Predicate<T>,
    ) -> Result<Source, InformerError> {
        let pause = self.tools.pause.clone();
        if pause.annotation().is_some() {
            informer.require_bytes("pausing (`.paused_by(None)` switches it off)")?;
        }
        let filter = EventFilter { pause: Some(pause), ..self.filter_of(&informer, predicate)? };
        self.attach(informer, filter, |_, object| Some(object.key().clone()))
    }

    /// A source whose events enqueue nothing.
    pub(crate) fn reads<T: ObjectType>(&self, watch: Watch<T>) -> Result<Source, InformerError> {
        let (informer, _) = watch.open(&self.factory)?;
        Ok(Source::new(informer, None))
    }

    /// A source whose events enqueue the owners of the object.
    pub(crate) fn owns<T: ObjectType>(&self, watch: Watch<T>) -> Result<Source, InformerError> {
        // For `RunContext::owned`.
        let watch = watch.with_index(ByController);
        let owned_by = watch.owned_by_setting().clone();
        let (informer, filter) = self.open(watch)?;
        let (owner, owners) = self.primary.clone();
        if let OwnedBy::Annotation(name) = owned_by {
            informer.require_bytes("`OwnedBy::Annotation`")?;
            return self.attach(informer, filter, move |_, object| {
                annotation(object.object(), &name).and_then(|key| key.parse::<ObjectKey>().ok())
            });
        }
        let is_controller_only = matches!(owned_by, OwnedBy::Controller);
        self.attach(informer, filter, move |event, object| {
            let is_meant = |(key, uid): &(ObjectKey, _)| {
                let is_other = owners.get(key).is_some_and(|present| present.head().uid() != *uid);
                // An object with the name of the owner, but another uid, is not the owner: it was
                // created later. A deletion counts for it, too: the deleted object was in its way.
                !is_other || matches!(event, Event::Deleted { .. })
            };
            let owners = owners_of(object.head(), &owner, is_controller_only);
            owners.filter(is_meant).map(|(key, _)| key).collect::<Vec<_>>()
        })
    }

    /// A source whose events enqueue the keys that `keys` returns.
    pub(crate) fn watches<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        &self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<Source, InformerError> {
        let (informer, filter) = self.open(watch)?;
        self.attach(informer, filter, move |_, object| keys(object))
    }

    /// A source whose events enqueue the keys that the future of `map` returns.
    pub(crate) fn watches_changes<T, F, R, I>(
        &self,
        watch: Watch<T>,
        map: F,
    ) -> Result<Source, InformerError>
    where
        T: ObjectType,
        F: FnOnce(Event<T>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<I, Error>> + Send + 'static,
        I: IntoIterator<Item = ObjectKey> + Send + 'static,
    {
        let (informer, filter) = self.open(watch)?;
        let name = format!("changes of {}", informer.resource()).into();
        let events = informer.subscribe_with(self.handler_options())?;
        let source = Source::new(informer, None);
        let wakes = mapped(events, filter, map).take_until(source.wait_for_removal());
        self.streams.add(KeyStream { name, wakes: Box::pin(wakes) });
        Ok(source)
    }

    fn open<T: ObjectType>(
        &self,
        watch: Watch<T>,
    ) -> Result<(SharedInformer<T>, EventFilter<T>), InformerError> {
        let (informer, predicate) = watch.open(&self.factory)?;
        let filter = self.filter_of(&informer, predicate)?;
        Ok((informer, filter))
    }

    fn filter_of<T: ObjectType>(
        &self,
        informer: &SharedInformer<T>,
        predicate: Predicate<T>,
    ) -> Result<EventFilter<T>, InformerError> {
        if predicate.reads_annotations() {
            informer.require_bytes("`Predicate::annotated`")?;
        }
        Ok(EventFilter {
            controller: Arc::clone(&self.tools.controller),
            resource: informer.resource().clone(),
            predicate,
            of_all: self.filter.clone(),
            pause: None,
        })
    }

    fn handler_options(&self) -> HandlerOptions {
        HandlerOptions::new().name(format!("controller {}", self.tools.controller))
    }

    /// Adds a handler to an informer. For each event that the filter passes, it enqueues what
    /// `keys` returns for the object; for an update also what it returns for the old version.
    fn attach<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        &self,
        informer: SharedInformer<T>,
        filter: EventFilter<T>,
        keys: impl Fn(&Event<T>, &Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<Source, InformerError> {
        // A clone of `tools` would be a reference cycle: its sources hold the informer, which holds
        // this handler.
        let enqueuer = self.tools.enqueuer.clone();
        let handler = move |event: Event<T>| {
            if !filter.passes(&event) {
                return;
            }
            let map = |object: &Cached<T>| {
                let mapped = caught(|| keys(&event, object).into_iter().collect::<Vec<_>>());
                mapped.unwrap_or_else(|| {
                    filter.report_mapper_panic(&event);
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
            let cause = Cause::of(&filter.resource, &event);
            for key in to_add {
                enqueuer.wake(key, cause.clone());
            }
        };
        let registration = informer.add_handler_with(self.handler_options(), handler)?;
        Ok(Source::new(informer, Some(registration)))
    }
}
