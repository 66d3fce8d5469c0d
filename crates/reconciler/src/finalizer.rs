//! Finalizers: cleaning up something outside of the cluster before an object is deleted.
//!
//! The order matters: the finalizer is added before the first side effect, and removed only after
//! the clean-up has succeeded. So a crash can lead to one clean-up too many, but never to none.
//!
//! An object may have several finalizers of one controller. All of them are added in one write, and
//! each is removed as soon as its own clean-up is done.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::ResourceExt as _;
use serde::Serialize;
use windlass_indexer::{ObjectKey, ObjectType};

use crate::error::{Error, OwnerDeleted};
use crate::reconcile::{Action, Reconcile};
use crate::run::context::RunContext;

/// A reconciler that has something to clean up before its objects are deleted.
pub trait Finalize<K>: Send + Sync + 'static {
    /// The object exists, and has the finalizer.
    fn reconcile(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send;

    /// The object is being deleted. The finalizer is removed when this returns [`Action::done`].
    /// Until then it is called again, so it must cope with work that is half done. An object that
    /// is made for it here, such as a Job, needs
    /// [`WriteOptions::allow_deleted_owner`](crate::WriteOptions::allow_deleted_owner).
    fn cleanup(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send;

    /// The object does not exist. See [`Reconcile::absent`].
    fn absent(
        &self,
        key: &ObjectKey,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send {
        let _ = (key, cx);
        std::future::ready(Ok(Action::done()))
    }

    /// The object was found paused. See [`Reconcile::paused`].
    fn paused(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (object, cx);
        std::future::ready(Ok(()))
    }
}

/// Something that is cleaned up before an object is deleted, besides what a [`Finalize`] cleans up.
/// See [`Finalized::also`].
pub trait Cleanup<K>: Send + Sync + 'static {
    /// The object is being deleted. The finalizer is removed when this returns [`Action::done`].
    /// Until then it is called again, so it must cope with work that is half done.
    fn cleanup(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send;
}

/// Makes a [`Reconcile`] of a [`Finalize`], also for kinds that are known at run time.
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
///         Ok(Action::done())
///     }
///
///     async fn cleanup(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
///         // delete the bucket, if it is there
///         Ok(Action::done())
///     }
/// }
///
/// let reconciler = Finalized::<ConfigMap, _>::new("example.com/bucket", Buckets);
/// # drop(reconciler);
/// ```
pub struct Finalized<K, R> {
    finalizer: String,
    inner: R,
    others: Vec<Other<K>>,
}

/// Another finalizer, and its clean-up.
struct Other<K> {
    finalizer: String,
    cleanup: Box<dyn ErasedCleanup<K>>,
}

/// A [`Cleanup`] of any type.
trait ErasedCleanup<K>: Send + Sync {
    fn cleanup<'a>(
        &'a self,
        object: Arc<K>,
        cx: &'a RunContext,
    ) -> BoxFuture<'a, Result<Action, Error>>;
}

impl<K: Send + Sync + 'static, C: Cleanup<K>> ErasedCleanup<K> for C {
    fn cleanup<'a>(
        &'a self,
        object: Arc<K>,
        cx: &'a RunContext,
    ) -> BoxFuture<'a, Result<Action, Error>> {
        Box::pin(Cleanup::cleanup(self, object, cx))
    }
}

impl<K, R: Finalize<K>> Finalized<K, R> {
    /// Uses a finalizer of this name: your domain, a slash, and what is cleaned up.
    pub fn new(finalizer: impl Into<String>, inner: R) -> Self {
        Self { finalizer: finalizer.into(), inner, others: Vec::new() }
    }

    /// Adds another finalizer, for something else that is cleaned up. The clean-ups are called in
    /// the order in which they were added, the first one being that of the [`Finalize`]. The next
    /// one begins when the one before is done and its finalizer is removed.
    #[must_use]
    pub fn also(mut self, finalizer: impl Into<String>, cleanup: impl Cleanup<K>) -> Self
    where
        K: Send + Sync + 'static,
    {
        self.others.push(Other { finalizer: finalizer.into(), cleanup: Box::new(cleanup) });
        self
    }
}

impl<K, R> Reconcile<K> for Finalized<K, R>
where
    K: kube::Resource + ObjectType + Serialize + Clone,
    R: Finalize<K>,
{
    async fn reconcile(&self, object: Arc<K>, cx: &RunContext) -> Result<Action, Error> {
        if object.meta().deletion_timestamp.is_some() {
            return self.finalize(object, cx).await;
        }
        let is_missing = |name: &&String| !object.finalizers().contains(name);
        let missing: Vec<_> = self.finalizers().filter(is_missing).cloned().collect();
        if missing.is_empty() {
            return self.inner.reconcile(object, cx).await;
        }
        let mut new = K::clone(&object);
        new.finalizers_mut().extend(missing);
        // The server has the finalizers now, so side effects may begin. Do not wait for the event:
        // a predicate may ignore it.
        let written = cx.live_of(cx.resource()).update(&object, &new).await?;
        self.inner.reconcile(Arc::new(written), cx).await
    }

    async fn absent(&self, key: &ObjectKey, cx: &RunContext) -> Result<Action, Error> {
        self.inner.absent(key, cx).await
    }

    async fn paused(&self, object: Arc<K>, cx: &RunContext) -> Result<(), Error> {
        self.inner.paused(object, cx).await
    }
}

impl<K: kube::Resource + ObjectType + Serialize + Clone, R: Finalize<K>> Finalized<K, R> {
    fn finalizers(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.finalizer).chain(self.others.iter().map(|other| &other.finalizer))
    }

    /// Cleans up what has not been cleaned up yet.
    async fn finalize(&self, object: Arc<K>, cx: &RunContext) -> Result<Action, Error> {
        let has = |name: &String| object.finalizers().contains(name);
        if has(&self.finalizer) {
            let action = self.inner.cleanup(Arc::clone(&object), cx).await;
            let action = action.map_err(unfinished)?;
            if !action.is_done() {
                return Ok(action);
            }
            remove(&self.finalizer, &*object, cx).await?;
        }
        for other in self.others.iter().filter(|other| has(&other.finalizer)) {
            let action = other.cleanup.cleanup(Arc::clone(&object), cx).await;
            let action = action.map_err(unfinished)?;
            if !action.is_done() {
                return Ok(action);
            }
            remove(&other.finalizer, &*object, cx).await?;
        }
        Ok(Action::done())
    }
}

/// The error of a clean-up. If it made something for its object without saying that it may, the
/// finalizer would stay for ever, and nothing would show it. So that is an error like others.
fn unfinished(error: Error) -> Error {
    match OwnerDeleted::of(&error) {
        Some(_) => Error::msg(format!("the clean-up is not done: {error}")).terminal(),
        None => error,
    }
}

/// Removes a finalizer. Reads the object again, because the clean-up may have changed it.
async fn remove<K>(finalizer: &str, object: &K, cx: &RunContext) -> Result<(), Error>
where
    K: kube::Resource + ObjectType + Serialize + Clone,
{
    let uid = &object.meta().uid;
    let remove = |present: &mut K| {
        if present.meta().uid == *uid {
            present.finalizers_mut().retain(|name| name != finalizer);
        }
    };
    // It is fine if the object is gone.
    cx.live_of::<K>(cx.resource()).modify(cx.key(), remove).await?;
    Ok(())
}

impl<K, R> fmt::Debug for Finalized<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Finalized").field(&self.finalizer).finish()
    }
}
