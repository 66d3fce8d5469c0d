//! How long a key waits before it is tried again.

mod bucket;
mod exponential;
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

/// Decides how long a key that failed waits before it is tried again.
///
/// The queue counts the failures of each key, at most one for each backoff window: the time from a
/// failure to the retry that follows it. For each new window it asks the limiter once, so a limiter
/// that all keys share, such as [`TokenBucket`], books one slot for each window, however often
/// events run the key early and it fails again. A failure that has its own delay
/// ([`Lease::retry_after`](crate::Lease::retry_after)) is counted and opens a window, too, but the
/// limiter is not called.
///
/// | limiter | delay |
/// |---|---|
/// | [`Exponential`] | doubles with each failure of the key |
/// | [`FastSlow`] | short for the first failures of the key, then long |
/// | [`TokenBucket`] | spaces all keys together to a rate, with a burst |
/// | [`MaxOf`] | the longest of several limiters' |
/// | [`MaxWait`] | another limiter's, capped at a maximum |
/// | [`Jitter`] | another limiter's, plus a random share of it |
///
/// [Retries](crate::Lease::retry) and [rate-limited adds](crate::WorkQueue::add_rate_limited) are
/// failures. Plain and delayed adds are not, and do not wait for a limiter.
///
/// ```
/// use std::time::Duration;
/// use windlass_workqueue::WorkQueue;
///
/// # let mut paused = tokio::runtime::Builder::new_current_thread();
/// # paused.enable_time().start_paused(true).build()?.block_on(async {
/// // The default limiter: from 5 ms for each key, and ten retries a second over all keys.
/// let queue = WorkQueue::<u32>::new();
/// for key in 0..1_100 {
///     queue.add(key)?;
///     let lease = queue.try_get().expect("ready");
///     lease.retry_after(Duration::from_secs(1))?; // "not ready, again in a second"
///     assert_eq!(queue.failures(&key), 1);
/// }
///
/// // They had their own delays, so they do not delay a key that has none.
/// queue.add(9_999)?;
/// let delay = queue.try_get().expect("ready").retry()?;
/// assert_eq!(delay, Duration::from_millis(5));
/// # queue.shut_down();
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A limiter is synchronous: time comes in as an argument, randomness from a seed. It has a lock of
/// its own, so an implementation needs none. It must not call a method of the queue that asks the
/// limiter: retries, rate-limited adds, `load` and `snapshot`. If it panics, the panic is logged
/// and the key waits for the delay of [`Exponential::default`].
///
/// ```
/// use std::time::Duration;
/// use tokio::time::Instant;
/// use windlass_workqueue::{RateLimiter, WorkQueue};
///
/// /// One more second for each failure.
/// #[derive(Debug)]
/// struct Linear;
///
/// impl<K> RateLimiter<K> for Linear {
///     fn next_delay(&mut self, _key: &K, failures: u32, _now: Instant) -> Duration {
///         Duration::from_secs(u64::from(failures))
///     }
/// }
///
/// let queue = WorkQueue::<String>::builder().limiter(Linear).build()?;
/// # Ok::<(), windlass_workqueue::InvalidConfig>(())
/// ```
pub trait RateLimiter<K>: Send {
    /// How long `key` waits, from `now`, after a failure that is number `failures` in a row: 1 for
    /// the first since the key succeeded. A limiter that all keys share books a slot.
    fn next_delay(&mut self, key: &K, failures: u32, now: Instant) -> Duration;

    /// How far ahead of `now` slots are booked that all keys share: about as long as a key that
    /// fails now waits because others failed before it. By default zero: keys do not wait for each
    /// other.
    #[expect(unused_variables, reason = "the default is a constant")]
    fn debt(&self, now: Instant) -> Duration {
        Duration::ZERO
    }
}

impl<K> RateLimiter<K> for Box<dyn RateLimiter<K>> {
    fn next_delay(&mut self, key: &K, failures: u32, now: Instant) -> Duration {
        (**self).next_delay(key, failures, now)
    }

    fn debt(&self, now: Instant) -> Duration {
        (**self).debt(now)
    }
}
