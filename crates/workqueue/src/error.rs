//! The errors of this crate.

use std::fmt;
use std::time::Duration;

/// The longest delay that an add may ask for: one hundred years.
///
/// A longer delay is a mistake in units or arithmetic, so it is refused.
pub const MAX_DELAY: Duration = Duration::from_hours(100 * 365 * 24);

/// The queue refused an add. The error returns the key, so that nothing is lost.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError<K> {
    /// The queue has been shut down. A retry will not help.
    #[error("the work queue is shut down and takes no more keys; stop adding, or make a new queue")]
    ShutDown {
        /// The key that was not taken.
        key: K,
    },
    /// The delay is longer than [`MAX_DELAY`].
    #[error(
        "a delay of {} years is beyond the {} years that the work queue accepts; check its unit",
        years(.delay),
        years(&MAX_DELAY)
    )]
    DelayTooLong {
        /// The key that was not taken.
        key: K,
        /// The delay that was asked for.
        delay: Duration,
    },
}

/// An invalid setting of a queue or a limiter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidConfig {
    /// The rate of a token bucket is out of range or not a number.
    #[error(
        "a token bucket's rate must lie between one in {} years and 1e9 a second, not {per_second} \
         a second; for no limit at all, leave the bucket out",
        years(&MAX_DELAY)
    )]
    Rate {
        /// The rate that was asked for.
        per_second: f64,
    },
    /// The burst of a token bucket is zero.
    #[error("a token bucket's burst must be at least 1: with 0 no key would ever be tried again")]
    Burst,
    /// The burst of a token bucket is so large that the bucket would never be full again.
    #[error(
        "a token bucket of {burst} tokens at {per_second} a second would take centuries to fill; \
         for no limit at all, leave the bucket out"
    )]
    BurstTooLarge {
        /// The burst that was asked for.
        burst: u32,
        /// The rate that was asked for.
        per_second: f64,
    },
    /// The first delay of a backoff is zero, or longer than its last.
    #[error(
        "a backoff must start not above its maximum, and an exponential one above zero: \
         base {base:?}, maximum {max:?}"
    )]
    Backoff {
        /// The first delay.
        base: Duration,
        /// The longest delay.
        max: Duration,
    },
    /// A delay is longer than [`MAX_DELAY`].
    #[error(
        "a limiter's delay must be at most {} years, not {} years; check its unit",
        years(&MAX_DELAY),
        years(.delay)
    )]
    DelayTooLong {
        /// The delay that was asked for.
        delay: Duration,
    },
    /// A jitter is negative, above 1, or not a number.
    #[error("a jitter must lie between 0 and 1 (a share of the delay), not {factor}")]
    Jitter {
        /// The factor that was asked for.
        factor: f64,
    },
    /// A [`MaxOf`](crate::MaxOf) without limiters.
    #[error("the maximum of no limiters is undefined: give at least one")]
    NoLimiters,
    /// The aging period is zero.
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

/// Does not show the key: errors end up in logs, and a key may be confidential.
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
