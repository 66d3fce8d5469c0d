//! Helpers of the work queue's tests.

#![allow(dead_code, reason = "every test file uses its own share of these")]

use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::task::coop::{Unconstrained, unconstrained};
use windlass_workqueue::WorkQueue;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// Takes the first ready key and is done with it at once.
pub(crate) fn run_next<K, C>(queue: &WorkQueue<K, C>) -> Option<K>
where
    K: Eq + Hash + Clone + Send + 'static,
    C: Send + Sync + 'static,
{
    queue.try_get().map(|lease| lease.key().clone())
}

/// Runs everything that is ready, one key after the other; returns the keys in that order.
pub(crate) fn run_ready<K, C>(queue: &WorkQueue<K, C>) -> Vec<K>
where
    K: Eq + Hash + Clone + Send + 'static,
    C: Send + Sync + 'static,
{
    std::iter::from_fn(|| run_next(queue)).collect()
}

/// Fails, rather than hangs, if the future never ends. On the paused clock the hour passes as soon
/// as nothing else can happen.
pub(crate) async fn ends<F: Future>(future: F) -> F::Output {
    let hour = Duration::from_hours(1);
    tokio::time::timeout(hour, future).await.expect("the future must end")
}

/// A future that the test polls by hand, and whose wake-ups it counts.
pub(crate) struct Polled<F> {
    future: Pin<Box<Unconstrained<F>>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl<F: Future> Polled<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(unconstrained(future)), wakes: Arc::default() }
    }

    /// A future that is asleep: it has been polled and is not ready.
    pub(crate) fn asleep(future: F) -> Self {
        let mut polled = Self::new(future);
        assert!(polled.poll().is_pending(), "the future must have to wait");
        polled
    }

    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls a future that must be ready.
    pub(crate) fn ready(&mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("the future must be ready"),
        }
    }

    /// How often it has been woken.
    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.wakes() > 0
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
