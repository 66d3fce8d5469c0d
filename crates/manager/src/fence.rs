//! A fence around the writes of a leader.
//!
//! A process can lose the leadership without noticing, if it or its network was paused. When it
//! resumes, a run that was under way would overwrite what the new leader has done. A client with a
//! fence refuses such a write. It checks the monotonic clock right before it sends a write, and
//! each time the request is polled: a write that was sent is given up when the lease may expire.
//!
//! ```text
//!   renewal sent                     renew deadline        lease expires
//!   ├──────────── writes start ──────────────┤ … may end … │ a standby takes over
//! ```
//!
//! Every renewal extends both times, so the writes of a leader that renews are not limited.
//!
//! Limits: a write that is already in the network may arrive later than that, and the monotonic
//! clock stops while the whole machine is suspended. The fence makes writes of an old leader rare;
//! server-side apply and resource versions make them harmless. Closing the fence does not cancel
//! writes under way. A dry run is refused like a write; GET requests to `exec` and `attach` pass.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, Layer, Service};
use windlass_informer::NotLeader;
use windlass_informer::client::{HttpService, RequestInfo, RequestTarget, ResponseBody};

/// Lets writes through while this replica leads. A [`Layer`] for
/// [`ClientStack::layer`](windlass_informer::ClientStack::layer). Add it last: a layer below it
/// could repeat or delay a write that has passed.
///
/// Reads always pass, and so do writes that standbys also send: events, and reviews of tokens and
/// access. The election itself has a client without a fence.
#[derive(Clone, Debug)]
pub struct Fence {
    times: Arc<Mutex<Times>>,
    /// How long after the renew deadline a write may still be under way.
    write_grace: Duration,
}

#[derive(Debug, Default)]
struct Times {
    /// Until when writes may start. `None` if the fence is closed.
    open_until: Option<Instant>,
    /// Until when writes may be under way. Closing the fence does not change it.
    writes_until: Option<Instant>,
}

/// A write was under way when the lease could expire. It may or may not have been made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{request} was given up: the Lease was not renewed, so another replica may lead")]
pub struct TookTooLong {
    request: String,
}

impl Fence {
    /// Creates a closed fence.
    pub(crate) fn new(write_grace: Duration) -> Self {
        Self { times: Arc::default(), write_grace }
    }

    /// Opens the fence until a time, or closes it.
    pub(crate) fn open_until(&self, until: Option<Instant>) {
        let mut times = self.times();
        times.open_until = until;
        times.writes_until = until.map(|until| until + self.write_grace).or(times.writes_until);
    }

    /// Whether a write may start now.
    pub fn is_open(&self) -> bool {
        self.times().open_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether the time of the fence has passed, and nobody has closed it.
    pub(crate) fn has_expired(&self) -> bool {
        self.times().open_until.is_some_and(|until| Instant::now() >= until)
    }

    /// Until when a write that has started may be under way.
    fn writes_until(&self) -> Instant {
        self.times().writes_until.unwrap_or_else(Instant::now)
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a write, unless the fence is closed, and gives it up when the lease may expire.
    async fn send<T>(
        &self,
        request: String,
        answer: impl Future<Output = Result<T, BoxError>>,
    ) -> Result<T, BoxError> {
        if !self.is_open() {
            return Err(NotLeader { request }.into());
        }
        let mut answer = pin!(answer);
        let mut timer = pin!(sleep_until(self.writes_until()));
        poll_fn(|cx| {
            loop {
                // Checks the clock, not the timer: after a pause of the process, the request must
                // not be polled first.
                let until = self.writes_until();
                if Instant::now() >= until {
                    let request = request.clone();
                    return Poll::Ready(Err(TookTooLong { request }.into()));
                }
                if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                    return Poll::Ready(answer);
                }
                // A renewal may have extended the time.
                timer.as_mut().reset(until);
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}

impl Layer<HttpService> for Fence {
    type Service = Fenced;

    fn layer(&self, inner: HttpService) -> Fenced {
        Fenced { fence: self.clone(), inner }
    }
}

/// A service behind a [`Fence`].
pub struct Fenced {
    fence: Fence,
    inner: HttpService,
}

impl Service<Request<Body>> for Fenced {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let info = RequestInfo::of(&request);
        if !is_fenced(&info) {
            return Box::pin(self.inner.call(request));
        }
        let (fence, answer) = (self.fence.clone(), self.inner.call(request));
        Box::pin(async move { fence.send(info.to_string(), answer).await })
    }
}

/// Whether only the leader may send a request.
fn is_fenced(info: &RequestInfo) -> bool {
    let is_write =
        matches!(info.verb, "create" | "update" | "patch" | "delete" | "deletecollection");
    is_write && info.target.as_ref().is_some_and(|target| !is_allowed_on_standby(target))
}

/// Whether standbys may write to this resource, too.
fn is_allowed_on_standby(target: &RequestTarget) -> bool {
    matches!(
        (target.group.as_str(), target.plural.as_str()),
        ("" | "events.k8s.io", "events") | ("authentication.k8s.io" | "authorization.k8s.io", _)
    )
}

impl std::fmt::Debug for Fenced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fenced").field("fence", &self.fence).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_fenced_but_for_what_standbys_write_too() {
        let is_fenced = |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(());
            is_fenced(&RequestInfo::of(&request.expect("a request")))
        };
        for (method, path) in [
            ("POST", "/api/v1/namespaces/shop/configmaps"),
            ("PUT", "/apis/apps/v1/namespaces/shop/deployments/web/status"),
            ("PATCH", "/api/v1/nodes/a"),
            ("DELETE", "/api/v1/namespaces/shop/pods/a"),
            ("DELETE", "/api/v1/namespaces/shop/pods"),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/shop/leases/mine"),
        ] {
            assert!(is_fenced(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("GET", "/api/v1/namespaces/shop/configmaps/a"),
            ("GET", "/api/v1/namespaces/shop/configmaps?watch=true"),
            ("POST", "/api/v1/namespaces/shop/events"),
            ("PATCH", "/apis/events.k8s.io/v1/namespaces/shop/events/a"),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
            ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ] {
            assert!(!is_fenced(method, path), "{method} {path}");
        }
    }
}
