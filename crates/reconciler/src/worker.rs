//! What a worker does with a key: wait for the caches, call the reconciler, settle the outcome, note the run.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use windlass_indexer::{Lister, ObjectKey};
use windlass_workqueue::{Add, Lease};

use crate::cause::Cause;
use crate::context::Tools;
use crate::controller::Queue;
use crate::error::{Class, Error};
use crate::journal::{Journal, Outcome, Run};
use crate::reconcile::ErasedReconcile;
use crate::recording::WriteLog;
use crate::report::{report, report_circles};
use crate::tally::Tally;
use crate::unseen::Unseen;
use crate::write::Write;
use crate::{Action, Context};

/// How long a run waits for caches to show what the run before it has written.
const CACHE_WAIT: Duration = Duration::from_secs(5);

/// What all workers of a controller have.
pub(crate) struct Work<K> {
    pub(crate) tools: Arc<Tools>,
    pub(crate) reconciler: Box<dyn ErasedReconcile<K>>,
    pub(crate) objects: Lister<K>,
    pub(crate) queue: Queue,
    pub(crate) timeout: Option<Duration>,
    pub(crate) journal: Journal,
    pub(crate) unseen: Unseen,
    pub(crate) tally: Tally,
}

/// How a call of the reconciler ended.
enum Ended {
    Returned(Result<Action, Error>),
    /// With what the panic said.
    Panicked(String),
    TimedOut,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Work<K> {
    /// Takes keys until the queue is shut down and empty. From when `stop` is cancelled on, none of them is run:
    /// whoever comes next sees every object again.
    pub(crate) async fn drain(&self, stop: &CancellationToken) {
        while let Some(lease) = self.queue.get().await {
            if !stop.is_cancelled() {
                self.run(lease).await;
            }
        }
    }

    async fn run(&self, lease: Lease<ObjectKey, Cause>) {
        let queued = lease.queued();
        let is_behind = self.caught_up(lease.key()).await.is_err();
        let started = Instant::now();
        let mut causes: Vec<Cause> = lease.causes().cloned().collect();
        self.journal.ascribe(lease.key(), &mut causes);
        let cx = Context {
            tools: Arc::clone(&self.tools),
            key: lease.key().clone(),
            causes,
            causes_omitted: lease.causes_omitted(),
            attempt: self.queue.failures(lease.key()) + 1,
            deadline: self.timeout.map(|timeout| started + timeout),
            is_behind,
            log: WriteLog::default(),
            recording: OnceLock::new(),
        };
        let span = tracing::info_span!(
            "reconcile",
            controller = cx.controller(),
            key = %cx.key,
            attempt = cx.attempt,
            cause = cx.causes.last().map(tracing::field::display),
        );
        let ended = self.call(&cx).instrument(span).await;
        let (took, writes) = (started.elapsed(), cx.log.take());
        // Before the key may run again.
        self.unseen.put(&cx.key, &writes, |write| self.tools.sources.behind(write).is_empty());
        let outcome = self.settle(lease, ended);
        self.tally.count(&outcome, took, is_behind);
        report(&cx, &outcome, took);
        let Context { key, causes, attempt, .. } = cx;
        let last_write = writes.last().map(Write::to_string);
        let run = Run { started, queued, took, attempt, causes, outcome, writes };
        let circles = self.journal.write(&key, run);
        if let Some(write) = last_write
            && report_circles(&self.tools.controller, &key, circles, &write)
        {
            self.tally.hot_loop();
        }
    }

    /// Waits for the caches to show what the last run of a key has written, for a while.
    async fn caught_up(&self, key: &ObjectKey) -> Result<(), tokio::time::error::Elapsed> {
        let mut writes = self.unseen.take(key);
        if writes.is_empty() {
            return Ok(());
        }
        let waited = timeout(CACHE_WAIT, async {
            for write in &writes {
                for behind in self.tools.sources.behind(write) {
                    behind.seen(&write.written).await;
                }
            }
        });
        let waited = waited.await;
        if waited.is_err() {
            // The run after the next has to be told as well, as long as they are not seen.
            writes.retain(|write| !self.tools.sources.behind(write).is_empty());
            self.unseen.put_back(key, writes);
        }
        waited
    }

    /// Calls the reconciler, within its time, and catches its panic.
    async fn call(&self, cx: &Context) -> Ended {
        // By its handle, which leaves the hot set to those who read: most objects have changed before they run again.
        let object = self.objects.cached(cx.key()).map(|object| object.get());
        let called = async {
            match object {
                Some(Ok(object)) => self.reconciler.reconcile(object, cx).await,
                None => self.reconciler.absent(cx).await,
                Some(Err(error)) => Err(error.into()),
            }
        };
        let caught = AssertUnwindSafe(called).catch_unwind();
        let ended = match self.timeout {
            Some(limit) => match timeout(limit, caught).await {
                Ok(ended) => ended,
                Err(_) => return Ended::TimedOut,
            },
            None => caught.await,
        };
        match ended {
            Ok(returned) => Ended::Returned(returned),
            Err(panic) => Ended::Panicked(said(&*panic)),
        }
    }

    /// Does with the key what the outcome asks for.
    fn settle(&self, lease: Lease<ObjectKey, Cause>, ended: Ended) -> Outcome {
        let error = match ended {
            Ended::Returned(Ok(Action::Done)) => {
                lease.finish();
                return Outcome::Done;
            }
            Ended::Returned(Ok(Action::RequeueAfter(delay))) => {
                let key = lease.key().clone();
                lease.finish();
                // A queue that is shut down has no later.
                let _ = self.queue.add_with(key, Add::after(delay).cause(Cause::Timer));
                return Outcome::RequeueAfter(delay);
            }
            Ended::Panicked(message) => {
                let retry_in = lease.retry().unwrap_or_default();
                return Outcome::Panicked { message, retry_in };
            }
            Ended::TimedOut => {
                return Outcome::TimedOut { retry_in: lease.retry().unwrap_or_default() };
            }
            Ended::Returned(Err(error)) => error,
        };
        let (class, message) = (error.class(), error.to_string());
        if matches!(class, Class::Terminal | Class::Undecodable) {
            // The failures stay, to be seen; the next event is the next try.
            drop(lease);
            return Outcome::Terminal { class, message };
        }
        let retry_in = match error.delay() {
            Some(delay) => lease.retry_after(delay).map(|()| delay),
            None => lease.retry(),
        };
        Outcome::Failed { class, message, retry_in: retry_in.unwrap_or_default() }
    }
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("something that is no text").to_owned()
}
