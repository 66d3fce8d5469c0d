//! The runs that are under way, and a watchdog that warns of those that take long.
//!
//! The watchdog is a separate task, so that it also sees a run that never awaits anything: one that
//! blocks its thread, or computes. It wakes up when a warning may be due, which is once a minute
//! while all runs are short.
//!
//! On a multi-thread runtime, the blocked thread may be the one that drives tokio's timers. The
//! other threads sleep then, and no timer fires. So a plain thread wakes the watchdog, too: a
//! wake-up from outside of the runtime makes another thread take over the timers. On a
//! `current_thread` runtime nothing can run while the thread is blocked, so there is no warning.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_indexer::ObjectKey;

use crate::history::run_record::RunId;

/// A run that takes longer is logged, and again each time its duration has doubled.
pub(crate) const WARN_AFTER: Duration = Duration::from_mins(1);

/// The runs of a controller that are under way.
pub(crate) struct Running {
    /// By key: no two runs of a key overlap.
    runs: Mutex<HashMap<ObjectKey, RunEntry, RandomState>>,
    warn_after: Duration,
    /// Wakes the watchdog from a thread.
    wake: Arc<Notify>,
}

struct RunEntry {
    id: RunId,
    started: Instant,
    attempt: u32,
    /// The duration at which the next warning is due.
    warn_at: Duration,
}

/// A run that takes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongRun {
    pub(crate) key: ObjectKey,
    pub(crate) id: RunId,
    pub(crate) attempt: u32,
    /// How long it has taken so far.
    pub(crate) took: Duration,
}

/// A run is under way until this is dropped.
pub(crate) struct ActiveRun<'r> {
    running: &'r Running,
    key: &'r ObjectKey,
}

impl Running {
    /// `warn_after` is the duration of a run that leads to the first warning.
    pub(crate) fn new(warn_after: Duration) -> Self {
        Self { runs: Mutex::default(), warn_after, wake: Arc::default() }
    }

    /// Notes that a run begins.
    pub(crate) fn enter<'r>(
        &'r self,
        key: &'r ObjectKey,
        id: RunId,
        attempt: u32,
        started: Instant,
    ) -> ActiveRun<'r> {
        self.runs
            .lock()
            .insert(key.clone(), RunEntry { id, started, attempt, warn_at: self.warn_after });
        ActiveRun { running: self, key }
    }

    /// Warns of every run that takes long, and again when its duration has doubled. Never returns.
    pub(crate) async fn warn_while_running(&self, warn: impl Fn(&LongRun)) -> Infallible {
        let _thread = self.start_thread();
        loop {
            let (due, next) = self.take_due(Instant::now());
            due.iter().for_each(&warn);
            tokio::select! {
                biased;
                () = sleep_until(next) => {}
                () = self.wake.notified() => {}
            }
        }
    }

    /// The keys that run now.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.runs.lock().keys().cloned().collect()
    }

    /// How long each of the runs under way has taken so far.
    pub(crate) fn durations(&self) -> Vec<Duration> {
        self.runs.lock().values().map(|run| run.started.elapsed()).collect()
    }

    /// The runs to warn of now, and when the next warning may be due.
    fn take_due(&self, now: Instant) -> (Vec<LongRun>, Instant) {
        let mut due = Vec::new();
        // A run that begins after `now` is not due earlier.
        let mut next = now + self.warn_after;
        for (key, run) in self.runs.lock().iter_mut() {
            let took = now.saturating_duration_since(run.started);
            if took >= run.warn_at {
                due.push(LongRun { key: key.clone(), id: run.id, attempt: run.attempt, took });
                run.warn_at = took.saturating_mul(2);
            }
            next = next.min(run.started + run.warn_at);
        }
        (due, next)
    }

    /// Starts a thread that wakes the watchdog regularly, until the sender is dropped.
    fn start_thread(&self) -> Option<SyncSender<Infallible>> {
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return None;
        }
        let (sender, receiver) = mpsc::sync_channel(0);
        let (wake, period) = (Arc::clone(&self.wake), self.warn_after);
        let wake_regularly = move || {
            while receiver.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                wake.notify_one();
            }
        };
        // Without the thread, the watchdog depends on tokio's timers alone.
        thread::Builder::new().name("windlass-watchdog".to_owned()).spawn(wake_regularly).ok()?;
        Some(sender)
    }
}

impl Drop for ActiveRun<'_> {
    fn drop(&mut self) {
        self.running.runs.lock().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio::task::JoinSet;

    use super::*;
    use crate::history::run_record::RunIds;

    fn id() -> RunId {
        RunIds::of("web", "", Timestamp::UNIX_EPOCH).next()
    }

    fn key() -> ObjectKey {
        "shop/web".parse().expect("a key")
    }

    /// Starts the watchdog. It sends how many seconds each run had taken that it warns of.
    fn watch(running: &Arc<Running>) -> (JoinSet<Infallible>, mpsc::Receiver<LongRun>) {
        let (sender, receiver) = mpsc::channel();
        let (running, mut tasks) = (Arc::clone(running), JoinSet::new());
        tasks.spawn(async move {
            running.warn_while_running(|run| drop(sender.send(run.clone()))).await
        });
        (tasks, receiver)
    }

    #[tokio::test(start_paused = true)]
    async fn run_is_mentioned_after_a_minute_and_each_time_its_duration_doubles() {
        let running = Arc::new(Running::new(WARN_AFTER));
        let (_watchdog, warned) = watch(&running);
        // It has looked when the run begins.
        tokio::time::sleep(Duration::from_secs(7)).await;
        let (key, started) = (key(), Instant::now());
        let under_way = running.enter(&key, id(), 3, started);
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert!(warned.try_recv().is_err());
        tokio::time::sleep(Duration::from_mins(10)).await;
        let took: Vec<_> = warned.try_iter().map(|run| (run.attempt, run.took.as_secs())).collect();
        assert_eq!(took, [(3, 60), (3, 120), (3, 240), (3, 480)]);
        drop(under_way);
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert!(warned.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn short_runs_wake_the_watchdog_once_a_minute_at_most() {
        let running = Running::new(WARN_AFTER);
        let (key, now) = (key(), Instant::now());
        let under_way = running.enter(&key, id(), 1, now);
        let soon = now + Duration::from_secs(1);
        assert_eq!(running.take_due(soon), (Vec::new(), now + WARN_AFTER), "the run may take long");
        drop(under_way);
        assert_eq!(running.take_due(now + WARN_AFTER), (Vec::new(), now + 2 * WARN_AFTER));
    }

    /// The run is all that the runtime has to do, and blocks the thread that looks after the
    /// timers. It ends when it was mentioned.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn run_that_blocks_its_thread_is_mentioned() {
        let running = Arc::new(Running::new(Duration::from_millis(20)));
        let (_watchdog, warned) = watch(&running);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // A timer wakes it.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let key = key();
            let _under_way = running.enter(&key, id(), 1, Instant::now());
            warned.recv_timeout(Duration::from_mins(1))
        });
        let warned = tasks.join_next().await.expect("a task").expect("no panic");
        assert_eq!(warned.expect("it is mentioned while it blocks").key, key());
    }
}
