//! The trait that operators implement, and what they return.

use std::sync::Arc;
use std::time::Duration;

use windlass_indexer::ObjectKey;
use windlass_workqueue::Priority;

use crate::error::Error;
use crate::run::context::RunContext;

/// Makes the state of the world match an object.
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
///     async fn reconcile(
///         &self,
///         object: Arc<ConfigMap>,
///         cx: &RunContext,
///     ) -> Result<Action, Error> {
///         println!("{}: {:?}, because {:?}", cx.key(), object.data, cx.causes());
///         Ok(Action::done())
///     }
/// }
/// ```
///
/// A run gets the object as it is now, not the change that caused it: many changes may be merged
/// into one run, and a run may be repeated. No two runs of one key overlap. What follows a run:
///
/// | outcome | the next run | failures |
/// |---|---|---|
/// | `Ok(done())` | when something changes | reset |
/// | `Ok(requeue_after(d))` | after d | reset |
/// | `Err`, retryable | after a backoff, unless it was the [last attempt] | one more |
/// | `Err`, because this replica does not [lead](crate::Class::NotLeader) | after a second | kept |
/// | `Err`, an [owner is deleted](crate::OwnerDeleted) | when something changes | reset |
/// | `Err`, because what it read is [out of date](crate::StaleRead) | when the cache has caught up | kept |
/// | `Err`, terminal | when something changes | kept, shown |
/// | a panic | as after a retryable error, counted separately | one more |
/// | a timeout | as after a retryable error, counted separately | one more |
///
/// An object that is being deleted is reconciled like any other, as long as something keeps it.
/// What makes an object for it then returns an error, so with `?` the run ends there: what was
/// written before that counts, and what follows, such as the status, is left out.
///
/// A [paused](crate::ControllerBuilder::paused_by) object has one run, which calls
/// [`paused`](Self::paused); after that its key is skipped until the pause ends. A reconciler of a
/// few lines can be a closure: [`reconcile_fn`](crate::reconcile_fn).
///
/// [last attempt]: crate::ControllerBuilder::max_attempts
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reconcile `{K}`",
    label = "this controller is of `{K}`",
    note = "write `impl Reconcile<{K}> for {Self}`, with \
            `async fn reconcile(&self, object: Arc<{K}>, cx: &RunContext)`",
    note = "a closure or an `async fn` becomes a reconciler by `reconcile_fn(…)`"
)]
pub trait Reconcile<K>: Send + Sync + 'static {
    /// Reconciles an object that exists.
    fn reconcile(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send;

    /// Reconciles a key whose object does not exist: it was deleted, or never created. Kubernetes
    /// collects what it owns in the cluster; what is elsewhere needs a finalizer. So the default
    /// does nothing.
    fn absent(
        &self,
        key: &ObjectKey,
        cx: &RunContext,
    ) -> impl Future<Output = Result<Action, Error>> + Send {
        let _ = (key, cx);
        std::future::ready(Ok(Action::done()))
    }

    /// An object was found [paused](crate::ControllerBuilder::paused_by), and is not reconciled.
    /// Called once, and again after a restart. Write a condition here that says so; the default
    /// does nothing. An error is retried as that of [`reconcile`](Self::reconcile).
    fn paused(
        &self,
        object: Arc<K>,
        cx: &RunContext,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (object, cx);
        std::future::ready(Ok(()))
    }
}

/// What follows a successful run.
///
/// ```
/// # use std::time::Duration;
/// use windlass_reconciler::Action;
/// use windlass_workqueue::Priority;
///
/// let action = Action::done(); // nothing, until something changes
/// let action = Action::requeue_after(Duration::from_mins(1));
/// // Again in a minute, but only when nothing else is to be done.
/// let action = Action::requeue_after(Duration::from_mins(1)).priority(Priority::Low);
/// # drop(action);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "return it from `reconcile`"]
pub struct Action {
    pub(crate) requeue_after: Option<Duration>,
    pub(crate) priority: Option<Priority>,
}

impl Action {
    /// Nothing, until something changes.
    pub const fn done() -> Self {
        Self { requeue_after: None, priority: None }
    }

    /// Another run after `delay`, even if nothing changes. The run counts as a success, and the
    /// next one is not rate limited.
    pub const fn requeue_after(delay: Duration) -> Self {
        Self { requeue_after: Some(delay), priority: None }
    }

    /// The priority of the run after the delay. Default: what the
    /// [policy](crate::ControllerBuilder::priority) of the controller decides.
    pub const fn priority(self, priority: Priority) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Whether nothing follows, until something changes.
    pub const fn is_done(&self) -> bool {
        self.requeue_after.is_none()
    }
}
