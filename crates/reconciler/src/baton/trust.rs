//! Whether the next run is expected to be brief.
//!
//! By how long the last ones computed before they ended, or had to wait. The clock on the wall does not tell that of a
//! thread that was interrupted: where a core is shared with an API server, every hundredth run seems to take a
//! millisecond and more. The clock that knows better costs a system call. So it is asked only for a while after a run
//! that seemed to be long.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A run that computes for longer is worth another core, if there is a line.
const BRIEF: Duration = Duration::from_micros(50);

/// One that computes for longer is worth it anyway.
const LONG: Duration = Duration::from_millis(1);

/// With so much trust in the next run to be brief, a worker goes on alone, however many keys wait.
const ENOUGH: i32 = 8;

/// More trust than this is not gathered.
const MOST: i32 = 15;

/// Less than this is not left.
const LEAST: i32 = -64;

/// So many keys are a line.
const LINE: usize = 8;

/// So many runs are looked at more closely after one that seemed long: as many as follow a long one until the next may be
/// trusted again.
const CLOSELY: u32 = 72;

#[derive(Debug, Default)]
pub(super) struct Trust {
    level: AtomicI32,
    /// How many of the next runs are looked at more closely.
    closely: AtomicU32,
}

// Of what several workers change at once some is lost, which does no harm.
impl Trust {
    /// Whether a worker should go on alone, with so many keys in the line.
    pub(super) fn is_alone_enough(&self, line: impl FnOnce() -> usize) -> bool {
        match self.level.load(Ordering::Relaxed) {
            ENOUGH.. => true,
            0.. => line() < LINE,
            _ => false,
        }
    }

    /// Begins a run, or does all of it, and learns from how long that takes. A brief one adds a little trust. One that was not
    /// takes half of it. A long one takes all, and more: so many brief ones must follow before a worker goes on alone again that
    /// one in a few dozen is enough to prevent it.
    pub(super) fn judge<R>(&self, run: impl FnOnce() -> R) -> R {
        let closely = self.closely.load(Ordering::Relaxed);
        let is_close = closely > 0;
        let before = if is_close { computed() } else { None };
        let began = Instant::now();
        let returned = run();
        let mut took = began.elapsed();
        if is_close {
            if let (Some(before), Some(after)) = (before, computed()) {
                took = took.min(after.saturating_sub(before));
            }
            self.closely.store(closely - 1, Ordering::Relaxed);
        }
        if took > LONG {
            self.closely.store(CLOSELY, Ordering::Relaxed);
        }
        let level = self.level.load(Ordering::Relaxed);
        let level = match took {
            took if took <= BRIEF => MOST.min(level + 1),
            // It may have been interrupted; the next ones will tell.
            took if took <= LONG || !is_close => level.min(level / 2),
            _ => LEAST,
        };
        self.level.store(level, Ordering::Relaxed);
        returned
    }
}

/// How long this thread has computed; `None` where the system does not tell.
fn computed() -> Option<Duration> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    return nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)
        .ok()
        .map(Into::into);
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    return None;
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: usize = 0;

    impl Trust {
        fn is_alone_enough_with(&self, line: usize) -> bool {
            self.is_alone_enough(|| line)
        }

        /// So many runs that take no time, by a clock that stands still.
        fn see_brief(&self, runs: i32) {
            for _ in 0..runs {
                self.judge(|| ());
            }
        }
    }

    /// Has the clock say that a run took so long.
    fn take(time: Duration) -> impl FnOnce() {
        move || {
            let mut advance = std::pin::pin!(tokio::time::advance(time));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = advance.as_mut().poll(&mut cx);
        }
    }

    /// Computes until the thread has done so for longer than a long run.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    fn compute() {
        let began = computed().expect("a clock");
        while computed().expect("a clock") - began <= LONG {}
        take(2 * LONG)();
    }

    #[tokio::test(start_paused = true)]
    async fn brief_runs_make_a_worker_go_on_alone_past_any_line() {
        let trust = Trust::default();
        assert!(trust.is_alone_enough_with(LINE - 1) && !trust.is_alone_enough_with(LINE));
        trust.see_brief(ENOUGH);
        assert!(trust.is_alone_enough_with(usize::MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_are_not_brief_are_spread_if_there_is_a_line() {
        let trust = Trust::default();
        trust.see_brief(2 * MOST);
        trust.judge(take(2 * BRIEF));
        assert!(trust.is_alone_enough_with(LINE - 1) && !trust.is_alone_enough_with(LINE));
    }

    #[tokio::test(start_paused = true)]
    async fn run_that_was_interrupted_is_not_taken_for_a_long_one() {
        let trust = Trust::default();
        trust.see_brief(2 * MOST);
        for _ in 0..1_000 {
            // Only the clock on the wall goes on.
            trust.judge(take(2 * LONG));
            assert!(trust.is_alone_enough_with(NOBODY));
        }
    }

    #[cfg(any(target_os = "linux", target_os = "macos"))]
    #[tokio::test(start_paused = true)]
    async fn long_runs_are_spread_though_nobody_waits_until_dozens_were_brief() {
        let trust = Trust::default();
        trust.see_brief(2 * MOST);
        trust.judge(compute);
        assert!(trust.is_alone_enough_with(NOBODY), "it may have been interrupted");
        // Within as many, the next one is looked at closely.
        trust.see_brief(50);
        trust.judge(compute);
        assert!(!trust.is_alone_enough_with(NOBODY));
        trust.see_brief(-LEAST - 1);
        assert!(!trust.is_alone_enough_with(NOBODY));
        trust.see_brief(1);
        assert!(trust.is_alone_enough_with(NOBODY));
    }
}
