//! How events become keys: the sources of a controller, and the handler that it adds to the
//! informer of each.
//!
//! A mapper is user code and may panic, which is logged. The keys of the other version are
//! enqueued. The event, and those that follow while it waits, go to a stream of the controller,
//! which maps them again.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use windlass_indexer::{ByController, Cached, Index, ObjectKey, ObjectType};
use windlass_informer::{Event, HandlerOptions, InformerError, SharedInformer};

use crate::cause::Cause;
use crate::controller_core::ControllerCore;
use crate::guard::caught;
use crate::objects::ownership::{ReferredOwner, owners_of};
use crate::sources::filter::EventFilter;
use crate::sources::key_stream::KeyStream;
use crate::sources::log_limit::LogLimit;
use crate::sources::mapping::{Mapper, Pending, erase_mapper, passing_events};
use crate::sources::pause::{PauseFilter, annotation};
use crate::sources::predicate::Predicate;
use crate::sources::source::Source;
use crate::sources::watch::{OwnedBy, Watch};

impl ControllerCore {
    /// The source of the objects that are reconciled.
    pub(crate) fn primary_source<T: ObjectType>(
        &self,
        informer: &SharedInformer<T>,
        predicate: Predicate<T>,
    ) -> Result<Source, InformerError> {
        let mut filter = self.event_filter(informer, predicate)?;
        if self.pause.annotation().is_some() {
            informer.require_bytes("pausing (`.pausable()` or `.paused_by(…)`)")?;
            let (pause, inactive) = (self.pause.clone(), Arc::clone(&self.inactive));
            filter.pause = Some(PauseFilter { pause, inactive });
        }
        self.attach(informer, filter, |_, object| Some(object.key().clone()), None)
    }

    /// A source whose events enqueue nothing.
    pub(crate) fn read_only_source<T: ObjectType>(
        &self,
        watch: Watch<T>,
    ) -> Result<Source, InformerError> {
        let (informer, _) = watch.open(&self.factory)?;
        Ok(Source::new(&informer, None))
    }

    /// A source whose events enqueue the owners of the object.
    pub(crate) fn owned_source<T: ObjectType>(
        &self,
        watch: Watch<T>,
    ) -> Result<Source, InformerError> {
        // For `RunContext::owned`.
        let watch = watch.with_index(ByController);
        let owned_by = watch.owned_by.clone();
        let (informer, filter) = self.open(watch)?;
        if let OwnedBy::Annotation(name) = owned_by {
            informer.require_bytes("`OwnedBy::Annotation`")?;
            let owner = move |_: &Event<T>, object: &Cached<T>| {
                annotation(object.object(), &name).and_then(|key| key.parse::<ObjectKey>().ok())
            };
            return self.attach(&informer, filter, owner, None);
        }
        let is_controller_only = owned_by == OwnedBy::Controller;
        let (primary, owners) = (self.primary.clone(), self.objects.clone());
        let owners = move |event: &Event<T>, object: &Cached<T>| {
            let is_wanted_owner = |owner: &ReferredOwner<'_>| {
                let present = owners.get(&owner.key);
                // If the cached object of that name has another uid, the owner is gone.
                let is_gone = present.is_some_and(|present| present.head().uid() != owner.uid);
                // A deletion counts for the new object, too: the deleted child may have kept it
                // from creating one of the same name.
                !is_gone || matches!(event, Event::Deleted { .. })
            };
            let owners = owners_of(object.head(), &primary, is_controller_only);
            owners.filter(is_wanted_owner).map(|owner| owner.key).collect::<Vec<_>>()
        };
        self.attach(&informer, filter, owners, None)
    }

    /// A source whose events enqueue the keys that `keys` returns.
    pub(crate) fn watched_source<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        &self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<Source, InformerError> {
        let (informer, filter) = self.open(watch)?;
        let name = format!("changes of {}, mapped again", informer.resource()).into();
        let keys = Arc::new(move |_: &Event<T>, object: &Cached<T>| {
            // Collected here, because the iterator is the user's, too.
            keys(object).into_iter().collect::<Vec<_>>()
        });
        let again = Arc::clone(&keys);
        let map = erase_mapper(async move |event: Event<T>| {
            Ok(keys_of_versions(&event, |object| again(&event, object)))
        });
        let pending = Pending::new();
        let events = Box::pin(stream::pending());
        let items = self.mapped_items(informer.resource(), events, Arc::clone(&pending), map);
        let keys = move |event: &Event<T>, object: &Cached<T>| keys(event, object);
        let source = self.attach(&informer, filter, keys, Some(pending))?;
        let items = items.take_until(source.removed.clone().cancelled_owned());
        self.streams.add(KeyStream { name, items: Box::pin(items) });
        Ok(source)
    }

    /// Checks that the reconciled objects have an index.
    ///
    /// # Errors
    /// Returns an error if they do not.
    pub(crate) fn require_index<I: Index>(&self) -> Result<(), InformerError> {
        let missing = |error| InformerError::Index { resource: self.primary.clone(), error };
        self.objects.snapshot().index_values::<I>().map(drop).map_err(missing)
    }

    /// A source whose events enqueue the objects that refer to the changed one, found by an index.
    pub(crate) fn referred_source<T: ObjectType, I: Index<Value = ObjectKey>>(
        &self,
        watch: Watch<T>,
    ) -> Result<Source, InformerError> {
        let referring = self.objects.clone();
        self.watched_source(watch, move |object: &Cached<T>| {
            let found = referring.snapshot().by_index::<I>(object.key());
            let found = found.expect("the index must have been added with the primary");
            found.iter().map(|object| object.head().key().clone()).collect::<Vec<_>>()
        })
    }

    /// A source whose events enqueue the keys that the future of `map` returns.
    pub(crate) fn mapped_source<T: ObjectType>(
        &self,
        watch: Watch<T>,
        map: Mapper<T>,
    ) -> Result<Source, InformerError> {
        let (informer, filter) = self.open(watch)?;
        let name = format!("changes of {}", informer.resource()).into();
        let events = informer.subscribe_with(self.handler_options())?;
        let source = Source::new(&informer, None);
        let events = passing_events(events, filter);
        let items = self.mapped_items(informer.resource(), events, Pending::new(), map);
        let items = items.take_until(source.removed.clone().cancelled_owned());
        self.streams.add(KeyStream { name, items: Box::pin(items) });
        Ok(source)
    }

    fn open<T: ObjectType>(
        &self,
        watch: Watch<T>,
    ) -> Result<(SharedInformer<T>, EventFilter<T>), InformerError> {
        let (informer, predicate) = watch.open(&self.factory)?;
        let filter = self.event_filter(&informer, predicate)?;
        Ok((informer, filter))
    }

    fn event_filter<T: ObjectType>(
        &self,
        informer: &SharedInformer<T>,
        predicate: Predicate<T>,
    ) -> Result<EventFilter<T>, InformerError> {
        if predicate.reads_annotations {
            informer.require_bytes("`Predicate::annotated`")?;
        }
        Ok(EventFilter {
            controller: Arc::clone(&self.controller),
            resource: informer.resource().clone(),
            predicate,
            global: self.filter.clone(),
            pause: None,
            log_limit: LogLimit::default(),
        })
    }

    fn handler_options(&self) -> HandlerOptions {
        HandlerOptions::new().name(format!("controller {}", self.controller))
    }

    /// Adds a handler to an informer. For each event that the filter passes, it enqueues what
    /// `keys` returns for the object; for an update also what it returns for the old version. If
    /// that panics, it adds the event to `pending`.
    fn attach<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        &self,
        informer: &SharedInformer<T>,
        filter: EventFilter<T>,
        keys: impl Fn(&Event<T>, &Cached<T>) -> I + Send + Sync + 'static,
        pending: Option<Arc<Pending<T>>>,
    ) -> Result<Source, InformerError> {
        // Holding all of `self` would be a reference cycle: its sources hold the informer, which
        // holds this handler.
        let (enqueuer, mappers) = (self.enqueuer.clone(), Arc::clone(&self.mappers));
        let handler = move |event: Event<T>| {
            let passes = filter.passes(&event);
            if !passes && !matches!(event, Event::Deleted { .. }) {
                return;
            }
            let mut has_panicked = false;
            if passes {
                let to_add = keys_of_versions(&event, |object| {
                    let found = caught(|| keys(&event, object).into_iter().collect::<Vec<_>>());
                    found.unwrap_or_else(|| {
                        mappers.add_panic();
                        has_panicked = true;
                        Vec::new()
                    })
                });
                let cause = Cause::of(&filter.resource, &event);
                for key in to_add {
                    enqueuer.enqueue(key, cause.clone());
                }
            }
            let panicked = has_panicked.then(|| event.key().clone());
            let dropped = match &pending {
                // Without a panic, it is added only if an event of its object waits there.
                Some(pending) => pending.add(event, has_panicked),
                None => has_panicked.then_some(event),
            };
            match (dropped, panicked) {
                (Some(event), _) => {
                    mappers.add_given_up();
                    let consequence = "what the event leads to is not reconciled";
                    filter.report_mapper_panic(event.key(), consequence);
                }
                (None, Some(object)) => filter.report_mapper_panic(&object, "it is called again"),
                (None, None) => {}
            }
        };
        let registration = informer.add_handler_with(self.handler_options(), handler)?;
        Ok(Source::new(informer, Some(registration)))
    }
}

/// The keys that an object leads to, and for an update those that the old version leads to.
fn keys_of_versions<T>(
    event: &Event<T>,
    mut keys: impl FnMut(&Cached<T>) -> Vec<ObjectKey>,
) -> Vec<ObjectKey> {
    let mut found = keys(event.object());
    if let Event::Updated { old, .. } = event
        && !event.is_resync()
    {
        found.extend(keys(old));
        // Mostly both lead to the same key, which gets one cause and not two.
        found.sort_unstable();
        found.dedup();
    }
    found
}
