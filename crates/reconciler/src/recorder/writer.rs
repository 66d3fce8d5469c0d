//! The writer: the only part of the recorder that waits for the server.
//!
//! It takes one job after the other until there is none, and then ends. A failure that may pass is tried again, a
//! bounded number of times; any other is given up at once.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::correlation::{Job, Settled};
use super::warnings::Trouble;

/// How often an event is tried. As in client-go.
const TRIES_MAX: u32 = 12;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait after the first failure; it doubles with each. With the longest wait below, an event that is tried to
/// the end has waited for about a minute and a half: enough for a server that is restarted.
const BACKOFF: Duration = Duration::from_secs(1);

/// The longest wait: that of client-go.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

const _: () = assert!(BACKOFF.as_millis() <= BACKOFF_MAX.as_millis());

/// Why a request failed.
enum Failure {
    /// The server may take it later; it may also have taken it, and the answer was lost.
    Passing { wait: Option<Duration> },
    /// The name of a new event is taken.
    NameTaken,
    /// It never takes it.
    Lasting(Trouble),
}

/// Says so if the writer ends before its time: by a panic, or with its runtime.
struct Unfinished<'a> {
    shared: &'a Shared,
    /// What is being written.
    ticket: u64,
}

/// Writes until there is nothing to write.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut unfinished = Unfinished { shared: &shared, ticket: 0 };
    // Whether the last event was given up because the server did not answer. Then the next are tried once only, so
    // that a full queue does not take hours.
    let mut is_down = false;
    while let Some(mut job) = shared.take() {
        unfinished.ticket = job.ticket;
        let settled = write(&shared, &mut job, &mut is_down).await;
        shared.state().correlator.settle(&job, settled);
        shared.settled.send_replace(job.ticket);
    }
    // From here on, another may have begun.
    std::mem::forget(unfinished);
}

impl Shared {
    /// The next job. If there is none, the writer is no longer.
    fn take(&self) -> Option<Job> {
        let mut state = self.state();
        let job = state.correlator.take();
        state.has_writer = job.is_some();
        job
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let is_lost = self.ticket > *self.shared.settled.borrow();
        {
            let mut state = self.shared.state();
            state.has_writer = false;
            if is_lost {
                state.correlator.lose();
            }
        }
        // Whoever waits has to start another writer.
        self.shared.settled.send_modify(|settled| *settled = self.ticket.max(*settled));
    }
}

/// Writes one event, in so many tries.
async fn write(shared: &Shared, job: &mut Job, is_down: &mut bool) -> Settled {
    let mut may_be_there = false;
    for attempt in 1..=TRIES_MAX {
        // Once nobody is left to record anything, nobody is made to wait either.
        let is_last = attempt == TRIES_MAX || *is_down || shared.is_left.is_cancelled();
        let wait = match send(shared, job).await {
            Err(Failure::Passing { wait }) => wait,
            answered => {
                *is_down = false;
                match answered {
                    // What seems to be another's is ours, if an answer was lost.
                    Err(Failure::NameTaken) if !may_be_there => {
                        shared.state().correlator.rename(job, shared.clock.now());
                        continue;
                    }
                    Err(Failure::Lasting(trouble)) => {
                        shared.warn_of(&trouble, job);
                        return Settled::GivenUp;
                    }
                    _ => return Settled::Written,
                }
            }
        };
        if is_last {
            break;
        }
        may_be_there = true;
        tokio::select! {
            () = sleep(shared.backoff(attempt, wait)) => {}
            () = shared.is_left.cancelled() => {}
        }
    }
    if !std::mem::replace(is_down, true) {
        shared.warn_of(&Trouble::Unanswered, job);
    }
    Settled::GivenUp
}

impl Shared {
    /// How long to wait after a failure: what the server says, or twice as long as before, less up to a half so that
    /// those who failed together do not come back together.
    fn backoff(&self, attempt: u32, asked: Option<Duration>) -> Duration {
        let doubled = BACKOFF.saturating_mul(1 << (attempt - 1).min(16)).min(BACKOFF_MAX);
        let wait = doubled.mul_f64(0.5 + self.state().random.f64() / 2.0);
        asked.map_or(wait, |asked| asked.clamp(wait, BACKOFF_MAX))
    }

    /// Says why an event is given up.
    fn warn_of(&self, trouble: &Trouble, job: &Job) {
        self.warn(trouble, job.event.metadata.namespace.as_deref().unwrap_or_default());
    }
}

/// One try.
async fn send(shared: &Shared, job: &Job) -> Result<(), Failure> {
    let namespace = job.event.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(shared.client.clone(), namespace);
    let request = async {
        if job.is_new {
            return create(&api, &job.event).await;
        }
        match patch(&api, &job.event).await {
            // Its time was over, or somebody has deleted it.
            Err(kube::Error::Api(status)) if status.code == 404 => create(&api, &job.event).await,
            patched => patched,
        }
    };
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::of(error, job.is_new)),
        Err(_) => Err(Failure::Passing { wait: None }),
    }
}

async fn create(api: &Api<Event>, event: &Event) -> Result<(), kube::Error> {
    api.create(&PostParams::default(), event).await.map(drop)
}

/// Only the series changes; the server takes no other change.
async fn patch(api: &Api<Event>, event: &Event) -> Result<(), kube::Error> {
    let name = event.metadata.name.as_deref().unwrap_or_default();
    let patch = Patch::Merge(json!({"series": event.series}));
    api.patch(name, &PatchParams::default(), &patch).await.map(drop)
}

impl Failure {
    fn of(error: kube::Error, is_new: bool) -> Self {
        let status = match error {
            kube::Error::Api(status) => status,
            // The connection, or an answer that broke off.
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::SerdeError(_) => {
                return Self::Passing { wait: None };
            }
            _ => return Self::Lasting(Trouble::NotSent),
        };
        match status.code {
            409 if is_new && status.is_already_exists() => Self::NameTaken,
            // Somebody writes the same event, or its token is about to be renewed.
            401 | 409 | 429 | 500.. => {
                let seconds =
                    status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                let wait = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
                Self::Passing { wait }
            }
            _ => Self::Lasting(Trouble::of(&status)),
        }
    }
}
