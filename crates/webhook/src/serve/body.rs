//! The bodies of requests, and how many of their bytes are held at once.
//!
//! Whoever reaches the port may send bodies, and a review is parsed before anything about it is
//! known. So the bytes of all bodies together are bounded. They are counted as they arrive, and not
//! as they are announced: a client that sends nothing takes nothing. They are given back when the
//! answer has been sent, which may be as long as the body. What exceeds the budget is refused, with
//! a status after which the API server tries again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::Refusal;

/// How long a body may take to arrive. The largest ones come within a second from the API server.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of an answer the server gets at once. It takes no more until this is sent.
const CHUNK: usize = 16 * 1024;

/// What bodies may have. Clones share the budget.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    bytes_max: usize,
    /// A permit is a byte.
    budget: Arc<Semaphore>,
}

/// The bytes of a body, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted(OwnedSemaphorePermit);

impl Bodies {
    /// Bodies have `bytes_max` at most, and `budget` together. One body always fits.
    pub(crate) fn new(bytes_max: usize, budget: usize) -> Self {
        let budget = budget.max(bytes_max).min(Semaphore::MAX_PERMITS);
        Self { bytes_max, budget: Arc::new(Semaphore::new(budget)) }
    }

    /// Reads a body to its end.
    pub(super) async fn read(
        &self,
        body: Body,
        deadline: Instant,
    ) -> Result<(Vec<u8>, Counted), Refusal> {
        let deadline = deadline.min(Instant::now() + BODY_TIMEOUT);
        timeout_at(deadline, self.collect(body)).await.unwrap_or_else(|_| {
            let message = "the body did not arrive in time";
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, message))
        })
    }

    async fn collect(&self, body: Body) -> Result<(Vec<u8>, Counted), Refusal> {
        let mut body = Limited::new(body, self.bytes_max);
        let (mut bytes, mut counted) = (Vec::new(), self.count(0)?);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| self.unreadable(&*error))?.into_data() else {
                continue;
            };
            counted.0.merge(self.count(data.len())?.0);
            bytes.extend_from_slice(&data);
        }
        Ok((bytes, counted))
    }

    fn count(&self, bytes: usize) -> Result<Counted, Refusal> {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let counted = Arc::clone(&self.budget).try_acquire_many_owned(permits);
        counted.map(Counted).map_err(|_| {
            let message = "the bodies of too many requests are being handled: try again";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, message)
        })
    }

    fn unreadable(&self, error: &(dyn std::error::Error + 'static)) -> Refusal {
        if !error.is::<LengthLimitError>() {
            return Refusal::bad_request("the body could not be read to its end");
        }
        let message = format!("the body has more than {} bytes", self.bytes_max);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }
}

impl Counted {
    /// An answer of JSON. The bytes of the request count until it has been sent, or nearly so.
    pub(super) fn answer(self, bytes: Vec<u8>) -> Response {
        let headers = [
            (CONTENT_TYPE, "application/json".to_owned()),
            (CONTENT_LENGTH, bytes.len().to_string()),
        ];
        // Copies, so that the last one does not hold all of the answer in the server's buffer.
        let chunks = stream::unfold((bytes, 0, self), async |(bytes, start, counted)| {
            let end = bytes.len().min(start + CHUNK);
            let chunk = Bytes::copy_from_slice(&bytes[start..end]);
            (start < end).then_some((Ok::<_, Infallible>(chunk), (bytes, end, counted)))
        });
        (headers, Body::from_stream(chunks)).into_response()
    }
}
