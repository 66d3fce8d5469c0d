//! A handle of a controller, for code that does not have the controller itself.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use futures::Stream;
use windlass_indexer::{Cached, Index, ObjectKey, ObjectType};
use windlass_informer::{Event, InformerError};

use crate::controller_core::ControllerCore;
use crate::error::Error;
use crate::history::finished::{FinishedRuns, RunSubscribers};
use crate::sources::key_stream::{KeyStream, Streams};
use crate::sources::mapping::erase_mapper;
use crate::sources::source::{Source, SourceId};
use crate::sources::watch::Watch;

/// Adds streams and sources to a controller while it runs, and shows its finished runs. Cheap to
/// clone.
///
/// A builder returns it, so it is there before a manager builds the controller:
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{Controller, Watch};
/// let builder = Controller::named("configmap", Watch::<ConfigMap>::new());
/// let handle = builder.handle();
/// // … give the builder to a manager, and later:
/// let keys = futures::stream::iter(["shop/web".parse()?]);
/// handle.add_stream("webhook", keys);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct ControllerHandle {
    pub(crate) streams: Arc<Streams>,
    pub(crate) subscribers: Arc<RunSubscribers>,
    /// Set when the controller is built. Weak, because a reconciler may hold a handle.
    core: Arc<OnceLock<Weak<ControllerCore>>>,
}

/// A [handle](ControllerHandle) cannot add a source to its controller.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddSourceError {
    /// There is no controller.
    #[error(
        "there is no controller to add a source to: it is not built yet, or it was dropped; add \
         sources while it runs, or use the methods of its builder"
    )]
    NoController,
    /// The informer cannot be created.
    #[error(transparent)]
    Informer(#[from] InformerError),
}

impl ControllerHandle {
    /// Adds a stream of keys, like [`ControllerBuilder::stream`](crate::ControllerBuilder::stream).
    /// It is polled while the controller runs.
    pub fn add_stream(
        &self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) {
        self.streams.add(KeyStream::of_keys(name, keys));
    }

    /// Adds a source like [`owns`](crate::ControllerBuilder::owns), for a kind that is known only
    /// at run time. See [`add_watched`](Self::add_watched). It declares no kind of
    /// [children](crate::RunContext::children): use
    /// [`makes_any`](crate::ControllerBuilder::makes_any).
    ///
    /// # Errors
    /// As [`add_watched`](Self::add_watched).
    pub fn add_owned<T: ObjectType>(&self, watch: Watch<T>) -> Result<SourceId, AddSourceError> {
        self.add(|core| core.owned_source(watch))
    }

    /// Adds a source like [`watches`](crate::ControllerBuilder::watches), for a kind that is known
    /// only at run time. A reconciler can do so in a run. Runs do not wait for its cache, so an
    /// object that the cache does not show may exist; read it [live](crate::RunContext::live_of).
    ///
    /// # Errors
    /// Returns an error if the informer cannot be created, or if there is no controller: it is not
    /// built yet, or was dropped.
    pub fn add_watched<T: ObjectType, I: IntoIterator<Item = ObjectKey>>(
        &self,
        watch: Watch<T>,
        keys: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<SourceId, AddSourceError> {
        self.add(|core| core.watched_source(watch, keys))
    }

    /// Adds a source like [`watches_changes`](crate::ControllerBuilder::watches_changes), for a
    /// kind that is known only at run time. See [`add_watched`](Self::add_watched).
    ///
    /// # Errors
    /// As [`add_watched`](Self::add_watched).
    pub fn add_watched_changes<T, F, R, I>(
        &self,
        watch: Watch<T>,
        map: F,
    ) -> Result<SourceId, AddSourceError>
    where
        T: ObjectType,
        F: FnOnce(Event<T>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<I, Error>> + Send + 'static,
        I: IntoIterator<Item = ObjectKey> + Send + 'static,
    {
        self.add(|core| core.mapped_source(watch, erase_mapper(map)))
    }

    /// Adds a source like [`refers_to`](crate::ControllerBuilder::refers_to), for a kind that is
    /// known only at run time. The index must be one of the reconciled objects already.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube::api::DynamicObject;
    /// # use windlass_indexer::{Head, Index, ObjectKey};
    /// # use windlass_informer::Resource;
    /// # use windlass_reconciler::{AddSourceError, Controller, ControllerHandle, Watch};
    /// # #[derive(Clone, PartialEq)]
    /// # struct ByReference;
    /// # impl Index for ByReference {
    /// #     type View = ();
    /// #     type Value = ObjectKey;
    /// #     fn values(&self, _: &Head, _: ()) -> Option<ObjectKey> { None }
    /// # }
    /// let watch = Watch::<ConfigMap>::new().options(|informer| informer.index(ByReference));
    /// let builder = Controller::named("configmap", watch);
    /// let handle = builder.handle();
    /// // … give the handle to the reconciler, which learns in a run what its object refers to:
    /// fn follow(handle: &ControllerHandle, resource: Resource) -> Result<(), AddSourceError> {
    ///     handle.add_referred::<DynamicObject, ByReference>(Watch::of(resource))?;
    ///     Ok(())
    /// }
    /// # drop((builder, handle));
    /// ```
    ///
    /// # Errors
    /// As [`add_watched`](Self::add_watched), and if the reconciled objects have no such index.
    pub fn add_referred<T: ObjectType, I: Index<Value = ObjectKey>>(
        &self,
        watch: Watch<T>,
    ) -> Result<SourceId, AddSourceError> {
        self.add(|core| {
            core.require_index::<I>()?;
            core.referred_source::<T, I>(watch)
        })
    }

    /// Removes a source that was added. Its informer stops if nobody else uses it. Returns whether
    /// the source was there.
    pub fn remove(&self, source: SourceId) -> bool {
        self.core().is_some_and(|core| core.sources.remove(source))
    }

    /// The runs that end from now on, each with its key. Reading them is optional: a slow reader
    /// [misses](FinishedRuns::missed) runs, and slows nothing down.
    #[must_use]
    pub fn finished(&self) -> FinishedRuns {
        self.subscribers.add()
    }

    /// The controller is built.
    pub(crate) fn attach(&self, core: &Arc<ControllerCore>) {
        // A builder builds one controller, so there is none yet.
        let _ = self.core.set(Arc::downgrade(core));
    }

    /// Adds a source to the controller, and starts its informer.
    fn add(
        &self,
        source: impl FnOnce(&ControllerCore) -> Result<Source, InformerError>,
    ) -> Result<SourceId, AddSourceError> {
        let core = self.core().ok_or(AddSourceError::NoController)?;
        let mut source = source(&core)?;
        source.is_late = true;
        let id = core.sources.add(source);
        core.factory.start();
        Ok(id)
    }

    fn core(&self) -> Option<Arc<ControllerCore>> {
        self.core.get().and_then(Weak::upgrade)
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle").finish_non_exhaustive()
    }
}
