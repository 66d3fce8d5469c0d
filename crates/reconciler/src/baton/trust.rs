//! Whether the next run is expected to be brief.
//!
//! By how long the last ones kept their thread before they ended, or awaited something. A thread may also have been interrupted,
//! as happens all the time where a core is shared with an API server: then a run seems to be long that was not. So one
//! long run in a few dozen means little, unless it was very long.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A run that takes longer is worth another core, if there is a line.
const BRIEF: Duration = Duration::from_micros(50);

/// One that takes longer is worth it anyway.
const LONG: Duration = Duration::from_millis(1);

/// Hardly any interruption takes longer.
const VERY_LONG: Duration = Duration::from_millis(20);

/// So many keys are a line.
const LINE: usize = 8;

/// After so many brief runs a worker goes on alone, however long the line is.
const ENOUGH: u32 = 8;

/// More are not counted.
const BRIEF_MAX: u32 = 15;

/// What a long run adds to the bucket. While as much is in it, runs are spread.
const BUCKET: u32 = 24;

/// What fits into it: after any number of long runs, 65 others are enough for a worker to go on alone.
const BUCKET_MAX: u32 = BUCKET + 64;

// Of what several workers change at once some is lost, which does no harm.
#[derive(Debug)]
pub(super) struct Trust {
    /// Brief runs; each that was not brief halves it.
    brief: AtomicU32,
    /// A bucket that leaks: long runs fill it, and each other run takes one out.
    long: AtomicU32,
}

impl Default for Trust {
    /// Nothing is known yet, and the first run may be a long one.
    fn default() -> Self {
        Self { brief: AtomicU32::new(0), long: AtomicU32::new(BUCKET) }
    }
}

impl Trust {
    /// Whether a worker should go on alone. `line` tells how many keys are in the line.
    pub(super) fn is_alone_enough(&self, line: impl FnOnce() -> usize) -> bool {
        self.long.load(Ordering::Relaxed) < BUCKET
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
        let long = match took {
            took if took > VERY_LONG => BUCKET_MAX,
            took if took > LONG => BUCKET_MAX.min(long + BUCKET),
            _ => long.saturating_sub(1),
        };
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
        assert!(!trust.is_alone_enough_for(NOBODY), "the first run may be long");
        trust.see(1, BRIEF);
        assert!(trust.is_alone_enough_for(NOBODY));
        trust.see(ENOUGH - 2, BRIEF);
        assert!(trust.is_alone_enough_for(LINE - 1) && !trust.is_alone_enough_for(LINE));
        trust.see(1, BRIEF);
        assert!(trust.is_alone_enough_for(ENDLESS));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_are_not_brief_are_spread_if_there_is_a_line() {
        let trust = trusting();
        trust.see(1, MIDDLING);
        assert!(trust.is_alone_enough_for(LINE - 1) && !trust.is_alone_enough_for(LINE));
        trust.see(1, Duration::ZERO);
        assert!(trust.is_alone_enough_for(ENDLESS));
    }

    /// As one seems that is interrupted.
    #[tokio::test(start_paused = true)]
    async fn single_long_run_spreads_the_next_one_only() {
        let trust = trusting();
        trust.see(1, 2 * LONG);
        assert!(!trust.is_alone_enough_for(NOBODY));
        trust.see(1, Duration::ZERO);
        assert!(trust.is_alone_enough_for(ENDLESS));
        for _ in 0..100 {
            trust.see(29, Duration::ZERO);
            assert!(trust.is_alone_enough_for(ENDLESS));
            trust.see(1, 2 * LONG);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn single_run_that_was_very_long_spreads_dozens() {
        let trust = trusting();
        trust.see(1, 2 * VERY_LONG);
        trust.see(BUCKET_MAX - BUCKET, Duration::ZERO);
        assert!(!trust.is_alone_enough_for(NOBODY));
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
        assert_eq!(spread, 98);
    }

    #[tokio::test(start_paused = true)]
    async fn long_runs_are_forgotten_after_others_brief_or_not() {
        for others in [Duration::ZERO, MIDDLING] {
            let trust = trusting();
            trust.see(100, 2 * LONG);
            trust.see(BUCKET_MAX - BUCKET, others);
            assert!(!trust.is_alone_enough_for(NOBODY));
            trust.see(1, others);
            assert!(trust.is_alone_enough_for(NOBODY));
        }
    }
}
