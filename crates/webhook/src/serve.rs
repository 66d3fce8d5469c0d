//! Requests and answers: what is common to all webhooks.
//!
//! Every request gets an HTTP answer within its time. If the uid of the review is known, the answer
//! is a review with that uid and the status 200, whatever went wrong, because the server shows its
//! message to the person who is waiting. Otherwise the status says what is wrong.

pub(crate) mod admission;
pub(crate) mod conversion;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::metrics::Outcome;
use crate::review::Status;

/// An answer without a review, because there is no uid to answer with.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: StatusCode,
    message: String,
}

/// An answer, and what it is counted as.
pub(crate) struct Answered {
    pub(crate) response: Response,
    pub(crate) outcome: Outcome,
}

impl Refusal {
    fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

impl From<Refusal> for Answered {
    fn from(refusal: Refusal) -> Self {
        tracing::warn!(code = refusal.code.as_u16(), "refused: {}", refusal.message);
        let status = Status::failure(refusal.code.as_u16(), refusal.message);
        Self { response: json(refusal.code, &status), outcome: Outcome::Refused }
    }
}

/// A body as JSON.
pub(crate) fn json(code: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (code, [(CONTENT_TYPE, "application/json")], bytes).into_response(),
        // Our types always serialize: their keys are strings.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Reads the review of a request, of at most `bytes_max`.
pub(crate) async fn review(
    request: Request,
    bytes_max: usize,
    deadline: Instant,
) -> Result<Value, Refusal> {
    check_content_type(request.headers())?;
    let body = read(request.into_body(), bytes_max);
    let body = timeout_at(deadline, body).await.unwrap_or_else(|_| {
        Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))
    })?;
    if body.is_empty() {
        return Err(Refusal::bad_request("the body is empty"));
    }
    serde_json::from_slice(&body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = format!("the body is not valid JSON at line {line}, column {column}");
        Refusal::bad_request(message)
    })
}

/// What the review says of itself must be `version` and `kind`.
pub(crate) fn check_type(review: &Value, version: &str, kind: &str) -> Result<(), String> {
    let is = |field: &str, value: &str| review.get(field).and_then(Value::as_str) == Some(value);
    if is("apiVersion", version) && is("kind", kind) {
        return Ok(());
    }
    Err(format!("the body is refused: only {kind} of {version} is served at this path"))
}

/// The uid that an answer must have.
pub(crate) fn uid(review: &Value) -> Option<String> {
    review.pointer("/request/uid")?.as_str().map(str::to_owned)
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = "the content type is not application/json, which is all that is served";
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Refusal> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("the body has more than {bytes_max} bytes");
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Err(_) => Err(Refusal::bad_request("the body could not be read to its end")),
    }
}
