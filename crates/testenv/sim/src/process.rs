//! A simulated process: a current-thread runtime with its own paused clock.
//!
//! All processes share one OS thread. The simulation [runs](Process::run) one of them at a time,
//! until it is idle at a given time of its clock, or until it has sent something. tokio itself
//! advances a paused clock, exactly from timer to timer, when a runtime is about to park; here it
//! may do so only up to the given time:
//!
//! ```text
//! about to park ─┬─ the time is reached, or something was sent ─▶ wake the main future: it returns
//!                └─ otherwise ─▶ park: tokio advances the clock to the next timer, or to the time
//! ```
//!
//! Waking the main future before a park keeps the clock from advancing. So nothing is polled in
//! vain, and no time is skipped. Dropping a process is a crash: none of its tasks is polled again.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep_until};

/// Milliseconds since the simulation began. tokio's timers have this granularity.
pub(crate) type Time = u64;

/// A runtime with a clock of its own.
pub(crate) struct Process {
    runtime: Runtime,
    gate: Arc<Gate>,
    /// The time at which it was started, and its own clock then.
    started: Time,
    epoch: Instant,
}

/// Decides whether the runtime may park, and so let time pass.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// The process has sent something that must be looked at before time passes.
    has_sent: AtomicBool,
    /// The process has reached the time until which it runs.
    is_due: AtomicBool,
    /// The process is idle: its main future returns.
    is_idle: AtomicBool,
    main: Mutex<Option<Waker>>,
}

impl Gate {
    /// Stops the clock of the process: it has sent something.
    pub(crate) fn note_sent(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
    }

    fn before_park(&self) {
        if self.has_sent.load(Ordering::Relaxed) || self.is_due.load(Ordering::Relaxed) {
            self.is_idle.store(true, Ordering::Relaxed);
            let main = self.main.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(main) = &*main {
                main.wake_by_ref();
            }
        }
    }
}

impl Process {
    /// Starts a process at this time.
    ///
    /// # Panics
    /// If there can be no more runtimes.
    pub(crate) fn start(now: Time) -> Self {
        let gate = Arc::new(Gate::default());
        let before_park = Arc::clone(&gate);
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_park(move || before_park.before_park())
            .build()
            .expect("a runtime without a socket must start");
        let epoch = runtime.block_on(async { Instant::now() });
        Self { runtime, gate, started: now, epoch }
    }

    /// Returns what tells the process that it has sent something.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Returns the runtime, to spawn tasks on it.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the time that the process has reached.
    pub(crate) fn now(&self) -> Time {
        let _entered = self.runtime.enter();
        let elapsed = Instant::now().saturating_duration_since(self.epoch);
        self.started + u64::try_from(elapsed.as_millis()).unwrap_or(Time::MAX)
    }

    /// Runs the process until it is idle at this time, or idle at an earlier time at which it has
    /// sent something. Returns whether it has.
    pub(crate) fn run(&self, until: Time) -> bool {
        let gate = &self.gate;
        for flag in [&gate.has_sent, &gate.is_due, &gate.is_idle] {
            flag.store(false, Ordering::Relaxed);
        }
        let due = self.epoch + Duration::from_millis(until.saturating_sub(self.started));
        self.runtime.block_on(async {
            let mut due = pin!(sleep_until(due));
            poll_fn(|cx| {
                if gate.is_idle.load(Ordering::Relaxed) {
                    return Poll::Ready(());
                }
                let mut main = gate.main.lock().unwrap_or_else(PoisonError::into_inner);
                *main = Some(cx.waker().clone());
                drop(main);
                if !gate.is_due.load(Ordering::Relaxed) && due.as_mut().poll(cx).is_ready() {
                    gate.is_due.store(true, Ordering::Relaxed);
                }
                Poll::Pending
            })
            .await;
        });
        gate.has_sent.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use futures::channel::oneshot;
    use tokio::time::sleep;

    use super::*;

    fn counted(process: &Process, every: u64) -> Arc<AtomicU64> {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        process.runtime().spawn(async move {
            loop {
                sleep(Duration::from_millis(every)).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        count
    }

    #[test]
    fn clock_stops_exactly_at_the_bound() {
        let process = Process::start(5);
        let count = counted(&process, 10);
        assert!(!process.run(5));
        assert_eq!((process.now(), count.load(Ordering::Relaxed)), (5, 0));
        assert!(!process.run(105), "nothing was sent");
        assert_eq!((process.now(), count.load(Ordering::Relaxed)), (105, 10), "due at 105, too");
        process.run(60_000);
        assert_eq!(process.now(), 60_000);
        process.run(7);
        assert_eq!(process.now(), 60_000, "a clock does not go back");
    }

    #[test]
    fn process_that_sends_something_stops_at_that_time() {
        let process = Process::start(0);
        let gate = Arc::clone(process.gate());
        process.runtime().spawn(async move {
            sleep(Duration::from_millis(40)).await;
            gate.note_sent();
            // Ready at the same time: runs before the process stops.
            tokio::task::yield_now().await;
            gate.note_sent();
        });
        assert!(process.run(1_000));
        assert_eq!(process.now(), 40);
        assert!(!process.run(1_000));
        assert_eq!(process.now(), 1_000);
    }

    #[test]
    fn processes_wake_each_other_and_their_clocks_are_their_own() {
        let (one, two) = (Process::start(0), Process::start(0));
        let (sender, message) = oneshot::channel::<u64>();
        let waiting = two.runtime().spawn(async move {
            let got = message.await;
            sleep(Duration::from_millis(3)).await;
            got
        });
        one.runtime().spawn(async move {
            sleep(Duration::from_millis(10)).await;
            sender.send(7).expect("it waits");
        });
        two.run(8);
        one.run(10);
        assert_eq!((one.now(), two.now()), (10, 8));
        two.run(10);
        assert!(!waiting.is_finished());
        two.run(11);
        assert!(waiting.is_finished(), "it was woken at 8, before its clock went on");
    }

    #[test]
    fn tasks_of_a_crashed_process_are_not_polled_again() {
        let process = Process::start(0);
        let count = counted(&process, 10);
        process.run(25);
        drop(process);
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert_eq!(Arc::strong_count(&count), 1, "its tasks are gone");
    }
}
