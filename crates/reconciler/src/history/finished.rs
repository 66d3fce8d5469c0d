//! Finished runs, for users: a hook for those that failed, and a stream of all.
//!
//! Every subscriber has a channel of its own. If it is slow, runs are left out and counted: a
//! worker never waits for a subscriber.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, error::TrySendError};
use windlass_indexer::ObjectKey;

use crate::error::Error;
use crate::history::run_record::Run;

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

/// The hook of the user for runs that failed.
pub(crate) type OnError = Arc<dyn Fn(&FailedRun<'_>) + Send + Sync>;

/// How many runs wait for a subscriber before others are left out.
const WAITING_MAX: usize = 1_024;

/// The runs of a controller from now on, as they end: a stream of keys and runs. See
/// [`ControllerHandle::finished`](crate::ControllerHandle::finished).
///
/// At most 1,024 runs wait to be read. If there are more, the later ones are left out, and
/// [`missed`](Self::missed) counts them. It ends when the controller and all of its handles are
/// dropped.
#[derive(Debug)]
pub struct FinishedRuns {
    runs: mpsc::Receiver<(ObjectKey, Arc<Run>)>,
    missed: Arc<AtomicU64>,
}

/// Those who read the finished runs of a controller.
#[derive(Default)]
pub(crate) struct RunSubscribers(Mutex<Vec<Subscriber>>);

struct Subscriber {
    runs: mpsc::Sender<(ObjectKey, Arc<Run>)>,
    missed: Arc<AtomicU64>,
}

impl FinishedRuns {
    /// How many runs were left out, because they were not read in time.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

impl Stream for FinishedRuns {
    type Item = (ObjectKey, Arc<Run>);

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().runs.poll_recv(cx)
    }
}

impl RunSubscribers {
    pub(crate) fn add(&self) -> FinishedRuns {
        let (sender, runs) = mpsc::channel(WAITING_MAX);
        let missed = Arc::<AtomicU64>::default();
        self.0.lock().push(Subscriber { runs: sender, missed: Arc::clone(&missed) });
        FinishedRuns { runs, missed }
    }

    /// Sends a run to all subscribers.
    pub(crate) fn send(&self, key: &ObjectKey, run: &Arc<Run>) {
        self.0.lock().retain(|subscriber| {
            match subscriber.runs.try_send((key.clone(), Arc::clone(run))) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    subscriber.missed.fetch_add(1, Ordering::Relaxed);
                    true
                }
                Err(TrySendError::Closed(_)) => false,
            }
        });
    }
}
