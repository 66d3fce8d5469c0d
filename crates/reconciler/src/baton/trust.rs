//! Whether the next run is expected to be brief.
//!
//! By how long the last ones kept their thread before they ended, or awaited something. A thread may also have been interrupted,
//! as happens all the time where a core is shared with an API server: then a run seems to be long that was not. So one
//! long run means little; but two of the last dozens do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A run that takes longer is worth another core, if there is a line.
const BRIEF: Duration = Duration::from_micros(50);

/// One that takes longer is worth it anyway.
const LONG: Duration = Duration::from_millis(1);

/// So many keys are a line.
const LINE: usize = 8;

/// After so many brief runs a worker goes on alone, however long the line is.
const ENOUGH: u32 = 8;

/// More are not counted.
const BRIEF_MAX: u32 = 15;

/// A long run counts as much as so many that are not.
const WEIGHT: u32 = 24;

/// More are not counted: so that as many as these exceed a single long run make a worker go on alone again.
const LONG_MAX: u32 = WEIGHT + 64;

// Of what several workers change at once some is lost, which does no harm.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// Brief runs; each that was not brief halves it.
    brief: AtomicU32,
    /// Long runs, each with its weight; each that was not long takes one away.
    long: AtomicU32,
}

impl Trust {
    /// Whether a worker should go on alone. `line` tells how many keys are in the line.
    pub(super) fn is_alone_enough(&self, line: impl FnOnce() -> usize) -> bool {
        self.long.load(Ordering::Relaxed) < WEIGHT
            && (self.brief.load(Ordering::Relaxed) >= ENOUGH || line() < LINE)
    }

    /// Begins a run, or does all of it, and learns from how long that takes.
    pub(super) fn judge<R>(&self, run: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let returned = run();
        let took = began.elapsed();
        let brief = self.brief.load(Ordering::Relaxed);
        let brief = if took <= BRIEF { BRIEF_MAX.min(brief + 1) } else { brief / 2 };
        self.brief.store(brief, Ordering::Relaxed);
        let long = self.long.load(Ordering::Relaxed);
        let long = if took > LONG { LONG_MAX.min(long + WEIGHT) } else { long.saturating_sub(1) };
        self.long.store(long, Ordering::Relaxed);
        returned
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    const NOBODY: usize = 0;
    const ENDLESS: usize = usize::MAX;
    const MIDDLING: Duration = Duration::from_micros(500);

    impl Trust {
        /// So many runs take so long.
        fn see(&self, runs: u32, time: Duration) {
            for _ in 0..runs {
                let began = Instant::now();
                self.judge(|| {
                    let mut cx = Context::from_waker(Waker::noop());
                    let _ = pin!(tokio::time::advance(time)).poll(&mut cx);
                });
                assert_eq!(began.elapsed(), time, "the clock did not move");
            }
        }

        fn is_alone_enough_for(&self, line: usize) -> bool {
            self.is_alone_enough(|| line)
        }
    }

    /// One that has seen brief runs only.
    fn trusting() -> Trust {
        let trust = Trust::default();
        trust.see(2 * BRIEF_MAX, Duration::ZERO);
        trust
    }

    #[tokio::test(start_paused = true)]
    async fn runs_are_spread_if_there_is_a_line_until_they_are_known_to_be_brief() {
        let trust = Trust::default();
        trust.see(ENOUGH - 1, BRIEF);
        assert!(trust.is_alone_enough_for(LINE - 1) && !trust.is_alone_enough_for(LINE));
        trust.see(1, BRIEF);
        assert!(trust.is_alone_enough_for(ENDLESS));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_are_not_brief_are_spread_if_there_is_a_line() {
        let trust = trusting();
        trust.see(1, MIDDLING);
        assert!(trust.is_alone_enough_for(LINE - 1) && !trust.is_alone_enough_for(LINE));
        trust.see(ENOUGH, Duration::ZERO);
        assert!(trust.is_alone_enough_for(ENDLESS));
    }

    /// As one does that is interrupted.
    #[tokio::test(start_paused = true)]
    async fn single_long_run_spreads_the_next_one_only() {
        let trust = trusting();
        trust.see(1, 2 * LONG);
        assert!(!trust.is_alone_enough_for(NOBODY));
        trust.see(1, Duration::ZERO);
        assert!(trust.is_alone_enough_for(NOBODY));
        trust.see(1, Duration::ZERO);
        assert!(trust.is_alone_enough_for(ENDLESS));
    }

    #[tokio::test(start_paused = true)]
    async fn long_runs_among_brief_ones_are_spread_when_some_were_seen() {
        let trust = trusting();
        let mut spread = 0;
        for _ in 0..100 {
            trust.see(9, Duration::ZERO);
            spread += u32::from(!trust.is_alone_enough_for(NOBODY));
            trust.see(1, 2 * LONG);
        }
        assert!(spread >= 98, "{spread} of 100");
    }

    #[tokio::test(start_paused = true)]
    async fn long_runs_are_forgotten_after_others_brief_or_not() {
        for others in [Duration::ZERO, MIDDLING] {
            let trust = trusting();
            trust.see(100, 2 * LONG);
            trust.see(LONG_MAX - WEIGHT, others);
            assert!(!trust.is_alone_enough_for(NOBODY));
            trust.see(1, others);
            assert!(trust.is_alone_enough_for(NOBODY));
        }
    }
}
