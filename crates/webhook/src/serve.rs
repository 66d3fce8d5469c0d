//! Requests and answers: what is common to all webhooks.
//!
//! Every request gets an HTTP answer within its time. If the uid of the review is known, the answer
//! is a review with that uid and the status 200, whatever went wrong, because the server shows its
//! message to the person who is waiting. Otherwise the status says what is wrong.

pub(crate) mod admission;
pub(crate) mod body;
pub(crate) mod conversion;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use tokio::time::Instant;

use self::body::{Bodies, Counted};
use crate::log_limit::LogLimit;
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

/// Reads the review of a request.
pub(crate) async fn review(
    request: Request,
    bodies: &Bodies,
    deadline: Instant,
) -> Result<(Value, Counted), Refusal> {
    check_content_type(request.headers())?;
    let (body, counted) = bodies.read(request.into_body(), deadline).await?;
    if body.is_empty() {
        return Err(Refusal::bad_request("the body is empty"));
    }
    let review = serde_json::from_slice(&body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = format!("the body is not valid JSON at line {line}, column {column}");
        Refusal::bad_request(message)
    })?;
    Ok((review, counted))
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
