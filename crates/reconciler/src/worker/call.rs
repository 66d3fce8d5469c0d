//! Calls a reconciler of any type, and says how that ended.

use futures::future::BoxFuture;
use windlass_indexer::{Cached, ObjectType};
use windlass_workqueue::Priority;

use crate::error::{Delay, Error};
use crate::history::run_record::Outcome;
use crate::reconcile::{Action, Reconcile};
use crate::run::context::RunContext;

/// A reconciler of any type, so that a controller is generic only over the type of its objects.
pub(crate) trait ErasedReconcile<K>: Send + Sync {
    /// Calls the method of the reconciler for an object that exists, is paused, or does not exist.
    fn call<'a>(
        &'a self,
        object: Option<Cached<K>>,
        is_paused: bool,
        cx: &'a RunContext,
    ) -> BoxFuture<'a, RunResult>;
}

/// How a run ended, and what it asks for.
pub(crate) struct RunResult {
    pub(crate) outcome: Outcome,
    /// What the reconciler returned.
    pub(crate) error: Option<Error>,
    /// The delay that the error requests.
    pub(crate) delay: Option<Delay>,
    /// The priority that the run requests for the one after its delay.
    pub(crate) priority: Option<Priority>,
}

impl<K: ObjectType, R: Reconcile<K>> ErasedReconcile<K> for R {
    fn call<'a>(
        &'a self,
        object: Option<Cached<K>>,
        is_paused: bool,
        cx: &'a RunContext,
    ) -> BoxFuture<'a, RunResult> {
        Box::pin(async move {
            // The decoded object is not cached: most objects change before they run again.
            let returned = match object.map(|object| object.get()) {
                Some(Ok(object)) if is_paused => {
                    self.paused(object, cx).await.map(|()| RunResult::of(Outcome::Paused))
                }
                Some(Ok(object)) => self.reconcile(object, cx).await.map(RunResult::of_action),
                None => self.absent(cx.key(), cx).await.map(RunResult::of_action),
                Some(Err(error)) => Err(Error::undecodable(error)),
            };
            returned.unwrap_or_else(RunResult::of_error)
        })
    }
}

impl RunResult {
    pub(crate) fn of(outcome: Outcome) -> Self {
        Self { outcome, error: None, delay: None, priority: None }
    }

    /// The run succeeded.
    pub(crate) fn of_action(action: Action) -> Self {
        let outcome = action.requeue_after.map_or(Outcome::Done, Outcome::RequeueAfter);
        Self { priority: action.priority, ..Self::of(outcome) }
    }

    /// The run failed. Formatting the error is user code, which may panic.
    pub(crate) fn of_error(error: Error) -> Self {
        let outcome = Outcome::of_error(&error);
        Self { delay: error.delay(), error: Some(error), ..Self::of(outcome) }
    }
}
