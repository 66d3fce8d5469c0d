//! Finalizers: cleaning up something outside of the cluster before an object is deleted.
//!
//! The order matters: the finalizer is added before the first side effect, and removed only after
//! the clean-up has succeeded. So a crash can lead to one clean-up too many, but never to none.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use kube::ResourceExt as _;
use serde::Serialize;

use crate::action::Action;
use crate::bounds::{ObjectType, StaticResource};
use crate::context::RunContext;
use crate::error::Error;
use crate::reconcile::Reconcile;

/// A reconciler that has something to clean up before its objects are deleted.
pub trait Finalize<K>: Send + Sync + 'static {
    /// The object exists, and has the finalizer.
    fn reconcile(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send;

    /// The object is being deleted. The finalizer is removed when this returns [`Action::Done`].
    /// Until then it is called again, so it must cope with work that is half done.
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
///     async fn reconcile(
///         &self,
///         object: Arc<ConfigMap>,
///         cx: &RunContext,
///     ) -> Result<Action, Error> {
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
    /// Uses a finalizer of this name: your domain, a slash, and what is cleaned up.
    pub fn new(finalizer: impl Into<String>, inner: R) -> Self {
        Self { finalizer: finalizer.into(), inner, object: PhantomData }
    }
}

impl<K, R> Reconcile<K> for Finalized<K, R>
where
    K: StaticResource + ObjectType + Serialize + Clone,
    R: Finalize<K>,
{
    async fn reconcile(&self, object: Arc<K>, cx: &RunContext) -> Result<Action, Error> {
        let is_deleted = object.meta().deletion_timestamp.is_some();
        let has_finalizer = object.finalizers().contains(&self.finalizer);
        match (is_deleted, has_finalizer) {
            (false, true) => self.inner.reconcile(object, cx).await,
            (false, false) => {
                let mut new = K::clone(&object);
                new.finalizers_mut().push(self.finalizer.clone());
                // The server has the finalizer now, so side effects may begin. Do not wait for the
                // event: a predicate may ignore it.
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

impl<K: StaticResource + ObjectType + Serialize + Clone, R> Finalized<K, R> {
    /// Removes the finalizer. Reads the object again, because the clean-up may have changed it.
    async fn remove(&self, object: &K, cx: &RunContext) -> Result<(), Error> {
        let (uid, finalizer) = (&object.meta().uid, &self.finalizer);
        let remove = |present: &mut K| {
            if present.meta().uid == *uid {
                present.finalizers_mut().retain(|name| name != finalizer);
            }
        };
        // It is fine if the object is gone.
        cx.live::<K>().modify(cx.key(), remove).await?;
        Ok(())
    }
}

impl<K, R> fmt::Debug for Finalized<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Finalized").field(&self.finalizer).finish()
    }
}
