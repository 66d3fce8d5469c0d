//! What makes a key run: objects of other kinds, and streams.

use std::sync::Arc;

use futures::Stream;
use windlass_indexer::{Cached, ObjectKey};
use windlass_informer::{Event, Resource};

use super::ControllerBuilder;
use crate::bounds::{ObjectType, StaticResource};
use crate::error::Error;
use crate::handle::ControllerHandle;
use crate::key_stream::KeyStream;
use crate::predicate::AnyEvent;
use crate::watch::Watch;

impl<K: ObjectType> ControllerBuilder<K> {
    /// Runs an object when another object changes that it owns: as its controller, or as
    /// [`Watch::owned_by`] says. Adds the index for
    /// [`RunContext::owned`](crate::RunContext::owned).
    pub fn owns<T: ObjectType>(mut self, watch: Watch<T>) -> Self {
        self.sources.push(Box::new(move |wiring| wiring.owns(watch)));
        self
    }

    /// Runs the objects whose keys `keys` returns when an object of another kind changes. For an
    /// update, it is called with the old and the new version. It must not wait; for a mapper that
    /// does, see [`watches_changes`](Self::watches_changes).
    pub fn watches<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        mut self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Self {
        self.sources.push(Box::new(move |wiring| wiring.watches(watch, keys)));
        self
    }

    /// Runs the objects whose keys `map` returns for a change of an object of another kind. It gets
    /// the old and the new version, may wait, and may fail.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use windlass_informer::{Event, Resource};
    /// # use windlass_reconciler::{Controller, ControllerBuilder, Watch};
    /// # fn builder() -> ControllerBuilder<ConfigMap> {
    /// let configs = Controller::of(Watch::<ConfigMap>::new());
    /// configs.watches_changes(Watch::<Secret>::new(), async |event| {
    ///     let secret = event.object().get()?;
    ///     // Only if the data has changed.
    ///     let is_same = match &event {
    ///         Event::Updated { old, .. } => old.get()?.data == secret.data,
    ///         _ => false,
    ///     };
    ///     Ok((!is_same).then(|| event.key().clone()))
    /// })
    /// # }
    /// ```
    ///
    /// One event is mapped at a time, while the controller runs; runs do not wait for it. Changes
    /// of one object may merge meanwhile, as for a slow handler. If the mapper fails, it is called
    /// again, up to six times within half a minute. Then the failure is logged, and the event is
    /// dropped. If the error is [terminal](Error::terminal), or the mapper panics, this happens at
    /// once. The closure is cloned for every call.
    pub fn watches_changes<T, F, R, I>(mut self, watch: Watch<T>, map: F) -> Self
    where
        T: ObjectType,
        F: FnOnce(Event<T>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<I, Error>> + Send + 'static,
        I: IntoIterator<Item = ObjectKey> + Send + 'static,
    {
        self.sources.push(Box::new(move |wiring| wiring.watches_changes(watch, map)));
        self
    }

    /// Declares a kind of [children](crate::RunContext::children) that an earlier version of this
    /// controller created, and this one does not. What is left of it is found and deleted, even if
    /// the annotation of the owner that lists its kinds is lost. The account must keep the rights
    /// to list and delete the kind.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use windlass_reconciler::{Controller, ControllerBuilder, Watch};
    /// # fn builder() -> ControllerBuilder<ConfigMap> {
    /// Controller::of(Watch::<ConfigMap>::new()).retires::<Secret>()
    /// # }
    /// ```
    pub fn retires<T: StaticResource>(mut self) -> Self {
        self.retired.push(Resource::of::<T>());
        self
    }

    /// Adds a cache that is only read, by `cx.get`, `cx.list` and `cx.cache`. It is complete before
    /// the first run. Its events enqueue no keys.
    pub fn reads<T: ObjectType>(mut self, watch: Watch<T>) -> Self {
        self.sources.push(Box::new(move |wiring| wiring.reads(watch)));
        self
    }

    /// Runs the objects whose keys the stream yields, for example from outside of the cluster. The
    /// name appears in the [cause](crate::Cause::Source) of a run. A receiver of `tokio` becomes a
    /// stream by `futures::stream::poll_fn(move |cx| receiver.poll_recv(cx))`. A
    /// [handle](Self::handle) adds streams later.
    pub fn stream(
        self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) -> Self {
        self.handle.streams.add(KeyStream::of_keys(name, keys));
        self
    }

    /// Runs all objects whenever the stream yields something, such as a new configuration. The name
    /// appears in the [cause](crate::Cause::Source) of a run.
    pub fn reconcile_all_on<T>(
        self,
        name: impl Into<Arc<str>>,
        occasions: impl Stream<Item = T> + Send + 'static,
    ) -> Self {
        self.handle.streams.add(KeyStream::of_all(name, occasions));
        self
    }

    /// Ignores events, of all sources, for which `passes` returns `false`. It sees the metadata of
    /// the objects. The predicate of a single source is [`Watch::when`]; an event has to pass both.
    /// After several calls, an event must pass all of the predicates. Keys of streams are not
    /// filtered.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_reconciler::{Controller, Watch};
    /// // Nothing that is being deleted leads to a run, whatever its kind.
    /// let builder = Controller::of(Watch::<ConfigMap>::new())
    ///     .when(|event| event.head().deletion_timestamp().is_none());
    /// # drop(builder);
    /// ```
    pub fn when(mut self, passes: impl Fn(&AnyEvent<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(match self.filter {
            None => Arc::new(passes),
            Some(before) => Arc::new(move |event: &AnyEvent<'_>| before(event) && passes(event)),
        });
        self
    }

    /// A handle of the controller that will be built: it adds streams, and shows finished runs.
    pub fn handle(&self) -> ControllerHandle {
        self.handle.clone()
    }
}
