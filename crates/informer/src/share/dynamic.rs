//! Informers of kinds that are known only at run time, found by discovery.

use kube::core::{DynamicObject, GroupVersionKind};

use crate::error::InformerError;
use crate::resource::Resource;
use crate::share::factory::SharedInformerFactory;
use crate::share::informer::SharedInformer;
use crate::transport::discovery::DiscoveryError;

/// Kinds that are known only at run time. An empty version means the preferred one.
///
/// ```
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use kube::core::GroupVersionKind;
/// use windlass_informer::SharedInformerFactory;
///
/// let factory = SharedInformerFactory::new(client);
/// let kind = GroupVersionKind::gvk("example.com", "v1", "Foo");
/// let foos = factory.dynamic_informer(&kind).await?;
/// factory.start();
/// foos.wait_for_sync().await?;
/// for foo in &foos.lister().list() {
///     println!("{}: {}", foo.key(), foo.get()?.data["spec"]);
/// }
/// # Ok(())
/// # }
/// ```
impl SharedInformerFactory {
    /// The informer of a kind, with whole objects.
    ///
    /// # Errors
    /// Returns an error if the server has no such kind. It names similar ones.
    pub async fn dynamic_informer(
        &self,
        kind: &GroupVersionKind,
    ) -> Result<SharedInformer<DynamicObject>, InformerError> {
        let resource = self.discover(kind).await?;
        self.informer_of(&resource, |options| options)
    }

    /// The resource of a kind, for [`informer_of`](Self::informer_of) and
    /// [`metadata_of`](Self::metadata_of).
    ///
    /// The factory remembers what it found, and asks the server again for a kind that it has not
    /// found. If a definition changes its names, its scope or its preferred version,
    /// [`forget_discovered`](Self::forget_discovered) makes it ask again.
    ///
    /// # Errors
    /// As [`dynamic_informer`](Self::dynamic_informer).
    pub async fn discover(&self, kind: &GroupVersionKind) -> Result<Resource, DiscoveryError> {
        if let Some(found) = self.discovered().get(kind) {
            return Ok(found.clone());
        }
        let version = Some(kind.version.as_str()).filter(|version| !version.is_empty());
        let found = Resource::discover(self.client(), &kind.group, version, &kind.kind).await?;
        self.discovered().insert(kind.clone(), found.clone());
        Ok(found)
    }

    /// Forgets what [`discover`](Self::discover) has found. Informers are not affected.
    pub fn forget_discovered(&self) {
        self.discovered().clear();
    }
}
