//! The runs that are under way, and a watchdog that warns of those that take long.
//!
//! The watchdog is a task of its own, so that it also sees a run that never awaits anything: one
//! that blocks its thread, or computes. It sleeps until a run could be due, which is once a minute
//! while all runs are short.
//!
//! On a runtime with several threads, a blocked thread may be the one whose turn it was to look
//! after tokio's timers. The others sleep then, and no timer fires. So a plain thread wakes the
//! watchdog, too: a wake from outside of the runtime makes one of the others look, and take over
//! the timers. On a runtime with a single thread nothing can run while that thread is blocked, and
//! nobody is told.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_indexer::ObjectKey;

/// A run that takes longer is mentioned in the log, then after twice the time, and so on.
const LONG: Duration = Duration::from_mins(1);

/// The runs of a controller that are under way.
#[derive(Debug)]
pub(crate) struct Running {
    /// By key: no two runs of a key overlap.
    runs: Mutex<HashMap<ObjectKey, Run, RandomState>>,
    long: Duration,
    /// Wakes the watchdog from a thread.
    nudged: Arc<Notify>,
}

#[derive(Debug)]
struct Run {
    started: Instant,
    attempt: u32,
    /// How long it may take until it is mentioned.
    patience: Duration,
}

/// A run that takes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongRun {
    pub(crate) key: ObjectKey,
    pub(crate) attempt: u32,
    /// How long it has taken so far.
    pub(crate) took: Duration,
}

/// A run is under way for as long as this lives.
#[derive(Debug)]
pub(crate) struct UnderWay<'r> {
    running: &'r Running,
    key: &'r ObjectKey,
}

impl Running {
    pub(crate) fn new() -> Self {
        Self::with_patience(LONG)
    }

    fn with_patience(long: Duration) -> Self {
        Self { runs: Mutex::default(), long, nudged: Arc::default() }
    }

    /// A run begins.
    pub(crate) fn enter<'r>(
        &'r self,
        key: &'r ObjectKey,
        attempt: u32,
        started: Instant,
    ) -> UnderWay<'r> {
        self.lock().insert(key.clone(), Run { started, attempt, patience: self.long });
        UnderWay { running: self, key }
    }

    /// Warns of every run that takes long, once for each time that its duration doubles.
    pub(crate) async fn warn_while_running(&self, warn: impl Fn(&LongRun)) -> Infallible {
        let _thread = self.start_nudging();
        loop {
            let (due, next) = self.look(Instant::now());
            due.iter().for_each(&warn);
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.nudged.notified() => {}
            }
        }
    }

    /// The runs that are to be mentioned now, and when to look again.
    fn look(&self, now: Instant) -> (Vec<LongRun>, Instant) {
        let mut due = Vec::new();
        // A run that begins later is not due before then.
        let mut next = now + self.long;
        for (key, run) in self.lock().iter_mut() {
            let took = now.saturating_duration_since(run.started);
            if took >= run.patience {
                due.push(LongRun { key: key.clone(), attempt: run.attempt, took });
                run.patience = took.saturating_mul(2);
            }
            next = next.min(run.started + run.patience);
        }
        (due, next)
    }

    /// Starts a thread that wakes the watchdog now and then, until what this returns is dropped.
    fn start_nudging(&self) -> Option<SyncSender<Infallible>> {
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return None;
        }
        let (sender, receiver) = mpsc::sync_channel(0);
        let (nudged, period) = (Arc::clone(&self.nudged), self.long);
        let nudge = move || {
            while receiver.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                nudged.notify_one();
            }
        };
        // Without the thread, runs that block theirs are mentioned if timers still fire.
        thread::Builder::new().name("windlass-watchdog".to_owned()).spawn(nudge).ok()?;
        Some(sender)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Run, RandomState>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.running.lock().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

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
        let running = Arc::new(Running::new());
        let (_watchdog, warned) = watch(&running);
        // It has looked when the run begins.
        tokio::time::sleep(Duration::from_secs(7)).await;
        let (key, started) = (key(), Instant::now());
        let under_way = running.enter(&key, 3, started);
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
        let running = Running::new();
        let (key, now) = (key(), Instant::now());
        let under_way = running.enter(&key, 1, now);
        let soon = now + Duration::from_secs(1);
        assert_eq!(running.look(soon), (Vec::new(), now + LONG), "the run may become a long one");
        drop(under_way);
        assert_eq!(running.look(now + LONG), (Vec::new(), now + 2 * LONG));
    }

    /// The run is all that the runtime has to do, and blocks the thread that looks after the
    /// timers. It ends when it was mentioned.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn run_that_blocks_its_thread_is_mentioned() {
        let running = Arc::new(Running::with_patience(Duration::from_millis(20)));
        let (_watchdog, warned) = watch(&running);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // A timer wakes it.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let key = key();
            let _under_way = running.enter(&key, 1, Instant::now());
            warned.recv_timeout(Duration::from_mins(1))
        });
        let warned = tasks.join_next().await.expect("a task").expect("no panic");
        assert_eq!(warned.expect("it is mentioned while it blocks").key, key());
    }
}
