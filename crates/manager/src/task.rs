//! What a manager runs besides controllers.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::future::BoxFuture;
use kube::Client;
use tower::BoxError;
use windlass_informer::SharedInformerFactory;
use windlass_informer::client::safe_message;
use windlass_reconciler::Shutdown;

use crate::error::ManagerError;
use crate::group::panicked;

/// What a task gets when it starts.
#[derive(Clone)]
#[non_exhaustive]
pub struct TaskContext {
    /// A client of the cluster. In a leader task, its writes are fenced.
    pub client: Client,
    /// The informers that the controllers share. If the task adds informers, it has to call
    /// [`start`](SharedInformerFactory::start). The factory's own client is not fenced.
    pub factory: SharedInformerFactory,
    /// Begins when the task should end. After the grace period the task is cancelled.
    pub shutdown: Shutdown,
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext").field("shutdown", &self.shutdown).finish_non_exhaustive()
    }
}

type Start = Box<dyn FnMut(TaskContext) -> BoxFuture<'static, Result<(), BoxError>> + Send>;

/// A task, not yet started.
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) needs_leadership: bool,
    start: Start,
}

impl Task {
    pub(crate) fn new<F, E>(
        name: impl Into<String>,
        needs_leadership: bool,
        mut start: impl FnMut(TaskContext) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let start: Start = Box::new(move |context| {
            let started = start(context);
            Box::pin(async { started.await.map_err(Into::into) })
        });
        Self { name: name.into(), needs_leadership, start }
    }

    /// Runs the task until it ends, at most until the shutdown's deadline.
    pub(crate) fn run(
        &mut self,
        context: TaskContext,
    ) -> impl Future<Output = Result<(), ManagerError>> + Send + 'static {
        let (name, shutdown) = (self.name.clone(), context.shutdown.clone());
        // The closure may panic before it returns a future.
        let task = catch_unwind(AssertUnwindSafe(|| (self.start)(context)));
        async move {
            let task = task.map_err(|panic| panicked(format!("task {name:?}"), &*panic))?;
            let ended = tokio::select! {
                biased;
                ended = task => ended,
                () = shutdown.wait_for_deadline() => {
                    tracing::warn!(task = name, "cancelled: the grace period is over");
                    Ok(())
                }
            };
            match ended {
                Ok(()) => Ok(()),
                Err(error) => Err(ManagerError::Task { name, message: safe_message(&*error) }),
            }
        }
    }
}
