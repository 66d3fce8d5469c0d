//! The writer: the only part of the recorder that waits for the server.
//!
//! The task takes one job after the other until there is none, and then ends. A temporary failure
//! is retried a bounded number of times; any other event is given up at once, also one whose write
//! panics in the client.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::correlation::{Correlator, Job};
use super::warnings::{LossReason, Warnings};

/// How often an event is tried. As in client-go.
const TRIES_MAX: u32 = 12;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait after the first failure; it doubles with each. All tries of an event take about a
/// minute and a half, which is enough for a server that restarts.
const BACKOFF: Duration = Duration::from_secs(1);

/// The longest wait. As in client-go.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

const _: () = assert!(BACKOFF.as_millis() <= BACKOFF_MAX.as_millis());

/// What the handles of a recorder and its writer share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) controller: Arc<str>,
    pub(super) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Held for short synchronous scopes only.
    pub(super) state: Mutex<State>,
    /// How many writes have ended. Compared with [`Correlator::enqueued`].
    pub(super) settled: watch::Sender<u64>,
    /// Cancelled when the last handle is dropped.
    pub(super) no_handles: CancellationToken,
    pub(super) tracker: TaskTracker,
}

pub(super) struct State {
    pub(super) correlator: Correlator,
    pub(super) has_writer: bool,
    /// For the jitter of retries.
    pub(super) random: Rng,
    pub(super) warnings: Warnings,
}

/// Why a request failed.
enum Failure {
    /// The server may accept it later. It may also have accepted it, and the answer was lost.
    Temporary { wait: Option<Duration> },
    /// The name of a new event is taken.
    NameTaken,
    /// The server never accepts it.
    Permanent(LossReason),
}

/// The writer. If it is dropped before it has ended, mostly with its runtime, the write that was
/// under way is lost, and another writer can start.
struct Writer {
    shared: Arc<Shared>,
    is_writing: bool,
    has_ended: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        {
            let mut state = self.shared.state();
            state.has_writer = false;
            if self.is_writing {
                state.correlator.lose();
            }
        }
        if self.is_writing {
            self.shared.settled.send_modify(|settled| *settled += 1);
        }
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Logs why an event about an object, or in a namespace, is lost, unless it was logged before.
    pub(super) fn warn(&self, loss: &LossReason, about: &str) {
        if self.state().warnings.note(loss, about) {
            loss.log(&self.controller, about);
        }
    }

    /// Starts the writer, if there is something to write and no writer.
    pub(super) fn start_writer(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        {
            let mut state = self.state();
            if state.has_writer || state.correlator.status().queued == 0 {
                return;
            }
            state.has_writer = true;
        }
        // Made here and not in the task, which may be dropped before it is polled.
        let writer = Writer { shared: Arc::clone(self), is_writing: false, has_ended: false };
        self.tracker.spawn_on(writer.run(), &runtime);
    }

    /// The next job. If there is none, the writer ends.
    fn take(&self) -> Option<Job> {
        let mut state = self.state();
        let job = state.correlator.take();
        state.has_writer = job.is_some();
        job
    }

    /// How long to wait after a failure: what the server asks for, or twice as long as before. Up
    /// to a half is left out at random, so that recorders that failed together do not retry
    /// together.
    fn backoff(&self, attempt: u32, asked: Option<Duration>) -> Duration {
        let doubled = BACKOFF.saturating_mul(1 << (attempt - 1).min(16)).min(BACKOFF_MAX);
        let wait = doubled.mul_f64(0.5 + self.state().random.f64() / 2.0);
        asked.map_or(wait, |asked| asked.clamp(wait, BACKOFF_MAX))
    }
}

impl Writer {
    /// Writes until there is nothing to write.
    async fn run(mut self) {
        // Whether the last event was given up because the server did not answer. Then the next ones
        // are tried only once, so that a full queue does not take hours.
        let mut is_down = false;
        while let Some(mut job) = self.shared.take() {
            self.is_writing = true;
            let was_down = is_down;
            let written = AssertUnwindSafe(write(&self.shared, &mut job, &mut is_down));
            let written = written.catch_unwind().await.unwrap_or(Err(LossReason::Panicked));
            if let Err(loss) = &written
                && !(was_down && is_down)
            {
                self.shared.warn(loss, namespace_of(&job));
            }
            self.shared.state().correlator.settle(&job, written.is_ok());
            self.is_writing = false;
            self.shared.settled.send_modify(|settled| *settled += 1);
        }
        self.has_ended = true;
    }
}

/// Writes one event, with retries. Notes whether the server is down.
async fn write(shared: &Shared, job: &mut Job, is_down: &mut bool) -> Result<(), LossReason> {
    let mut may_be_written = false;
    for attempt in 1..=TRIES_MAX {
        // Once all handles are dropped, nobody should have to wait for a writer: what waits is
        // tried once more.
        let is_last = attempt == TRIES_MAX || *is_down || shared.no_handles.is_cancelled();
        let answer = send(shared, job).await;
        *is_down &= matches!(answer, Err(Failure::Temporary { .. }));
        let wait = match answer {
            Ok(()) => return Ok(()),
            // If an answer was lost, the name is taken by this event itself.
            Err(Failure::NameTaken) if may_be_written => return Ok(()),
            Err(Failure::NameTaken) => {
                let wall = (shared.clock)();
                shared.state().correlator.rename(job, wall);
                continue;
            }
            Err(Failure::Permanent(loss)) => return Err(loss),
            Err(Failure::Temporary { wait }) => wait,
        };
        if is_last {
            break;
        }
        may_be_written = true;
        tokio::select! {
            biased;
            () = sleep(shared.backoff(attempt, wait)) => {}
            () = shared.no_handles.cancelled() => {}
        }
    }
    *is_down = true;
    Err(LossReason::Unanswered)
}

/// One try.
async fn send(shared: &Shared, job: &Job) -> Result<(), Failure> {
    let api: Api<Event> = Api::namespaced(shared.client.clone(), namespace_of(job));
    let create = || async { api.create(&PostParams::default(), &job.event).await.map(drop) };
    let request = async {
        if job.is_new {
            return create().await;
        }
        // Only the series changes; the server accepts no other change.
        let name = job.event.metadata.name.as_deref().unwrap_or_default();
        let patch = Patch::Merge(json!({"series": job.event.series}));
        match api.patch(name, &PatchParams::default(), &patch).await {
            // The event has expired, or somebody has deleted it.
            Err(kube::Error::Api(status)) if status.code == 404 => create().await,
            patched => patched.map(drop),
        }
    };
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(sent) => sent.map_err(|error| Failure::of(error, job.is_new)),
        Err(_) => Err(Failure::Temporary { wait: None }),
    }
}

fn namespace_of(job: &Job) -> &str {
    job.event.metadata.namespace.as_deref().unwrap_or_default()
}

impl Failure {
    fn of(error: kube::Error, is_new: bool) -> Self {
        let status = match error {
            kube::Error::Api(status) => status,
            // The connection, or an incomplete answer.
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::SerdeError(_) => {
                return Self::Temporary { wait: None };
            }
            _ => return Self::Permanent(LossReason::NotSent),
        };
        match status.code {
            409 if is_new && status.is_already_exists() => Self::NameTaken,
            // Somebody writes the same event, or the token is about to be renewed.
            401 | 409 | 429 | 500.. => {
                let seconds =
                    status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                let wait = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
                Self::Temporary { wait }
            }
            _ => Self::Permanent(LossReason::of(&status)),
        }
    }
}
