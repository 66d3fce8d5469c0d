//! Answers with an error code: whatever the server sent becomes a complete `Status`.
//!
//! Not every error comes as one. An overloaded kube-apiserver sends a line of text and a `Retry-After` header,
//! a gateway sends a web page. kube would drop the header and show the page. So the body of a failed request is
//! read here and replaced by a `Status` in JSON: with the code, with the seconds to wait, and with the request
//! at the end of its message. Whoever gets the error then knows which request it was and when to retry,
//! whichever of kube's methods made the request.
//!
//! Invariants: this takes a bounded time and a bounded number of bytes, and of a body that is no `Status` nothing
//! is shown but what [`Seen`] shows.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::{BoxError, Service};

use super::error::RequestError;
use super::request_info::{RequestInfo, RequestTarget};
use super::{ResponseBody, erase_body};
use crate::decode::frames::{RETRY_AFTER_MAX, Seen};

/// How much of an error is read. A Status has one message, and details that may name every cause.
const BODY_MAX: usize = 64 << 10;

/// How long an error is read. Its code is known already, so it is not worth a longer wait.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The service of this layer.
pub(super) struct Explain<S> {
    inner: S,
}

impl<S> Explain<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, A> Service<Request<A>> for Explain<S>
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
        let info = RequestInfo::of(&request);
        let answer = self.inner.call(request);
        Box::pin(async move {
            match answer.await {
                Ok(response) => Ok(explain(&info, response).await),
                Err(error) => Err(RequestError::new(info, error).into()),
            }
        })
    }
}

/// Replaces the body of an answer with an error code by a complete `Status`; leaves any other answer alone, and
/// those that another server gave through a proxy subresource.
/// Doing it twice changes nothing more.
pub async fn explain<B>(info: &RequestInfo, response: Response<B>) -> Response<ResponseBody>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    // An application's own error, which the API server only passes on.
    if info.target.as_ref().is_some_and(RequestTarget::is_passed_on) {
        return response.map(erase_body);
    }
    let (mut head, body) = response.into_parts();
    if !(head.status.is_client_error() || head.status.is_server_error()) {
        return Response::from_parts(head, erase_body(body));
    }
    let mut status = read_status(head.status, &head.headers, body).await;
    let suffix = format!(" ({info})");
    match status.get_mut("message") {
        Some(Value::String(message)) if message.ends_with(&suffix) => {}
        Some(Value::String(message)) => message.push_str(&suffix),
        _ => status["message"] = format!("{}{suffix}", name_of(head.status)).into(),
    }
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, erase_body(Full::new(Bytes::from(status.to_string()))))
}

/// What the server says of an error, as a `Status` in JSON that has a code and, if the server said so in any
/// way, the seconds to wait. What does not arrive in time is left out.
pub(crate) async fn read_status<B>(code: StatusCode, headers: &HeaderMap, body: B) -> Value
where
    B: Body<Data = Bytes>,
{
    let mut start = BytesMut::new();
    // Why the rest is missing does not matter: the code says what happened.
    let _ = tokio::time::timeout(BODY_TIMEOUT, read_start(body, &mut start)).await;
    let mut status = parse(&start).unwrap_or_else(|| {
        let message = format!("{}; the body is {}", name_of(code), Seen::from_start(&start));
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason_of(code), "code": code.as_u16(),
        })
    });
    if status["code"].as_f64().is_none_or(|code| code == 0.0) {
        status["code"] = code.as_u16().into();
    }
    let is_told =
        status.pointer("/details/retryAfterSeconds").is_some_and(|told| *told != json!(0));
    if let (false, Some(seconds)) = (is_told, retry_after(headers)) {
        if !status["details"].is_object() {
            status["details"] = json!({});
        }
        status["details"]["retryAfterSeconds"] = seconds.into();
    }
    status
}

async fn read_start<B: Body<Data = Bytes>>(body: B, start: &mut BytesMut) {
    let mut body = std::pin::pin!(body);
    while let Some(Ok(frame)) = body.frame().await {
        let data: Bytes = frame.into_data().unwrap_or_default();
        let free = BODY_MAX - start.len();
        start.extend_from_slice(&data[..data.len().min(free)]);
        if start.len() == BODY_MAX {
            return;
        }
    }
}

/// A Status, if the body says that it is one: other JSON must not hide the code of the answer.
fn parse(body: &[u8]) -> Option<Value> {
    let sent: Value = serde_json::from_slice(body).ok()?;
    (sent.is_object() && sent["kind"] == "Status").then_some(sent)
}

fn name_of(code: StatusCode) -> &'static str {
    code.canonical_reason().unwrap_or("unknown code")
}

/// The reason that the API server gives for a code, where there is only one.
fn reason_of(code: StatusCode) -> &'static str {
    match code {
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        StatusCode::GONE => "Gone",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::INTERNAL_SERVER_ERROR => "InternalError",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        StatusCode::GATEWAY_TIMEOUT => "Timeout",
        _ => "",
    }
}

/// The header in seconds. API servers do not send the form with a date.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<u64>().ok()?;
    (seconds > 0).then(|| seconds.min(RETRY_AFTER_MAX.as_secs()))
}
