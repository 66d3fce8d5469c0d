//! Reports what became of each request, for metrics.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use super::body::SendResult;
use super::error::RequestTimedOut;

/// Learns what became of each request. It is called for every request, so it should only count.
pub trait RequestObserver: Send + Sync + 'static {
    /// A request has its answer, or will not get one.
    fn finished(&self, request: &FinishedRequest);

    /// The [rate](super::ClientStack::rate) has delayed the next request for so long. Requests
    /// that queued behind it are not counted here.
    #[expect(unused_variables, reason = "the default does nothing")]
    fn held_back(&self, delay: Duration) {}
}

/// One request. It names no object and no user, so it is safe as the labels of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishedRequest {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection` or
    /// `other`.
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
    verb: &'static str,
    began: Instant,
    outcome: RequestOutcome,
}

impl<'a> Pending<'a> {
    pub(super) fn new(observer: Option<&'a dyn RequestObserver>, verb: &'static str) -> Self {
        Self { observer, verb, began: Instant::now(), outcome: RequestOutcome::Dropped }
    }

    pub(super) fn set_outcome(&mut self, answer: &SendResult) {
        self.outcome = match answer {
            Ok(response) => RequestOutcome::Answered(response.status()),
            Err(error) if error.is::<RequestTimedOut>() => RequestOutcome::TimedOut,
            Err(_) => RequestOutcome::Failed,
        };
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(observer) = self.observer else { return };
        let (verb, outcome, duration) = (self.verb, self.outcome, self.began.elapsed());
        observer.finished(&FinishedRequest { verb, outcome, duration });
    }
}
