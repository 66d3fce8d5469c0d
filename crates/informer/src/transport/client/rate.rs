//! Limits the number of requests per second.
//!
//! The wait is in `poll_ready`, which the task of kube's client polls, and not in the future of a
//! request: a caller that does not poll its request must not block the others. Requests go in the
//! order in which they came, and one that its caller has dropped takes no token. The clock is
//! tokio's.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

use super::observer::RequestObserver;

/// A service whose requests wait for a token.
pub(super) struct Rate<S> {
    inner: S,
    bucket: Bucket,
    /// When the wait of the next request began, and its timer.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    /// How long the request was held back that goes next.
    delay: Duration,
    observer: Option<Arc<dyn RequestObserver>>,
    /// The server, for the observer.
    host: Arc<str>,
}

/// A token bucket that starts full. Its state is one instant: when it would be full again.
#[derive(Debug)]
struct Bucket {
    /// How long it takes to add a token.
    period: Duration,
    /// How far `full_at` may be ahead while there still is a token.
    slack: Duration,
    full_at: Instant,
}

impl<S> Rate<S> {
    pub(super) fn new(
        inner: S,
        per_second: NonZeroU32,
        burst: NonZeroU32,
        observer: Option<Arc<dyn RequestObserver>>,
        host: Arc<str>,
    ) -> Self {
        let bucket = Bucket::new(per_second, burst);
        Self { inner, bucket, waiting: None, delay: Duration::ZERO, observer, host }
    }

    fn poll_token(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some((_, timer)) = &mut self.waiting {
                ready!(timer.as_mut().poll(cx));
            }
            let now = Instant::now();
            let since = self.waiting.take().map(|(since, _)| since);
            if let Err(free_at) = self.bucket.check(now) {
                self.waiting = Some((since.unwrap_or(now), Box::pin(sleep_until(free_at))));
                continue;
            }
            if let Some(since) = since {
                self.delay = now.saturating_duration_since(since);
            }
            return Poll::Ready(());
        }
    }
}

impl<S, B> Service<Request<B>> for Rate<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        ready!(self.poll_token(cx));
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        self.bucket.take(Instant::now());
        let delay = std::mem::take(&mut self.delay);
        if let Some(observer) = &self.observer {
            observer.held_back(request.method(), &self.host, delay);
        }
        self.inner.call(request)
    }
}

impl Bucket {
    fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let period = Duration::from_secs(1) / per_second.get();
        Self { period, slack: period.saturating_mul(burst.get() - 1), full_at: Instant::now() }
    }

    /// Checks for a token. The error is when there will be one.
    fn check(&self, now: Instant) -> Result<(), Instant> {
        if self.full_at > now + self.slack { Err(self.full_at - self.slack) } else { Ok(()) }
    }

    /// Takes a token, for a request that goes now.
    fn take(&mut self, now: Instant) {
        self.full_at = self.full_at.max(now) + self.period;
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
