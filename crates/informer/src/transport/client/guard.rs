//! Keeps a client alive whose layers panic.
//!
//! One task of [`kube::Client`] calls the layers for all requests of all its clones. If a layer
//! panicked there, or refused to be ready, that task would end and every later request would fail:
//! informers and the election would retry for ever. So only the one request fails. A panic in the
//! future that a layer returns is the caller's: it is polled in the caller's task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, ready};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, Service};

use super::HttpService;
use super::body::{ResponseBody, SendResult};

/// A service that is always ready again, and does not panic when it is called.
pub(super) struct Guard {
    inner: HttpService,
    /// Why the next request fails.
    failure: Option<BoxError>,
}

/// The message of the panic is not repeated, because it may show a request.
#[derive(Debug, thiserror::Error)]
#[error("a layer of the client panicked, as its own message says")]
struct LayerPanicked;

impl Guard {
    pub(super) fn new(inner: HttpService) -> Self {
        Self { inner, failure: None }
    }
}

impl Service<Request<Body>> for Guard {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, SendResult>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.inner.poll_ready(cx)));
        self.failure = ready!(polled.unwrap_or(Poll::Ready(Err(LayerPanicked.into())))).err();
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let called = match self.failure.take() {
            Some(failure) => Err(failure),
            None => catch_unwind(AssertUnwindSafe(|| self.inner.call(request)))
                .map_err(|_| LayerPanicked.into()),
        };
        called.unwrap_or_else(|failure| std::future::ready(Err(failure)).boxed())
    }
}
