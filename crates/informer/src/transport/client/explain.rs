//! Explains failed requests: every answer with an error code becomes a complete `Status`.
//!
//! Not every error answer is one. An overloaded kube-apiserver sends a line of text and a
//! `Retry-After` header, a gateway sends a web page. kube would drop the header and show the page.
//! So this reads the body of a failed request and replaces it by a `Status` in JSON: with the code,
//! with the seconds to wait, and with the request at the end of its message. So every caller of
//! kube's methods learns which request failed, and when to retry.
//!
//! Invariants: reading takes a bounded time and a bounded number of bytes. Of a body that is no
//! `Status`, only what [`describe_body`] shows is passed on.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::BoxError;

use super::body::{ResponseBody, erase_body};
use super::request_info::{RequestInfo, RequestTarget};
use crate::decode::frames::{RETRY_AFTER_MAX, describe_body};

/// How much of an error is read. A Status has one message, and details that may name every cause.
const BODY_MAX: usize = 64 << 10;

/// How long an error is read. Its code is known already, so it is not worth a longer wait.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Replaces the body of an answer with an error code by a complete `Status`. Leaves other answers
/// alone, and those of a `proxy`, `exec`, `attach`, `portforward` or `log` subresource. A second
/// call on the same answer changes nothing.
pub async fn explain<B>(info: &RequestInfo, response: Response<B>) -> Response<ResponseBody>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    // The error may come from the kubelet, pod or service behind the API server, so it is left as
    // it is.
    let is_proxied = info.target.as_ref().is_some_and(RequestTarget::is_proxied);
    if !is_error || is_proxied {
        return response.map(erase_body);
    }
    let (mut head, body) = response.into_parts();
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

/// Reads what the server says about an error, as a `Status` in JSON. It has a code and, if the
/// body or a header has them, the seconds to wait. What does not arrive in time is left out.
pub(crate) async fn read_status<B>(code: StatusCode, headers: &HeaderMap, body: B) -> Value
where
    B: Body<Data = Bytes>,
{
    let mut start = BytesMut::new();
    // Why the rest is missing does not matter: the code says what happened.
    let _ = tokio::time::timeout(BODY_TIMEOUT, read_start(body, &mut start)).await;
    let sent: Option<Value> = serde_json::from_slice(&start).ok();
    // Other JSON must not hide the code of the answer.
    let sent = sent.filter(|sent| sent["kind"] == "Status");
    let mut status = sent.unwrap_or_else(|| {
        let message = format!("{}; the body is {}", name_of(code), describe_body(&start));
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason_of(code), "code": code.as_u16(),
        })
    });
    if status["code"].as_f64().is_none_or(|code| code == 0.0) {
        status["code"] = code.as_u16().into();
    }
    let in_body = status.pointer("/details/retryAfterSeconds").filter(|told| **told != json!(0));
    if in_body.is_none()
        && let Some(seconds) = retry_after(headers)
    {
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
