//! What makes a key run: objects of other kinds, and streams.

use std::sync::Arc;

use futures::Stream;
use windlass_indexer::{Cached, Index, ObjectKey, ObjectType};
use windlass_informer::{Event, Resource, StaticResource};

use super::ControllerBuilder;
use crate::controller::handle::ControllerHandle;
use crate::error::Error;
use crate::sources::key_stream::KeyStream;
use crate::sources::mapping::erase_mapper;
use crate::sources::predicate::AnyEvent;
use crate::sources::watch::Watch;

impl<K: ObjectType> ControllerBuilder<K> {
    /// Runs an object when another object changes that it owns: as its controller, or as
    /// [`Watch::owned_by`] says. Adds the index for
    /// [`RunContext::owned`](crate::RunContext::owned).
    ///
    /// It also declares that the controller makes [children](crate::RunContext::children) of this
    /// kind, as [`makes`](Self::makes) does. The cache of it saves requests: a child that is as it
    /// should be costs none.
    pub fn owns<T: ObjectType>(mut self, watch: Watch<T>) -> Self {
        self.child_kinds.add_made(watch.resource());
        self.sources.push(Box::new(move |core| core.owned_source(watch)));
        self
    }

    /// Runs the objects whose keys `keys` returns when an object of another kind changes. For an
    /// update, it is called with the old and the new version. It must not wait; for a mapper that
    /// does, see [`watches_changes`](Self::watches_changes).
    ///
    /// If it panics on one version, the keys of the other one run, and that is logged. While the
    /// controller runs, the event is then repeated as one of `watches_changes` is.
    pub fn watches<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        mut self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Self {
        self.sources.push(Box::new(move |core| core.watched_source(watch, keys)));
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
    /// let configs = Controller::named("configmap", Watch::<ConfigMap>::new());
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
    /// While the controller runs, the events of up to sixteen objects are mapped at a time; runs do
    /// not wait for them. The events of one object are mapped one after the other, and those that
    /// come meanwhile merge. An update that has merged is also shown to the mapper as an addition
    /// of the new version, because a run may have seen one in between that differs from both.
    ///
    /// If the mapper fails, panics, or takes longer than the [time limit](Self::timeout) for runs
    /// (five minutes if there is none), it is called again, without end: after a second, then after
    /// up to twice as long, at most 30 seconds, or when the error [asks](Error::retry_after) for
    /// it. A new event of the object makes that earlier, once in 30 seconds. At most eight calls
    /// under way are repetitions, so what fails again and again holds up no new event, and at most
    /// four of them are of objects whose mapper took too long. A first call that hangs holds its
    /// place until the time limit.
    ///
    /// An update that fails is also shown to the mapper as an addition of the new version, so that
    /// an old version that fails for ever does not hide it. If that works, the update is repeated
    /// for some minutes only, for what the old version led to.
    ///
    /// Two errors are final, and logged: a [terminal](Error::terminal) one, for an update if the
    /// new version alone leads to one, too, and that the changed object itself does not decode.
    /// What comes after that is mapped with the last version that did. The closure is cloned for
    /// every call.
    pub fn watches_changes<T, F, R, I>(mut self, watch: Watch<T>, map: F) -> Self
    where
        T: ObjectType,
        F: FnOnce(Event<T>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<I, Error>> + Send + 'static,
        I: IntoIterator<Item = ObjectKey> + Send + 'static,
    {
        self.sources.push(Box::new(move |core| core.mapped_source(watch, erase_mapper(map))));
        self
    }

    /// Runs the objects that refer to an object of another kind when that object changes. The index
    /// says to which ones an object refers, by key. It is added to the cache of the reconciled
    /// objects, where [`CacheView::by_index`](crate::CacheView::by_index) can use it, too. The
    /// cache of the other kind can be [read](crate::RunContext::get).
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{Pod, Secret};
    /// # use serde::Deserialize;
    /// use windlass_indexer::{Head, Index, ObjectKey};
    /// use windlass_reconciler::{Controller, Watch};
    ///
    /// /// Pods by the Secrets from which their images are pulled.
    /// #[derive(PartialEq)]
    /// struct ByPullSecret;
    ///
    /// /// What the index reads of a pod.
    /// #[derive(Deserialize)]
    /// struct Pulls { spec: PullSecrets }
    ///
    /// #[derive(Deserialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct PullSecrets { #[serde(default)] image_pull_secrets: Vec<Named> }
    ///
    /// #[derive(Deserialize)]
    /// struct Named { name: String }
    ///
    /// impl Index for ByPullSecret {
    ///     type View = Pulls;
    ///     type Value = ObjectKey;
    ///
    ///     fn values(&self, head: &Head, pulls: Pulls) -> impl IntoIterator<Item = ObjectKey> {
    ///         let namespace = head.namespace().unwrap_or_default();
    ///         let secrets = pulls.spec.image_pull_secrets.into_iter();
    ///         secrets.map(move |secret| ObjectKey::namespaced(namespace, &secret.name))
    ///     }
    /// }
    ///
    /// let pods = Controller::named("pod", Watch::<Pod>::new())
    ///     .refers_to(Watch::<Secret>::new(), ByPullSecret);
    /// # drop(pods);
    /// ```
    ///
    /// An object that begins to refer to another one has changed itself, so it runs anyway.
    ///
    /// An index is known by its type and its settings, so each kind that is referred to needs an
    /// index type of its own. Of one type, two that are equal are one, and two with other settings
    /// are an error when the controller is built.
    pub fn refers_to<T, I>(mut self, watch: Watch<T>, index: I) -> Self
    where
        T: ObjectType,
        I: Index<Value = ObjectKey>,
    {
        self.primary = self.primary.with_index(index);
        self.sources.push(Box::new(move |core| core.referred_source::<T, I>(watch)));
        self
    }

    /// Declares that the controller makes [children](crate::RunContext::children) of a kind,
    /// without a cache of it. Each prune lists the kind by its label, in the namespace of the
    /// owner; for a cluster-scoped owner, in all namespaces. The account needs the rights to get,
    /// list, create, patch and delete it.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use windlass_reconciler::{Controller, ControllerBuilder, Watch};
    /// # fn builder() -> ControllerBuilder<ConfigMap> {
    /// Controller::named("configmap", Watch::<ConfigMap>::new()).makes::<Secret>()
    /// # }
    /// ```
    pub fn makes<T: StaticResource>(self) -> Self {
        self.makes_of(&Resource::of::<T>())
    }

    /// Like [`makes`](Self::makes), for a kind that is known when the controller is built.
    pub fn makes_of(mut self, resource: &Resource) -> Self {
        self.child_kinds.add_made(resource);
        self
    }

    /// Allows [children](crate::RunContext::children) of kinds that are only known in a run.
    ///
    /// A prune looks at the kinds that are declared, at those of the objects in its set, and at
    /// those that [`Children::prune_of`](crate::Children::prune_of) names. **It does not find a
    /// child of any other kind**: if an owner had a child of an undeclared kind, and its set has
    /// none now, that child stays until its owner is deleted, unless the reconciler names its kind.
    /// So a reconciler stores where it will find them again, such as in the status of the owner,
    /// which kinds it has made, before it makes the first object of a kind.
    pub fn makes_any(mut self) -> Self {
        self.child_kinds.allow_any();
        self
    }

    /// Declares a kind of [children](crate::RunContext::children) that an earlier version of this
    /// controller made, and this one does not. What is left of it is listed once when the
    /// controller has started, for all owners, and deleted when its owner
    /// [prunes](crate::Children::prune) its set, even an empty one. The account must keep the
    /// rights to get, list and delete the kind.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use windlass_reconciler::{Controller, ControllerBuilder, Watch};
    /// # fn builder() -> ControllerBuilder<ConfigMap> {
    /// Controller::named("configmap", Watch::<ConfigMap>::new()).retires::<Secret>()
    /// # }
    /// ```
    pub fn retires<T: StaticResource>(mut self) -> Self {
        self.child_kinds.add_retired(&Resource::of::<T>());
        self
    }

    /// Adds a cache that is only read, by `cx.get`, `cx.list` and `cx.cache`. It is complete before
    /// the first run. Its events enqueue no keys.
    pub fn reads<T: ObjectType>(mut self, watch: Watch<T>) -> Self {
        self.sources.push(Box::new(move |core| core.read_only_source(watch)));
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
    /// let builder = Controller::named("configmap", Watch::<ConfigMap>::new())
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
