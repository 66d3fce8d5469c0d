//! Answers as HTTP: status, headers, body.

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use serde_json::Value;

use crate::body::{self, Body};
use crate::failure::Failure;
use crate::object::Encoding;
use crate::write::{Answer, Written};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer that is made in one piece.
pub(crate) fn bytes(code: StatusCode, content_type: HeaderValue, content: Body) -> Response<Body> {
    let mut response = Response::new(content);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

pub(crate) fn json(code: StatusCode, value: &Value) -> Response<Body> {
    let mut text = value.to_string();
    text.push('\n');
    bytes(code, JSON, body::whole(text))
}

/// The same for an answer that does not say that it is JSON.
pub(crate) fn plain(value: &Value) -> Response<Body> {
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    bytes(StatusCode::OK, text, body::whole(value.to_string()))
}

/// A body in JSON, however it comes.
pub(crate) fn json_body(content: Body) -> Response<Body> {
    bytes(StatusCode::OK, JSON, content)
}

pub(crate) fn text(code: StatusCode, text: &'static str) -> Response<Body> {
    bytes(code, HeaderValue::from_static("text/plain; charset=utf-8"), body::whole(text))
}

/// A path that nobody serves.
pub(crate) fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// A server that has more to do than it can do. The real one writes this answer before it knows
/// what the request is about: plain text, and no `Status` that says when to come back.
pub(crate) fn overloaded(retry_after: u64) -> Response<Body> {
    let mut response =
        text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RETRY_AFTER, HeaderValue::from(retry_after));
    response
}

pub(crate) fn failure(failure: &Failure) -> Response<Body> {
    let mut response = json(failure.code, &failure.body());
    if let Some(seconds) = failure.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// An object, or what a write gave instead.
pub(crate) fn written(written: &Written, encoding: &Encoding) -> Response<Body> {
    match &written.answer {
        Answer::Value(value) => json(written.code, value),
        Answer::Object(object) => {
            let mut text = Vec::with_capacity(object.size() + 64);
            encoding.write(object, &mut text);
            text.push(b'\n');
            bytes(written.code, JSON, body::whole(text))
        }
    }
}

/// The same answer with warnings in its header.
pub(crate) fn warned(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}
