//! Limits the number of requests per second. The clock is tokio's.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::observer::RequestObserver;

/// A token bucket that starts full. Its state is one instant: when it would be full again.
pub(super) struct Bucket {
    /// How long it takes to add a token.
    period: Duration,
    /// How far `full_at` may be ahead while there still is a token.
    slack: Duration,
    full_at: Option<Instant>,
}

/// Waits until a request may go, and takes its token. Reports the wait to the observer.
///
/// The lock is fair, and a request holds it while it waits. So requests go in the order in which
/// they came, and one that is dropped takes no token.
pub(super) async fn wait_for_token(bucket: &Mutex<Bucket>, observer: Option<&dyn RequestObserver>) {
    let mut bucket = bucket.lock().await;
    let start = Instant::now();
    if let Err(free_at) = bucket.check(start) {
        sleep_until(free_at).await;
        if let Some(observer) = observer {
            observer.held_back(start.elapsed());
        }
    }
    bucket.take(Instant::now());
}

impl Bucket {
    pub(super) fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let period = Duration::from_secs(1) / per_second.get();
        Self { period, slack: period.saturating_mul(burst.get() - 1), full_at: None }
    }

    /// Checks for a token. The error is when there will be one.
    fn check(&self, now: Instant) -> Result<(), Instant> {
        match self.full_at {
            Some(full_at) if full_at > now + self.slack => Err(full_at - self.slack),
            _ => Ok(()),
        }
    }

    /// Takes a token, for a request that goes now.
    fn take(&mut self, now: Instant) {
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now));
        self.full_at = Some(full_at + self.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_holds_a_burst_and_fills_steadily() {
        let size = |n| NonZeroU32::new(n).expect("not zero");
        let start = Instant::now();
        let mut bucket = Bucket::new(size(10), size(3));
        let mut went = Vec::new();
        let mut now = start;
        for _ in 0..6 {
            if let Err(free_at) = bucket.check(now) {
                now = free_at;
            }
            assert_eq!(bucket.check(now), Ok(()));
            bucket.take(now);
            went.push((now - start).as_millis());
        }
        assert_eq!(went, [0, 0, 0, 100, 200, 300]);
        // After a long pause there is one burst, not more.
        now += Duration::from_hours(1);
        for _ in 0..3 {
            assert_eq!(bucket.check(now), Ok(()));
            bucket.take(now);
        }
        assert_eq!(bucket.check(now), Err(now + Duration::from_millis(100)));
    }
}
