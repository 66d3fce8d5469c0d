//! Sends a request. [`Sender::send`] has all steps in their order.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderValue, Request};
use kube::client::Body;
use tokio::time::{Instant, timeout};
use tower::ServiceExt as _;

use super::body::{SendResult, limit_pauses};
use super::error::{RequestError, RequestTimedOut};
use super::explain::explain;
use super::observer::{Pending, RequestObserver};
use super::request_info::{RequestInfo, is_endless};
use super::server_clock::ServerClock;
use super::transport::Transport;

/// Sends the requests of one client.
pub(super) struct Sender {
    pub(super) transport: Transport,
    pub(super) timeout: Duration,
    pub(super) observer: Option<Arc<dyn RequestObserver>>,
    pub(super) user_agent: HeaderValue,
    /// The server, for the observer.
    pub(super) host: Arc<str>,
    /// Learns the time from the answers.
    pub(super) server_clock: Option<ServerClock>,
}

impl Sender {
    /// Sends a request once. Errors and error answers say which request it was.
    pub(super) async fn send(self: Arc<Self>, mut request: Request<Body>) -> SendResult {
        let info = RequestInfo::of(&request);
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert_with(|| self.user_agent.clone());
        // Inside a data centre, compression costs both sides more CPU time than it saves. The
        // events of a compressed watch arrive in blocks, so each would wait for the next ones.
        headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        let observer = self.observer.as_deref();
        let method = request.method().clone();
        let mut pending = Pending::new(observer, info.verb, method, Arc::clone(&self.host));
        let sent = Instant::now();
        let answer = self.send_in_time(request).await;
        pending.set_outcome(&answer);
        drop(pending);
        if let (Some(clock), Ok(response)) = (&self.server_clock, &answer) {
            clock.note(response.headers(), sent);
        }
        match answer {
            Ok(response) => Ok(explain(&info, response).await),
            Err(source) => Err(RequestError { request: info, source }.into()),
        }
    }

    async fn send_in_time(&self, request: Request<Body>) -> SendResult {
        let is_endless = is_endless(&request);
        let answer = timeout(self.timeout, self.transport.clone().oneshot(request)).await;
        let response = answer.map_err(|_| RequestTimedOut { timeout: self.timeout })??;
        // An error is a short answer, whatever the request was.
        if is_endless && response.status().is_success() {
            return Ok(response);
        }
        Ok(response.map(|body| limit_pauses(body, self.timeout)))
    }
}
