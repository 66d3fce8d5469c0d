//! The trait that operators implement.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use windlass_indexer::ObjectKey;

use crate::{Action, Error, RunContext};

/// Makes the world as an object says it should be.
///
/// Implementors write plain `async fn`:
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_reconciler::{Action, RunContext, Error, Reconcile};
///
/// struct Greeter;
///
/// impl Reconcile<ConfigMap> for Greeter {
///     async fn reconcile(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
///         println!("{}: {:?}, because {:?}", cx.key(), object.data, cx.causes());
///         Ok(Action::Done)
///     }
/// }
/// ```
///
/// A run is given the object as it is now, not the change that led to it: many changes may have become one run,
/// and one may be repeated. No two runs of one key overlap. What follows on a run:
///
/// | outcome | the next run | failures |
/// |---|---|---|
/// | `Ok(Done)` | when something changes | reset |
/// | `Ok(RequeueAfter(d))` | after d | reset |
/// | `Err`, retryable | after a backoff | one more |
/// | `Err`, terminal | when something changes | kept, shown |
/// | a panic | as a retryable error, counted apart | one more |
/// | out of time | cancelled; as a retryable error, counted apart | one more |
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reconcile `{K}`",
    label = "this controller is of `{K}`",
    note = "write `impl Reconcile<{K}> for {Self}`, with `async fn reconcile(&self, object: Arc<{K}>, cx: &RunContext)`"
)]
pub trait Reconcile<K>: Send + Sync + 'static {
    /// The object is there.
    fn reconcile(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send;

    /// The object is not there: it was deleted, or never was. What belongs to it in the cluster is collected by
    /// its owner references; what is elsewhere needs a finalizer. So there is nothing to do by default.
    fn absent(
        &self,
        key: &ObjectKey,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send {
        let _ = (key, cx);
        std::future::ready(Ok(Action::Done))
    }
}

/// A run that is under way.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Result<Action, Error>> + Send + 'a>>;

/// A reconciler whose type is forgotten, so that a controller has only the type of its objects.
pub(crate) trait ErasedReconcile<K>: Send + Sync {
    fn reconcile<'a>(&'a self, object: Arc<K>, cx: &'a RunContext) -> Running<'a>;

    fn absent<'a>(&'a self, cx: &'a RunContext) -> Running<'a>;
}

impl<K: Send + Sync + 'static, R: Reconcile<K>> ErasedReconcile<K> for R {
    fn reconcile<'a>(&'a self, object: Arc<K>, cx: &'a RunContext) -> Running<'a> {
        Box::pin(Reconcile::reconcile(self, object, cx))
    }

    fn absent<'a>(&'a self, cx: &'a RunContext) -> Running<'a> {
        Box::pin(Reconcile::absent(self, cx.key(), cx))
    }
}
