//! Reports what became of each request, for metrics.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use tokio::time::Instant;

use super::body::SendResult;
use super::error::RequestTimedOut;

/// Gets the result of each request. It is called for every request, so it should only count.
pub trait RequestObserver: Send + Sync + 'static {
    /// A request has its answer, or will not get one.
    fn finished(&self, request: &FinishedRequest);

    /// A request has its turn under the [rate](super::ClientStack::rate). Not called without one.
    ///
    /// `delay` is how long the request was held back while it was first in line; zero if it was
    /// not. The time that it queued behind others is not included. See [`FinishedRequest::host`]
    /// for `host`.
    #[expect(unused_variables, reason = "the default does nothing")]
    fn held_back(&self, method: &Method, host: &Arc<str>, delay: Duration) {}
}

/// One request. It names no object and no user, so it is safe as the labels of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishedRequest {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection` or
    /// `other`.
    pub verb: &'static str,
    /// As in `GET`.
    pub method: Method,
    /// The server as its URL has it, as in `10.96.0.1:443`, or `in-process` for a service that is
    /// not reached over the network.
    pub host: Arc<str>,
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
    /// The server did not answer in time.
    TimedOut,
    /// The server was not reached, or the connection broke.
    Failed,
    /// The caller dropped the request before the answer.
    Dropped,
}

/// A request under way. Its drop reports it, so a request that the caller drops is reported too.
pub(super) struct Pending<'a> {
    observer: Option<&'a dyn RequestObserver>,
    began: Instant,
    request: FinishedRequest,
}

impl<'a> Pending<'a> {
    pub(super) fn new(
        observer: Option<&'a dyn RequestObserver>,
        verb: &'static str,
        method: Method,
        host: Arc<str>,
    ) -> Self {
        let outcome = RequestOutcome::Dropped;
        let duration = Duration::ZERO;
        let request = FinishedRequest { verb, method, host, outcome, duration };
        Self { observer, began: Instant::now(), request }
    }

    pub(super) fn set_outcome(&mut self, answer: &SendResult) {
        self.request.outcome = match answer {
            Ok(response) => RequestOutcome::Answered(response.status()),
            Err(error) if error.is::<RequestTimedOut>() => RequestOutcome::TimedOut,
            Err(_) => RequestOutcome::Failed,
        };
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(observer) = self.observer {
            self.request.duration = self.began.elapsed();
            observer.finished(&self.request);
        }
    }
}
