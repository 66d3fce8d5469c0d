//! An answer in time, or an error.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tower::{BoxError, Service};

use super::ResponseBody;
use super::body::Paced;
use super::error::RequestTimedOut;
use super::request_info::is_endless;

/// The service of this layer.
pub(super) struct Timeout<S> {
    inner: S,
    timeout: Duration,
}

impl<S> Timeout<S> {
    pub(super) fn new(inner: S, timeout: Duration) -> Self {
        Self { inner, timeout }
    }
}

impl<S, A> Service<Request<A>> for Timeout<S>
where
    S: Service<
            Request<A>,
            Response = Response<ResponseBody>,
            Error = BoxError,
            Future: Send + 'static,
        >,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (timeout, is_endless) = (self.timeout, is_endless(&request));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let Ok(response) = tokio::time::timeout(timeout, answer).await else {
                return Err(RequestTimedOut { timeout }.into());
            };
            let response = response?;
            // A refusal is a short answer, whatever was asked for.
            if is_endless && response.status().is_success() {
                return Ok(response);
            }
            Ok(response.map(|body| Paced::new(body, timeout).boxed_unsync()))
        })
    }
}
