//! Something that a test runs: controllers, or a manager with its controllers.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass::manager::View;
use windlass::prelude::ObjectKey;
use windlass::reconciler::{AnyController, Shutdown, Write};

use crate::writes::WriteRecord;

/// How long runs in progress may continue when a test stops its controller.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// Running controllers, or a running manager.
pub(crate) struct Runnable {
    pub(crate) name: String,
    kind: RunnableKind,
    /// The writes since the last call of [`take_writes`](Self::take_writes).
    writes: Arc<Writes>,
    ended: watch::Sender<Option<RunnableResult>>,
}

/// The running controllers or manager.
pub(crate) enum RunnableKind {
    Controllers(Vec<Arc<dyn AnyController>>, Shutdown),
    Manager(View, CancellationToken),
}

/// The outcome of a run. The error is a text with all causes.
pub(crate) type RunnableResult = Result<(), String>;

/// The recorded writes, in order. The list grows until the test takes them.
#[derive(Default)]
pub(crate) struct Writes(Mutex<Vec<WriteRecord>>);

impl Writes {
    pub(crate) fn note(&self, by: &ObjectKey, write: &Write) {
        self.lock().push(WriteRecord::new(by, write));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WriteRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runnable {
    pub(crate) fn new(name: impl Into<String>, kind: RunnableKind, writes: Arc<Writes>) -> Self {
        Self { name: name.into(), kind, writes, ended: watch::Sender::new(None) }
    }

    /// Polls `running` to its end, and records the outcome. A panic counts as a failure.
    pub(crate) async fn run(&self, running: impl Future<Output = RunnableResult>) {
        let ended = AssertUnwindSafe(running).catch_unwind().await.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(format!("it panicked: {}", text.unwrap_or_default()))
        });
        self.ended.send_replace(Some(ended));
    }

    /// Starts an orderly shutdown.
    pub(crate) fn stop(&self) {
        match &self.kind {
            RunnableKind::Controllers(_, shutdown) => shutdown.begin(GRACE_PERIOD),
            RunnableKind::Manager(_, stop) => stop.cancel(),
        }
    }

    /// Waits for the end, and returns the outcome.
    pub(crate) async fn wait_for_end(&self) -> RunnableResult {
        let mut ended = self.ended.subscribe();
        let ended = ended.wait_for(Option::is_some).await;
        // Cannot fail: `self` holds the sender.
        ended.ok().and_then(|ended| ended.clone()).unwrap_or(Ok(()))
    }

    /// Returns the failure; `None` while it runs, and after a successful end.
    pub(crate) fn failure(&self) -> Option<String> {
        match &*self.ended.borrow() {
            Some(Err(failure)) => Some(format!("{} failed: {failure}", self.name)),
            Some(Ok(())) | None => None,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Returns the controllers. They are empty until a manager has built them.
    pub(crate) fn controllers(&self) -> Vec<Arc<dyn AnyController>> {
        match &self.kind {
            RunnableKind::Controllers(controllers, _) => controllers.clone(),
            RunnableKind::Manager(view, _) => view.controllers(),
        }
    }

    /// Returns why the controllers do not work yet; `None` if they do, or have ended.
    pub(crate) fn obstacle(&self) -> Option<String> {
        if self.has_ended() {
            return None;
        }
        if let RunnableKind::Manager(view, _) = &self.kind
            && let Some(obstacle) = view.obstacle()
        {
            return Some(obstacle);
        }
        self.controllers().iter().find_map(|controller| controller.trouble())
    }

    pub(crate) fn take_writes(&self) -> Vec<WriteRecord> {
        std::mem::take(&mut *self.writes.lock())
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runnable").field("name", &self.name).finish_non_exhaustive()
    }
}
