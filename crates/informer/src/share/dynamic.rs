//! Informers of kinds that are known at run time only: found by asking the server what it has.

use std::fmt;

use kube::Client;
use kube::core::{DynamicObject, GroupVersionKind, PartialObjectMeta};

use crate::error::InformerError;
use crate::resource::Resource;
use crate::share::factory::SharedInformerFactory;
use crate::share::informer::SharedInformer;
use crate::transport::discovery::DiscoveryError;

/// A factory for kinds that are known at run time only. Cheap to clone.
///
/// On a [`SharedInformerFactory`] ([`SharedInformerFactory::dynamic`]) it shares all informers with that; one made
/// by [`new`](Self::new) has a factory of its own. Starting, waiting and stopping are the factory's.
///
/// ```
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use kube::core::GroupVersionKind;
/// use windlass_informer::DynamicInformerFactory;
///
/// let dynamic = DynamicInformerFactory::new(client);
/// let foos = dynamic.informer(&GroupVersionKind::gvk("example.com", "v1", "Foo")).await?;
/// dynamic.factory().start();
/// foos.wait_for_sync().await?;
/// for foo in &foos.lister().list() {
///     println!("{}: {}", foo.key(), foo.get()?.data["spec"]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DynamicInformerFactory {
    factory: SharedInformerFactory,
}

/// Why there is no informer of a kind.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DynamicError {
    /// The server has no such kind, or does not answer.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The informer cannot be made.
    #[error(transparent)]
    Informer(#[from] InformerError),
}

impl DynamicInformerFactory {
    /// With a factory of its own.
    pub fn new(client: Client) -> Self {
        Self::on(SharedInformerFactory::new(client))
    }

    pub(crate) fn on(factory: SharedInformerFactory) -> Self {
        Self { factory }
    }

    /// The factory that makes the informers.
    pub fn factory(&self) -> &SharedInformerFactory {
        &self.factory
    }

    /// The informer of a kind, whole objects as they are. An empty version stands for the preferred one.
    ///
    /// # Errors
    /// If the server has no such kind, and what it has instead.
    pub async fn informer(
        &self,
        kind: &GroupVersionKind,
    ) -> Result<SharedInformer<DynamicObject>, DynamicError> {
        let resource = self.resource(kind).await?;
        Ok(self.factory.informer_of(&resource, |options| options)?)
    }

    /// The informer of a kind, metadata only.
    ///
    /// # Errors
    /// If the server has no such kind, and what it has instead.
    pub async fn metadata(
        &self,
        kind: &GroupVersionKind,
    ) -> Result<SharedInformer<PartialObjectMeta<DynamicObject>>, DynamicError> {
        let resource = self.resource(kind).await?;
        Ok(self.factory.metadata_of(&resource, |options| options)?)
    }

    /// The resource of a kind, for [`SharedInformerFactory::informer_of`] and its options.
    ///
    /// # Errors
    /// If the server has no such kind, and what it has instead.
    pub async fn resource(&self, kind: &GroupVersionKind) -> Result<Resource, DiscoveryError> {
        let version = Some(kind.version.as_str()).filter(|version| !version.is_empty());
        Resource::discover(self.factory.client(), &kind.group, version, &kind.kind).await
    }
}

impl fmt::Debug for DynamicInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynamicInformerFactory").field(&self.factory).finish()
    }
}
