//! Finalizers: something outside of the cluster is cleaned up before an object goes.
//!
//! The order is what matters. The finalizer is on the object before the first side effect, and goes only after the
//! clean-up has succeeded, so that a crash at any point leads to one clean-up too many at worst, never to none.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_informer::Scope;

use crate::{Action, Error, Reconcile, RunContext};

/// A reconciler that has something to clean up before its objects go.
pub trait Finalize<K>: Send + Sync + 'static {
    /// The object is there, and has the finalizer.
    fn reconcile(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send;

    /// The object is to be deleted. It goes when this has succeeded with [`Action::Done`]; until then it is called
    /// again, and so must be able to find its work half done.
    fn cleanup(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send;
}

/// Makes a [`Reconcile`] of a [`Finalize`].
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{Action, RunContext, Error, Finalize, Finalized};
/// struct Buckets;
///
/// impl Finalize<ConfigMap> for Buckets {
///     async fn reconcile(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
///         // make a bucket at the cloud provider, unless it is there
///         Ok(Action::Done)
///     }
///
///     async fn cleanup(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
///         // delete the bucket, if it is there
///         Ok(Action::Done)
///     }
/// }
///
/// let reconciler = Finalized::<ConfigMap, _>::new("example.com/bucket", Buckets);
/// # drop(reconciler);
/// ```
pub struct Finalized<K, R> {
    finalizer: String,
    inner: R,
    object: PhantomData<fn(K)>,
}

impl<K, R: Finalize<K>> Finalized<K, R> {
    /// With a finalizer of this name: a domain of yours, a slash, and what is cleaned up.
    pub fn new(finalizer: impl Into<String>, inner: R) -> Self {
        Self { finalizer: finalizer.into(), inner, object: PhantomData }
    }
}

impl<K, R> Reconcile<K> for Finalized<K, R>
where
    K: Resource<DynamicType = (), Scope: Scope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Send
        + Sync
        + 'static,
    R: Finalize<K>,
{
    async fn reconcile(&self, object: Arc<K>, cx: &RunContext) -> Result<Action, Error> {
        let is_deleted = object.meta().deletion_timestamp.is_some();
        let has_it = object.finalizers().contains(&self.finalizer);
        match (is_deleted, has_it) {
            (false, true) => self.inner.reconcile(object, cx).await,
            (false, false) => {
                let mut new = K::clone(&object);
                new.finalizers_mut().push(self.finalizer.clone());
                // The server has it now, so that side effects may begin. No event is waited for: a predicate may pass
                // it over.
                let written = cx.live().update(&*object, &new).await?;
                self.inner.reconcile(Arc::new(written), cx).await
            }
            (true, false) => Ok(Action::Done),
            (true, true) => {
                let action = self.inner.cleanup(Arc::clone(&object), cx).await?;
                if action == Action::Done {
                    self.remove(&object, cx).await?;
                }
                Ok(action)
            }
        }
    }
}

impl<K, R> Finalized<K, R>
where
    K: Resource<DynamicType = (), Scope: Scope> + Serialize + DeserializeOwned + Clone + Sync,
{
    /// The clean-up may have changed the object itself, so that the version of the cache is old.
    async fn remove(&self, object: &K, cx: &RunContext) -> Result<(), Error> {
        let (uid, finalizer) = (&object.meta().uid, &self.finalizer);
        let gone = |present: &mut K| {
            if present.meta().uid == *uid {
                present.finalizers_mut().retain(|name| name != finalizer);
            }
        };
        // If it is gone, that is what was wanted.
        cx.live::<K>().modify(cx.key(), gone).await?;
        Ok(())
    }
}

impl<K, R> fmt::Debug for Finalized<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Finalized").field(&self.finalizer).finish()
    }
}
