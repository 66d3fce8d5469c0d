//! A run that failed, as the hook of the user sees it.

use std::fmt;
use std::sync::Arc;

use windlass_indexer::ObjectKey;

use crate::error::Error;
use crate::guard::{FIX, caught};
use crate::journal::Run;

/// A run that failed, for [`ControllerBuilder::on_error`](crate::ControllerBuilder::on_error).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FailedRun<'a> {
    /// The name of the controller.
    pub controller: &'a str,
    /// The key that ran.
    pub key: &'a ObjectKey,
    /// The run: its id, attempt, causes, writes and outcome, and when the key is retried.
    pub run: &'a Run,
    /// What the reconciler returned; `None` if it panicked or took too long.
    pub error: Option<&'a Error>,
}

/// The hook of the user.
#[derive(Clone)]
pub(crate) struct ErrorHook(Arc<dyn Fn(&FailedRun<'_>) + Send + Sync>);

impl ErrorHook {
    pub(crate) fn new(hook: impl Fn(&FailedRun<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    /// Calls the hook. If it panics, that is logged.
    pub(crate) fn call(&self, failed: &FailedRun<'_>) {
        if caught(|| (self.0)(failed)).is_none() {
            let FailedRun { controller, key, .. } = failed;
            tracing::error!(controller, %key, "the hook for errors panicked; {FIX}");
        }
    }
}

impl fmt::Debug for ErrorHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErrorHook")
    }
}
