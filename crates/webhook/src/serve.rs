//! Requests and answers: what is common to all webhooks.
//!
//! Every request gets an HTTP answer within its time. If the uid of the review is known, the answer
//! is a review with that uid and the status 200, whatever went wrong, because the server shows its
//! message to the person who is waiting. Otherwise the status says what is wrong.
//!
//! A review of a deeply nested object is handled from its first byte to its last on a thread with a
//! large stack: `windlass_nesting` says why. If no such thread can be started, the answer is still
//! a review; it refuses the request whatever the failure policy says. Otherwise somebody could get
//! past a webhook that may be ignored by nesting an object deeply enough.

pub(crate) mod admission;
pub(crate) mod body;
pub(crate) mod conversion;
pub(crate) mod memory;
mod scan;

use std::fmt::Display;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use windlass_nesting::{DEPTH_MAX, LargeStack, SHALLOW_MAX, StackError};

use self::body::{Bodies, Counted, Read, Shortage};
use crate::metrics::Outcome;
use crate::review::Status;
use windlass_serve::LogLimit;

/// An answer without a review, because there is no uid to answer with.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: StatusCode,
    message: String,
}

/// A review that answers one, as it is sent: it may be nested as deeply. And what it is counted as.
pub(crate) struct Reviewed {
    body: Vec<u8>,
    outcome: Outcome,
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

    /// A refusal with a code that is valid.
    pub(crate) fn with_code(code: u16, error: &dyn Display) -> Self {
        Self::new(StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST), error.to_string())
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

impl Refusal {
    /// The answer, which is also logged.
    fn answered(self, path: &str, log: &LogLimit) -> Answered {
        let Self { code, message } = self;
        if let Some(line) = log.line(code.canonical_reason().unwrap_or("refused")) {
            tracing::warn!(
                path,
                code = code.as_u16(),
                left_out = line.left_out,
                "refused: {message}"
            );
        }
        let status = Status::failure(code.as_u16(), message);
        let body = serde_json::to_vec(&status).unwrap_or_default();
        let mut response = (code, [(CONTENT_TYPE, "application/json")], body).into_response();
        if code == StatusCode::TOO_MANY_REQUESTS {
            // The API server calls again after it, within the timeout of the webhook.
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Answered { response, outcome: Outcome::Refused }
    }
}

impl Reviewed {
    pub(crate) fn new(review: &impl Serialize, outcome: Outcome) -> Self {
        let body = serde_json::to_vec(review).expect("keys that are strings must serialize");
        Self { body, outcome }
    }

    /// The answer, which counts instead of the request until it has been sent.
    pub(crate) fn answered(self, counted: Counted) -> Result<Answered, Shortage> {
        Ok(Answered { response: counted.answer(self.body)?, outcome: self.outcome })
    }
}

/// Waits for an answer where there is stack enough for what is nested this deep.
///
/// # Errors
/// Returns an error that says why there is none. Nothing was asked then.
pub(crate) async fn with_stack_for<F>(depth: usize, answer: F) -> Result<F::Output, StackError>
where
    F: Future<Output: Send> + Send,
{
    if depth <= SHALLOW_MAX {
        Ok(answer.await)
    } else if depth <= DEPTH_MAX {
        Ok(LargeStack::new(answer).await?)
    } else {
        Err(StackError::TooDeep)
    }
}

/// The most bytes of a uid. The API server sends 36.
const UID_MAX: usize = 128;

/// Why a review gets no answer with a uid.
pub(crate) const NO_UID: &str = "the review has no `request` with a `uid` of at most 128 bytes";

/// The uid of a review that is not decoded, or not complete.
pub(crate) fn uid_of(body: &[u8]) -> Option<String> {
    let start = scan::field(body, "request", "uid")?;
    let text = body.get(start..scan::string_end(body, start))?;
    let is_short = text.len() <= UID_MAX + 2;
    is_short.then(|| serde_json::from_slice(text).ok()).flatten()
}

/// Reads the body of a request.
pub(crate) async fn body(
    request: Request,
    bodies: &Bodies,
    deadline: Instant,
) -> Result<Read, Refusal> {
    check_content_type(request.headers())?;
    let read = bodies.read(request.into_body(), deadline).await?;
    if read.bytes.is_empty() && read.too_long.is_none() {
        return Err(Refusal::bad_request("the body is empty"));
    }
    Ok(read)
}

/// Reads a body as a review. [`with_stack_for`] provides the stack.
pub(crate) fn parse(body: &[u8]) -> Result<Value, Refusal> {
    windlass_nesting::from_slice(body).map_err(|error| invalid(&error))
}

fn invalid(error: &serde_json::Error) -> Refusal {
    let (line, column) = (error.line(), error.column());
    Refusal::bad_request(format!("the body is not valid JSON at line {line}, column {column}"))
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
    let uid = review.pointer("/request/uid")?.as_str()?;
    (uid.len() <= UID_MAX).then(|| uid.to_owned())
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
