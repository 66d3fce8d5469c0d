//! What a controller watches: a resource, read as a type, and which of its events count.

use std::fmt;

use kube::core::PartialObjectMeta;
use windlass_informer::{
    InformerError, InformerOptions, Resource, SharedInformer, SharedInformerFactory,
};

use crate::bounds::{ObjectType, StaticResource};
use crate::predicate::Predicate;

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
    is_metadata_only: bool,
    options: Box<dyn FnOnce(InformerOptions) -> InformerOptions + Send>,
    predicate: Predicate<T>,
}

impl<T: StaticResource + ObjectType> Watch<T> {
    /// All objects of a type.
    pub fn new() -> Self {
        Self::of(Resource::of::<T>())
    }
}

impl Watch<()> {
    /// The metadata of all objects of a type.
    pub fn metadata_of<U: StaticResource + 'static>() -> Watch<PartialObjectMeta<U>> {
        Watch { is_metadata_only: true, ..Watch::of(Resource::of::<U>()) }
    }
}

impl<T: 'static> Watch<T> {
    /// All objects of a resource, read as any type.
    pub fn of(resource: Resource) -> Self {
        Self {
            resource,
            is_metadata_only: false,
            options: Box::new(|options| options),
            predicate: Predicate::new(|_| true),
        }
    }

    /// Changes the options of the informer: namespaces, selectors, layout. Several calls add up.
    pub fn options(
        mut self,
        change: impl FnOnce(InformerOptions) -> InformerOptions + Send + 'static,
    ) -> Self {
        let before = self.options;
        self.options = Box::new(|options| change(before(options)));
        self
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
}

impl<T: ObjectType> Watch<T> {
    /// Gets the informer from the factory. Returns it with the predicate for its events.
    pub(crate) fn open(
        self,
        factory: &SharedInformerFactory,
    ) -> Result<(SharedInformer<T>, Predicate<T>), InformerError> {
        let informer = if self.is_metadata_only {
            factory.metadata_of(&self.resource, self.options)?
        } else {
            factory.informer_of(&self.resource, self.options)?
        };
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
