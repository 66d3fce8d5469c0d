//! Answers as HTTP: status, headers, body.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use serde_json::Value;

use crate::body::{self, Body};
use crate::failure::Failure;
use crate::kinds::Registered;
use crate::list::Page;
use crate::object::Encoding;
use crate::webhook::caller::Caller;
use crate::webhook::convert;
use crate::write::{Answer, Written};

/// An answer before it is encoded. A webhook may have to convert its objects first.
pub(crate) enum Reply {
    Ready(Response<Body>),
    /// The result of a write or read: an object of this kind, or another value.
    Object(Written, Box<Encoding>, Arc<Registered>),
    /// A list of objects of this kind.
    Page(Box<Page>, Arc<Registered>),
}

impl Reply {
    /// Encodes the answer. All objects must be in the requested version.
    pub(crate) fn response(self) -> Response<Body> {
        match self {
            Self::Ready(response) => response,
            Self::Object(answer, encoding, _) => written(&answer, &encoding),
            Self::Page(page, _) => json_body(body::stream(futures::stream::iter(page.map(Ok)))),
        }
    }

    /// Converts the objects that are in another version, and encodes the answer.
    ///
    /// # Errors
    /// A 500 if that fails.
    pub(crate) async fn converted(
        self,
        caller: &mut Caller<'_>,
    ) -> Result<Response<Body>, Failure> {
        let reply = match self {
            Self::Object(Written { code, answer: Answer::Object(object) }, encoding, of) => {
                let version = encoding.version();
                let found = convert::stored(&of, version, vec![object.clone()], caller).await;
                let found = found.map_err(Failure::internal)?.pop().unwrap_or(object);
                Self::Object(Written::object(code, found), encoding, of)
            }
            Self::Page(page, of) => Self::Page(Box::new(page.converted(&of, caller).await?), of),
            other => other,
        };
        Ok(reply.response())
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Returns an answer with this status, content type and body.
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

/// Returns an answer in JSON with the content type of plain text.
pub(crate) fn plain(value: &Value) -> Response<Body> {
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    bytes(StatusCode::OK, text, body::whole(value.to_string()))
}

/// Returns a 200 with a body in JSON.
pub(crate) fn json_body(content: Body) -> Response<Body> {
    bytes(StatusCode::OK, JSON, content)
}

pub(crate) fn text(code: StatusCode, text: &'static str) -> Response<Body> {
    bytes(code, HeaderValue::from_static("text/plain; charset=utf-8"), body::whole(text))
}

/// Returns the 404 for an unknown path.
pub(crate) fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Returns the 429 of an overloaded server. The real server sends it before it has parsed the
/// request: plain text without a `Status`, so only the header says when to retry.
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

/// Encodes the result of a write.
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

/// The maximum length of all warnings, in characters. If they are longer, each is cut to
/// [`WARNING_MAX`], as upstream: clients refuse an answer with a header that is too large.
const WARNINGS_MAX: usize = 4_096;

/// See [`WARNINGS_MAX`].
const WARNING_MAX: usize = 256;

/// Adds the warnings to the header of an answer, each once.
pub(crate) fn warned(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    let mut seen = BTreeSet::new();
    let warnings: Vec<&String> = warnings.iter().filter(|warning| seen.insert(*warning)).collect();
    let total: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    let mut left = WARNINGS_MAX;
    for warning in warnings {
        let cut: String = if total > WARNINGS_MAX {
            warning.chars().take(WARNING_MAX.min(left)).collect()
        } else {
            warning.clone()
        };
        left = left.saturating_sub(cut.chars().count());
        let quoted = cut.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!("299 - \"{quoted}\"");
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
        if left == 0 {
            break;
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(warnings: &[String]) -> Vec<String> {
        let response = warned(text(StatusCode::OK, ""), warnings);
        let values = response.headers().get_all(WARNING).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    #[test]
    fn warning_is_sent_once() {
        let twice = ["an \"ä\"".to_owned(), "an \"ä\"".to_owned()];
        assert_eq!(warnings(&twice), ["299 - \"an \\\"ä\\\"\""]);
    }

    #[test]
    fn many_warnings_are_cut() {
        let many: Vec<String> = (0..150).map(|n| format!("{n} {}", "x".repeat(500))).collect();
        let sent = warnings(&many);
        assert_eq!(sent.len(), WARNINGS_MAX / WARNING_MAX);
        assert!(sent.iter().all(|warning| warning.len() < 300));
    }
}
