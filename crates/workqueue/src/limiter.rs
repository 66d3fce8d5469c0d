//! How long a key waits before it is tried again.

mod bucket;
mod exponential;
mod failures;
mod fast_slow;
mod jitter;
mod max_of;
mod max_wait;

use std::time::Duration;

use tokio::time::Instant;

pub use bucket::TokenBucket;
pub use exponential::Exponential;
pub use fast_slow::FastSlow;
pub use jitter::Jitter;
pub use max_of::MaxOf;
pub use max_wait::MaxWait;

/// Decides how long a key waits before it is tried again. It is asked about [retries](crate::Lease::retry) and
/// [rate-limited adds](crate::WorkQueue::add_rate_limited); plain adds do not wait.
///
/// | limiter | delay |
/// |---|---|
/// | [`Exponential`] | doubles with each failure of the key |
/// | [`FastSlow`] | short for the first failures of the key, then long |
/// | [`TokenBucket`] | spaces all keys together to a rate, with a burst |
/// | [`MaxOf`] | the longest of several limiters' |
/// | [`MaxWait`] | another limiter's, cut at a maximum |
/// | [`Jitter`] | another limiter's, plus a random share of it |
///
/// A limiter is a plain synchronous structure: time comes in as an argument, randomness from a seed. The
/// queue calls it under a lock of its own, so an implementation needs none, and must not call the queue.
///
/// ```
/// use std::time::Duration;
/// use tokio::time::Instant;
/// use windlass_workqueue::{RateLimiter, WorkQueue};
///
/// /// Every retry after one second, whatever happened before.
/// #[derive(Debug)]
/// struct EverySecond;
///
/// impl<K> RateLimiter<K> for EverySecond {
///     fn next_delay(&mut self, _key: &K, _now: Instant) -> Duration {
///         Duration::from_secs(1)
///     }
///     fn forget(&mut self, _key: &K) {}
///     fn failures(&self, _key: &K) -> u32 {
///         0
///     }
/// }
///
/// let queue = WorkQueue::<String>::builder().limiter(EverySecond).build()?;
/// # Ok::<(), windlass_workqueue::InvalidConfig>(())
/// ```
pub trait RateLimiter<K>: Send {
    /// Counts a failure of `key` at `now` and says how long the key waits from then on.
    fn next_delay(&mut self, key: &K, now: Instant) -> Duration;

    /// Hears until when `key` waits in the end, after [`next_delay`](Self::next_delay): another limiter may
    /// have asked for more, or the delay may have been cut. One that counts a failure only once while the
    /// key waits needs to know; others ignore it.
    fn granted(&mut self, key: &K, until: Instant) {
        let _ = (key, until);
    }

    /// Forgets the failures of `key`: it has succeeded, or is gone.
    fn forget(&mut self, key: &K);

    /// How many failures `key` is charged with.
    fn failures(&self, key: &K) -> u32;

    /// Whether any key is charged with failures, as far as is known without looking for long. As long as not, and until the next
    /// failure, the queue neither has one [forgotten](Self::forget) nor asks for [`failures`](Self::failures). By default
    /// yes: a limiter that takes note of every success has to say so.
    fn has_failures(&self) -> bool {
        true
    }
}

impl<K> RateLimiter<K> for Box<dyn RateLimiter<K>> {
    fn next_delay(&mut self, key: &K, now: Instant) -> Duration {
        (**self).next_delay(key, now)
    }

    fn granted(&mut self, key: &K, until: Instant) {
        (**self).granted(key, until);
    }

    fn forget(&mut self, key: &K) {
        (**self).forget(key);
    }

    fn failures(&self, key: &K) -> u32 {
        (**self).failures(key)
    }

    fn has_failures(&self) -> bool {
        (**self).has_failures()
    }
}
