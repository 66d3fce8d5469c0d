//! The bodies of requests, and how much memory they take at once.
//!
//! Whoever reaches the port may send bodies, and a review is parsed before anything about it is
//! known. So the memory of all of them together is bounded. Bytes are counted as they arrive, and
//! not as they are announced: a client that sends nothing takes nothing. They are given back when
//! the answer has been sent, which may be as long as the body. What a text takes when it is decoded
//! is counted before that, and given back when it has been handled.
//!
//! When there is no room for what arrives, the oldest body that is not complete makes room: a
//! client that does not finish its request keeps out nobody. If the complete ones leave no room,
//! the request is refused, with a status after which the API server tries again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::Refusal;

/// How long a body may take to arrive. The largest ones come within a second from the API server.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of an answer the server gets at once. It takes no more until this is sent.
const CHUNK: usize = 16 * 1024;

/// The limits of bodies: of one, and of all together. Clones share the budget.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    bytes_max: usize,
    memory_max: usize,
    budget: Arc<Mutex<Budget>>,
}

#[derive(Debug)]
struct Budget {
    free: usize,
    /// By the order in which they began.
    incomplete: BTreeMap<u64, Incomplete>,
    began: u64,
}

/// A body that still arrives. Its bytes are here, so that they are freed with it.
#[derive(Debug)]
struct Incomplete {
    bytes: Vec<u8>,
    /// Tells the reader, by being dropped, that the body made room for another.
    _reader: oneshot::Sender<Infallible>,
}

/// A place among the incomplete bodies, until this is dropped.
struct Place<'a>(&'a Bodies, u64);

/// Memory that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    bodies: Bodies,
    bytes: usize,
}

impl Bodies {
    /// Bodies have `bytes_max` at most, and take `memory_max` together.
    pub(crate) fn new(bytes_max: usize, memory_max: usize) -> Self {
        let budget = Budget { free: memory_max, incomplete: BTreeMap::new(), began: 0 };
        let bytes_max = bytes_max.min(memory_max);
        Self { bytes_max, memory_max, budget: Arc::new(Mutex::new(budget)) }
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
        let (place, mut gives_way) = self.begin();
        let mut body = Limited::new(body, self.bytes_max);
        loop {
            let frame = tokio::select! {
                biased;
                _ = &mut gives_way => return Err(too_many()),
                frame = body.frame() => frame,
            };
            let Some(frame) = frame else { break };
            if let Ok(data) = frame.map_err(|error| self.unreadable(&*error))?.into_data() {
                self.budget().add(place.1, &data)?;
            }
        }
        let complete = self.budget().incomplete.remove(&place.1);
        let bytes = complete.ok_or_else(too_many)?.bytes;
        let counted = Counted { bodies: self.clone(), bytes: bytes.len() };
        Ok((bytes, counted))
    }

    fn begin(&self) -> (Place<'_>, oneshot::Receiver<Infallible>) {
        let (sender, gives_way) = oneshot::channel();
        let mut budget = self.budget();
        budget.began += 1;
        let began = budget.began;
        budget.incomplete.insert(began, Incomplete { bytes: Vec::new(), _reader: sender });
        (Place(self, began), gives_way)
    }

    /// Nothing panics while it is locked.
    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreadable(&self, error: &(dyn std::error::Error + 'static)) -> Refusal {
        if !error.is::<LengthLimitError>() {
            return Refusal::bad_request("the body could not be read to its end");
        }
        let message = format!("the body has more than {} bytes", self.bytes_max);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }
}

impl Budget {
    /// Adds what has arrived of a body. It is never the body itself that makes room: it is the one
    /// that makes progress.
    fn add(&mut self, began: u64, data: &[u8]) -> Result<(), Refusal> {
        self.take(data.len(), Some(began))?;
        let body = self.incomplete.get_mut(&began);
        // Otherwise it made room in the meantime, and its bytes are given back already.
        let Some(body) = body else {
            self.free += data.len();
            return Err(too_many());
        };
        body.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Takes a part of the budget, if need be from bodies that are not complete.
    fn take(&mut self, bytes: usize, taker: Option<u64>) -> Result<(), Refusal> {
        let others = || self.incomplete.iter().filter(|(began, _)| Some(**began) != taker);
        let in_others: usize = others().map(|(_, body)| body.bytes.len()).sum();
        if self.free + in_others < bytes {
            return Err(too_many());
        }
        while self.free < bytes {
            let holds = |(_, body): &(&u64, &Incomplete)| !body.bytes.is_empty();
            let oldest = self.incomplete.iter().filter(holds).map(|(began, _)| *began);
            let oldest = oldest.filter(|began| Some(*began) != taker).min();
            self.remove(oldest.expect("the missing bytes must be in other bodies"));
        }
        self.free -= bytes;
        Ok(())
    }

    fn remove(&mut self, began: u64) {
        self.free += self.incomplete.remove(&began).map_or(0, |body| body.bytes.len());
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.budget().remove(self.1);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bodies.budget().free += self.bytes;
    }
}

fn too_many() -> Refusal {
    let message = "the bodies of too many requests are being handled: try again";
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, message)
}

impl Counted {
    /// More memory for the same request. `None` if it could never have so much.
    pub(super) fn more(&self, bytes: usize) -> Result<Option<Self>, Refusal> {
        if self.bytes.saturating_add(bytes) > self.bodies.memory_max {
            return Ok(None);
        }
        self.bodies.budget().take(bytes, None)?;
        Ok(Some(Self { bodies: self.bodies.clone(), bytes }))
    }

    /// Counts another part with this one.
    pub(super) fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

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
