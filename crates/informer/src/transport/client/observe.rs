//! What became of each request: for metrics.
//!
//! Below the rate and above the timeout, so durations are the server's, and a request that was given up counts.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::error::RequestTimedOut;
use super::request_info::RequestInfo;

/// Is told what became of requests. It is called on the way of every request, so it should only count.
pub trait RequestObserver: Send + Sync + 'static {
    /// A request has its answer, or will not get one.
    fn finished(&self, request: &FinishedRequest);

    /// The [rate](super::ClientStack::rate) has held the next request back for so long. Those that queued
    /// behind it are not counted here.
    fn held_back(&self, delay: Duration) {
        let _ = delay;
    }
}

/// One request. It says nothing of who or what it was about, so it is safe as the labels of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishedRequest {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection` or `other`.
    pub verb: &'static str,
    /// How it ended.
    pub outcome: RequestOutcome,
    /// From when it was sent until the answer began.
    pub duration: Duration,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// The server answered.
    Answered(StatusCode),
    /// It did not do so in time.
    TimedOut,
    /// It was not reached, or the connection broke.
    Failed,
    /// Whoever sent it did not wait for the answer.
    Dropped,
}

/// The service of this layer.
pub(super) struct Observe<S> {
    inner: S,
    observer: Arc<dyn RequestObserver>,
}

/// A request that is under way. Dropped without an outcome, nobody waits for it any more.
struct Pending {
    observer: Arc<dyn RequestObserver>,
    verb: &'static str,
    began: Instant,
    outcome: RequestOutcome,
}

impl<S> Observe<S> {
    pub(super) fn new(inner: S, observer: Arc<dyn RequestObserver>) -> Self {
        Self { inner, observer }
    }
}

impl<S, A, B> Service<Request<A>> for Observe<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = BoxError, Future: Send + 'static>,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let mut pending = Pending {
            observer: self.observer.clone(),
            verb: RequestInfo::of(&request).verb,
            began: Instant::now(),
            outcome: RequestOutcome::Dropped,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            pending.outcome_is(&answer);
            answer
        })
    }
}

impl Pending {
    fn outcome_is<B>(&mut self, answer: &Result<Response<B>, BoxError>) {
        self.outcome = match answer {
            Ok(response) => RequestOutcome::Answered(response.status()),
            Err(error) if error.is::<RequestTimedOut>() => RequestOutcome::TimedOut,
            Err(_) => RequestOutcome::Failed,
        };
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let (verb, outcome, duration) = (self.verb, self.outcome, self.began.elapsed());
        self.observer.finished(&FinishedRequest { verb, outcome, duration });
    }
}
