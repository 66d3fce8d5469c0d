//! Objects that refer to others by name: the changes of those run them.

use windlass_indexer::{Cached, Index, ObjectKey};
use windlass_informer::InformerError;

use crate::bounds::ObjectType;
use crate::builder::ControllerBuilder;
use crate::source::Source;
use crate::watch::Watch;
use crate::wiring::Wiring;

impl<K: ObjectType> ControllerBuilder<K> {
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
    /// let pods = Controller::of(Watch::<Pod>::new())
    ///     .refers_to(Watch::<Secret>::new(), ByPullSecret);
    /// # drop(pods);
    /// ```
    ///
    /// An object that begins to refer to another one has changed itself, so it runs anyway.
    ///
    /// An index is known by its type, so each kind that is referred to needs an index type of its
    /// own: of two indexes of one type, the first counts for both.
    pub fn refers_to<T, I>(mut self, watch: Watch<T>, index: I) -> Self
    where
        T: ObjectType,
        I: Index<Value = ObjectKey>,
    {
        self.primary = self.primary.with_index(index);
        self.sources.push(Box::new(move |wiring| wiring.refers_to::<T, I>(watch)));
        self
    }
}

impl Wiring {
    /// # Errors
    /// Returns an error if the reconciled objects have no such index.
    pub(crate) fn require_index<I: Index>(&self) -> Result<(), InformerError> {
        let (resource, objects) = &self.primary;
        let missing = |error| InformerError::Index { resource: resource.clone(), error };
        objects.snapshot().index_values::<I>().map(drop).map_err(missing)
    }

    /// A source whose events enqueue the objects that have its key in an index.
    pub(crate) fn refers_to<T: ObjectType, I: Index<Value = ObjectKey>>(
        &self,
        watch: Watch<T>,
    ) -> Result<Source, InformerError> {
        let (_, referring) = self.primary.clone();
        self.watches(watch, move |object: &Cached<T>| {
            let found = referring.snapshot().by_index::<I>(object.key());
            let found = found.expect("the index must have been added with the primary");
            found.iter().map(|object| object.head().key().clone()).collect::<Vec<_>>()
        })
    }
}
