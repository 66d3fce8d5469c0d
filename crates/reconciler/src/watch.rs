//! What a controller watches: a resource, read as a type, and which of its events count.

use std::fmt;

use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;
use windlass_informer::{
    InformerError, InformerOptions, Resource, Scope, SharedInformer, SharedInformerFactory,
};

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
/// // Of secrets nothing but metadata is asked for.
/// let secrets = Watch::metadata_of::<Secret>();
/// # drop((deployments, secrets));
/// ```
#[must_use]
pub struct Watch<T> {
    resource: Resource,
    is_metadata_only: bool,
    options: Box<dyn FnOnce(InformerOptions) -> InformerOptions + Send>,
    predicate: Option<Predicate<T>>,
}

impl<T> Watch<T>
where
    T: kube::Resource<DynamicType = (), Scope: Scope> + DeserializeOwned + Send + Sync + 'static,
{
    /// All objects of a type.
    pub fn new() -> Self {
        Self::of(Resource::of::<T>())
    }
}

impl Watch<()> {
    /// All objects of a type, their metadata only.
    pub fn metadata_of<U>() -> Watch<PartialObjectMeta<U>>
    where
        U: kube::Resource<DynamicType = (), Scope: Scope>,
    {
        Watch { is_metadata_only: true, ..Watch::of(Resource::of::<U>()) }
    }
}

impl<T> Watch<T> {
    /// All objects of a resource, read as any type.
    pub fn of(resource: Resource) -> Self {
        Self {
            resource,
            is_metadata_only: false,
            options: Box::new(|options| options),
            predicate: None,
        }
    }

    /// The informer, made otherwise: namespaces, selectors, layout. Called again, it changes what it has become.
    pub fn options(
        mut self,
        change: impl FnOnce(InformerOptions) -> InformerOptions + Send + 'static,
    ) -> Self {
        let before = self.options;
        self.options = Box::new(|options| change(before(options)));
        self
    }

    /// What is watched.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }
}

impl<T: 'static> Watch<T> {
    /// Only events that pass are worth a run. Called again, they have to pass both.
    pub fn when(mut self, predicate: Predicate<T>) -> Self {
        self.predicate = Some(match self.predicate.take() {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> Watch<T> {
    /// The informer, from the factory, and what counts of its events.
    pub(crate) fn open(
        self,
        factory: &SharedInformerFactory,
    ) -> Result<(SharedInformer<T>, Option<Predicate<T>>), InformerError> {
        let informer = if self.is_metadata_only {
            factory.metadata_of(&self.resource, self.options)?
        } else {
            factory.informer_of(&self.resource, self.options)?
        };
        Ok((informer, self.predicate))
    }
}

impl<T> Default for Watch<T>
where
    T: kube::Resource<DynamicType = (), Scope: Scope> + DeserializeOwned + Send + Sync + 'static,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.resource).finish()
    }
}
