//! An answer that is no body: what the server said instead, as a [`Status`].
//!
//! Invariants: it takes a bounded time and a bounded number of bytes to find out, and of a body that is no
//! Status nothing is shown but what [`Seen`] shows.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;

use crate::frames::{RETRY_AFTER_MAX, Seen, Status};

/// How much of a refusal is read. A Status has one message, and details that may name every cause.
const BODY_MAX: usize = 64 << 10;

/// How long a refusal is read. The code is known already, so it is not worth a longer wait.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads what the server has to say. What does not arrive is left out.
pub(crate) async fn read(response: Response<Body>) -> Status {
    let (head, body) = response.into_parts();
    let mut start = BytesMut::new();
    // Why the rest is missing does not matter: the code says what happened.
    let _ = tokio::time::timeout(BODY_TIMEOUT, read_start(body, &mut start)).await;
    let mut status = parse(&start).unwrap_or_else(|| describe(head.status, &start));
    if status.code == 0 {
        status.code = head.status.as_u16();
    }
    if status.retry_after.is_none() {
        status.retry_after = retry_after(&head.headers);
    }
    status
}

async fn read_start(mut body: Body, start: &mut BytesMut) {
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
fn parse(body: &[u8]) -> Option<Status> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    let sent: Kind = serde_json::from_slice(body).ok()?;
    if sent.kind == "Status" { Status::parse(body) } else { None }
}

/// For an answer that did not come from an API server, or broke off.
fn describe(code: StatusCode, body: &[u8]) -> Status {
    let name = code.canonical_reason().unwrap_or("unknown code");
    let message = format!("{name}; the body is {}", Seen::from_start(body));
    Status { code: code.as_u16(), message, ..Status::default() }
}

/// The header in its form with seconds; API servers do not send the one with a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<u64>().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}
