//! What a caller can do wrong, and what to do instead.

use std::fmt;
use std::time::Duration;

/// The longest delay that an add may ask for: one hundred years.
///
/// Anything longer is a slip of units or of arithmetic, and is refused rather than waited for.
pub const MAX_DELAY: Duration = Duration::from_hours(100 * 365 * 24);

/// An add that the queue did not take. The key comes back, so that nothing is lost.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError<K> {
    /// The queue has been shut down: nobody would run the key. Not worth a retry.
    #[error("the work queue is shut down and takes no more keys; stop adding, or make a new queue")]
    ShutDown {
        /// The key that was not taken.
        key: K,
    },
    /// The delay is longer than [`MAX_DELAY`].
    #[error("a delay of {} years is beyond the {} years that the work queue accepts; check its unit", years(.delay), years(&MAX_DELAY))]
    DelayTooLong {
        /// The key that was not taken.
        key: K,
        /// The delay that was asked for.
        delay: Duration,
    },
}

/// A setting that cannot work, found when a queue or a limiter is built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidConfig {
    /// A token bucket that would never hand out a token, or whose rate is not a number.
    #[error(
        "a token bucket's rate must lie between one in {} years and 1e9 a second, not {per_second} a second; for no limit at all, leave the bucket out",
        years(&MAX_DELAY)
    )]
    Rate {
        /// The rate that was asked for.
        per_second: f64,
    },
    /// A token bucket that holds no token.
    #[error("a token bucket's burst must be at least 1: with 0 no key would ever be tried again")]
    Burst,
    /// A token bucket that holds so many tokens, at such a rate, that it would never be full again.
    #[error(
        "a token bucket of {burst} tokens at {per_second} a second would take centuries to fill; for no limit at all, leave the bucket out"
    )]
    BurstTooLarge {
        /// The burst that was asked for.
        burst: u32,
        /// The rate that was asked for.
        per_second: f64,
    },
    /// A backoff whose first delay is zero, or longer than its last.
    #[error(
        "a backoff must start not above its maximum, and an exponential one above zero: base {base:?}, maximum {max:?}"
    )]
    Backoff {
        /// The first delay.
        base: Duration,
        /// The longest delay.
        max: Duration,
    },
    /// A delay that an add would refuse.
    #[error("a limiter's delay must be at most {} years, not {} years; check its unit", years(&MAX_DELAY), years(.delay))]
    DelayTooLong {
        /// The delay that was asked for.
        delay: Duration,
    },
    /// A jitter that is negative, not a number, or would more than double a delay.
    #[error("a jitter must lie between 0 and 1 (a share of the delay), not {factor}")]
    Jitter {
        /// The factor that was asked for.
        factor: f64,
    },
    /// Limiters are combined, but there is none.
    #[error("the maximum of no limiters is undefined: give at least one")]
    NoLimiters,
    /// Aging that would move every key up at once.
    #[error(
        "aging must be above zero: it is how long a key stays at one priority before it moves up"
    )]
    Aging,
}

impl<K> AddError<K> {
    /// The key that was not taken.
    pub fn into_key(self) -> K {
        match self {
            Self::ShutDown { key } | Self::DelayTooLong { key, .. } => key,
        }
    }

    /// Whether the queue refused because it is shut down.
    pub fn is_shut_down(&self) -> bool {
        matches!(self, Self::ShutDown { .. })
    }
}

/// Shows no key: a key may be anything, and errors end up in logs.
impl<K> fmt::Debug for AddError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShutDown { .. } => f.debug_struct("ShutDown").finish_non_exhaustive(),
            Self::DelayTooLong { delay, .. } => {
                f.debug_struct("DelayTooLong").field("delay", delay).finish_non_exhaustive()
            }
        }
    }
}

fn years(delay: &Duration) -> u64 {
    delay.as_secs() / (365 * 24 * 60 * 60)
}
