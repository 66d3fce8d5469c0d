//! What a controller watches: a resource, read as a type, and which of its events count.

use std::fmt;

use kube::core::PartialObjectMeta;
use windlass_indexer::{Index, ObjectType};
use windlass_informer::{
    InformerError, InformerOptions, Resource, SharedInformer, SharedInformerFactory, StaticResource,
};

use crate::sources::predicate::Predicate;

/// One resource that a controller watches.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::Secret;
/// use windlass_reconciler::{Predicate, Watch};
///
/// // Deployments in one namespace, and not for changes of their status.
/// let deployments = Watch::<Deployment>::new()
///     .options(|informer| informer.namespace("shop"))
///     .when(Predicate::generation_changed());
/// // Of secrets, only the metadata is requested.
/// let secrets = Watch::metadata_of::<Secret>();
/// # drop((deployments, secrets));
/// ```
#[must_use]
pub struct Watch<T> {
    resource: Resource,
    opener: Opener<T>,
    /// What [`options`](Watch::options) has set.
    options: ChangeOptions,
    /// How the objects refer to their owner, if the controller owns them.
    pub(crate) owned_by: OwnedBy,
    predicate: Predicate<T>,
    /// What the controller itself looks up.
    indexes: Vec<AddIndex<T>>,
}

/// Adds an index to an informer.
type AddIndex<T> = Box<dyn FnOnce(&SharedInformer<T>) -> Result<(), InformerError> + Send>;

/// Gets the informer of a watch, from the factory of the controller or from the user.
type Opener<T> = Box<
    dyn FnOnce(
            &SharedInformerFactory,
            &Resource,
            ChangeOptions,
        ) -> Result<SharedInformer<T>, InformerError>
        + Send,
>;

/// Changes the options of an informer.
type ChangeOptions = Box<dyn FnOnce(InformerOptions) -> InformerOptions + Send>;

/// How an object refers to its owner, for [`ControllerBuilder::owns`].
///
/// [`ControllerBuilder::owns`]: crate::ControllerBuilder::owns
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnedBy {
    /// By the owner reference of its controller. An object has at most one.
    #[default]
    Controller,
    /// By any owner reference: every owner runs.
    AnyReference,
    /// By an annotation of this name with the key of the owner, as `namespace/name`, or the name
    /// alone if the owner has no namespace. For an owner in another namespace, which Kubernetes
    /// does not allow in owner references. It does not delete the object with its owner either: use
    /// a finalizer of the owner. A [resident](windlass_informer::InformerOptions::resident) cache
    /// has no annotations, so building such a controller is an error.
    Annotation(String),
}

impl<T: StaticResource + ObjectType> Watch<T> {
    /// All objects of a type.
    pub fn new() -> Self {
        Self::of(Resource::of::<T>())
    }
}

impl Watch<()> {
    /// The metadata of all objects of a type.
    pub fn metadata_of<U: StaticResource + Send + Sync + 'static>() -> Watch<PartialObjectMeta<U>> {
        Watch::opened_by(Resource::of::<U>(), Box::new(SharedInformerFactory::metadata_of))
    }
}

impl<T: ObjectType> Watch<T> {
    /// All objects of a resource, read as any type.
    pub fn of(resource: Resource) -> Self {
        Self::opened_by(resource, Box::new(SharedInformerFactory::informer_of))
    }

    /// What an informer of your own watches, from another factory or with a source of its own. You
    /// run it, and the controller waits until it is synced. It must be of the cluster to which the
    /// controller writes, because runs wait until it shows what was written.
    pub fn from_informer(informer: &SharedInformer<T>) -> Self {
        let informer = informer.clone();
        Self::opened_by(informer.resource().clone(), Box::new(|_, _, _| Ok(informer)))
    }

    fn opened_by(resource: Resource, opener: Opener<T>) -> Self {
        Self {
            resource,
            opener,
            options: Box::new(|options| options),
            owned_by: OwnedBy::default(),
            predicate: Predicate::new(|_| true),
            indexes: Vec::new(),
        }
    }

    /// Changes the options of the informer: namespaces, selectors, layout. Several calls add up.
    /// The options of an informer [of your own](Self::from_informer) do not change; an index is
    /// added to it by [`SharedInformer::add_index`].
    pub fn options(
        mut self,
        change: impl FnOnce(InformerOptions) -> InformerOptions + Send + 'static,
    ) -> Self {
        let before = self.options;
        self.options = Box::new(|options| change(before(options)));
        self
    }

    /// How the objects refer to their owner, for
    /// [`ControllerBuilder::owns`](crate::ControllerBuilder::owns). Default: by the owner reference
    /// of their controller.
    pub fn owned_by(self, owned_by: OwnedBy) -> Self {
        Self { owned_by, ..self }
    }

    /// Ignores events that do not pass the predicate. After several calls, an event must pass all
    /// of the predicates.
    pub fn when(mut self, predicate: Predicate<T>) -> Self {
        self.predicate = self.predicate.and(predicate);
        self
    }

    /// What is watched.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Adds an index that the controller itself needs, also to an informer of the user.
    pub(crate) fn with_index<I: Index>(mut self, index: I) -> Self {
        self.indexes.push(Box::new(|informer| informer.add_index(index)));
        self
    }

    /// Gets the informer from the factory, and adds the indexes. Returns it with the predicate for
    /// its events.
    pub(crate) fn open(
        self,
        factory: &SharedInformerFactory,
    ) -> Result<(SharedInformer<T>, Predicate<T>), InformerError> {
        let informer = (self.opener)(factory, &self.resource, self.options)?;
        for add_index in self.indexes {
            add_index(&informer)?;
        }
        Ok((informer, self.predicate))
    }
}

impl<T: StaticResource + ObjectType> Default for Watch<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.resource).finish()
    }
}
