//! Tasks that are started and stopped together, each with its name.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::timeout_at;
use windlass_reconciler::Shutdown;

use crate::error::ManagerError;

/// How much longer than the grace period tasks may take, because a controller then cancels its runs
/// and flushes its events.
const AFTER_GRACE: Duration = Duration::from_secs(8);

/// Tasks that are started and stopped together.
pub(crate) struct Group {
    shutdown: Shutdown,
    tasks: JoinSet<Result<(), ManagerError>>,
    /// The names of the tasks that have not ended.
    names: HashMap<tokio::task::Id, String>,
}

impl Group {
    pub(crate) fn new() -> Self {
        Self { shutdown: Shutdown::new(), tasks: JoinSet::new(), names: HashMap::new() }
    }

    /// The shutdown that the tasks observe; [`stop`](Self::stop) begins it.
    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Starts a task. `name` is used in errors: if it panics, or cannot be cancelled.
    pub(crate) fn spawn(
        &mut self,
        name: impl fmt::Display,
        task: impl Future<Output = Result<(), ManagerError>> + Send + 'static,
    ) {
        let name = name.to_string();
        let known = name.clone();
        let started = self.tasks.spawn(async move {
            let ended = AssertUnwindSafe(task).catch_unwind().await;
            ended.unwrap_or_else(|panic| Err(panicked(name, &*panic)))
        });
        self.names.insert(started.id(), known);
    }

    /// Waits until a task fails. Never returns if none does.
    ///
    /// # Cancel safety
    /// Safe: a failure is taken in the same step that returns it.
    pub(crate) async fn wait_for_failure(&mut self) -> ManagerError {
        while let Some(ended) = self.next_ended().await {
            if let Err(error) = ended {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Waits for the next task to end; `None` if there is none.
    async fn next_ended(&mut self) -> Option<Result<(), ManagerError>> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, _)| *id);
        self.names.remove(&id);
        // A task that was cancelled has not failed.
        Some(ended.map_or(Ok(()), |(_, ended)| ended))
    }

    /// Begins the shutdown of the tasks, and waits for them. Tasks that still run after the grace
    /// period and [`AFTER_GRACE`] are cancelled. Returns the failures in between.
    pub(crate) async fn stop(&mut self, grace_period: Duration) -> Vec<ManagerError> {
        self.shutdown.begin(grace_period);
        let deadline = self.shutdown.deadline().expect("a shutdown that was begun must have one");
        let mut errors = Vec::new();
        let all = async {
            while let Some(ended) = self.next_ended().await {
                errors.extend(ended.err());
            }
        };
        if timeout_at(deadline + AFTER_GRACE, all).await.is_err() {
            let mut names: Vec<_> = self.names.values().cloned().collect();
            names.sort();
            self.abort();
            errors.push(ManagerError::NotCancelled { what: names.join(", ") });
        }
        errors
    }

    /// Cancels the tasks, and does not wait for them.
    pub(crate) fn abort(&mut self) {
        self.tasks.abort_all();
        self.tasks.detach_all();
        self.names.clear();
    }
}

/// The error of a part that panicked.
pub(crate) fn panicked(name: String, panic: &(dyn Any + Send)) -> ManagerError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ManagerError::Panicked { name, message: text.unwrap_or("it has no message").to_owned() }
}
