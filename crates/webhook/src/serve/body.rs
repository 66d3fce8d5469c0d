//! The bodies of requests, and how much memory they take at once.
//!
//! Whoever reaches the port may send bodies, and a review is parsed before anything about it is
//! known. So the memory of all of them together is bounded. Bytes are counted as they arrive, and
//! not as they are announced: a client that sends nothing takes nothing. What a text takes when it
//! is decoded is counted before that. When a request has been handled, only its answer counts,
//! until it has been sent.
//!
//! When there is no room, the oldest body that is not complete, or answer that is not sent, makes
//! room: a client that is slow to write or to read keeps out nobody. If requests that are handled
//! leave no room, the request is refused, with a status after which the API server tries again.

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

/// How much of an answer the server gets at once. It takes no more until this is sent. An answer
/// that is no longer is not counted.
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
    /// Bodies that arrive and answers that are sent, by the order in which they began.
    under_way: BTreeMap<u64, UnderWay>,
    began: u64,
}

/// A body that still arrives, or an answer that is still sent. Its bytes are here, so that they are
/// freed with it.
#[derive(Debug)]
struct UnderWay {
    bytes: Vec<u8>,
    /// Tells the reader of a body, by being dropped, that it made room for another.
    _reader: Option<oneshot::Sender<Infallible>>,
}

/// A place among what is under way, until this is dropped.
struct Place {
    bodies: Bodies,
    began: u64,
}

/// A body, as far as it was read.
pub(crate) struct Read {
    pub(crate) bytes: Vec<u8>,
    pub(crate) counted: Counted,
    /// Why the rest was not read, if the body is too long.
    pub(crate) too_long: Option<String>,
}

/// Memory that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    bodies: Bodies,
    bytes: usize,
    /// What else the same request took before this.
    before: usize,
}

/// Why there is no memory for a request.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Shortage {
    /// There will never be enough.
    #[error("it would take too much memory when it is decoded")]
    Ever,
    /// Others have it.
    #[error("the bodies of too many requests are being handled: try again")]
    Now,
}

/// An answer made room for others before it was sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer was not read fast enough")]
struct BrokenOff;

impl Bodies {
    /// Bodies have `bytes_max` at most, and take `memory_max` together.
    pub(crate) fn new(bytes_max: usize, memory_max: usize) -> Self {
        let budget = Budget { free: memory_max, under_way: BTreeMap::new(), began: 0 };
        let bytes_max = bytes_max.min(memory_max);
        Self { bytes_max, memory_max, budget: Arc::new(Mutex::new(budget)) }
    }

    /// Reads a body to its end.
    pub(super) async fn read(&self, body: Body, deadline: Instant) -> Result<Read, Refusal> {
        let deadline = deadline.min(Instant::now() + BODY_TIMEOUT);
        timeout_at(deadline, self.collect(body)).await.unwrap_or_else(|_| {
            let message = "the body did not arrive in time";
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, message))
        })
    }

    async fn collect(&self, body: Body) -> Result<Read, Refusal> {
        let (sender, mut gives_way) = oneshot::channel();
        let began = self.budget().begin(UnderWay { bytes: Vec::new(), _reader: Some(sender) });
        let place = Place { bodies: self.clone(), began };
        let mut body = Limited::new(body, self.bytes_max);
        let mut too_long = None;
        while too_long.is_none() {
            let frame = tokio::select! {
                biased;
                _ = &mut gives_way => return Err(Shortage::Now.into()),
                frame = body.frame() => frame,
            };
            match frame {
                None => break,
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.budget().add(place.began, &data)?;
                }
                Some(Err(error)) if error.is::<LengthLimitError>() => {
                    too_long = Some(format!("the body has more than {} bytes", self.bytes_max));
                }
                Some(Err(_)) => {
                    return Err(Refusal::bad_request("the body could not be read to its end"));
                }
            }
        }
        let complete = self.budget().under_way.remove(&place.began);
        let bytes = complete.ok_or(Shortage::Now)?.bytes;
        let counted = Counted { bodies: self.clone(), bytes: bytes.len(), before: 0 };
        Ok(Read { bytes, counted, too_long })
    }

    /// Nothing panics while it is locked.
    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget {
    fn begin(&mut self, under_way: UnderWay) -> u64 {
        self.began += 1;
        self.under_way.insert(self.began, under_way);
        self.began
    }

    /// Adds what has arrived of a body. It is never the body itself that makes room: it is the one
    /// that makes progress.
    fn add(&mut self, began: u64, data: &[u8]) -> Result<(), Shortage> {
        self.take(data.len(), Some(began))?;
        let body = self.under_way.get_mut(&began);
        // Otherwise it made room in the meantime, and its bytes are given back already.
        let Some(body) = body else {
            self.free += data.len();
            return Err(Shortage::Now);
        };
        body.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Takes a part of the budget, if need be from what is under way.
    fn take(&mut self, bytes: usize, taker: Option<u64>) -> Result<(), Shortage> {
        if self.free < bytes {
            let others = self.under_way.iter().filter(|(began, _)| Some(**began) != taker);
            let in_others: usize = others.map(|(_, other)| other.bytes.len()).sum();
            if self.free + in_others < bytes {
                return Err(Shortage::Now);
            }
        }
        while self.free < bytes {
            let holds = |(_, other): &(&u64, &UnderWay)| !other.bytes.is_empty();
            let oldest = self.under_way.iter().filter(holds).map(|(began, _)| *began);
            let oldest = oldest.filter(|began| Some(*began) != taker).min();
            self.remove(oldest.expect("the missing bytes must be in others"));
        }
        self.free -= bytes;
        Ok(())
    }

    fn remove(&mut self, began: u64) {
        self.free += self.under_way.remove(&began).map_or(0, |under_way| under_way.bytes.len());
    }
}

impl Place {
    /// A part of an answer, from `start` on; empty at its end.
    fn chunk(&self, start: usize) -> Result<Bytes, BrokenOff> {
        let budget = self.bodies.budget();
        let answer = &budget.under_way.get(&self.began).ok_or(BrokenOff)?.bytes;
        // A copy, so that the last one does not hold all of the answer in the server's buffer.
        Ok(Bytes::copy_from_slice(&answer[start..answer.len().min(start + CHUNK)]))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.bodies.budget().remove(self.began);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bodies.budget().free += self.bytes;
    }
}

impl From<Shortage> for Refusal {
    fn from(shortage: Shortage) -> Self {
        let code = match shortage {
            Shortage::Ever => StatusCode::PAYLOAD_TOO_LARGE,
            Shortage::Now => StatusCode::TOO_MANY_REQUESTS,
        };
        Self::new(code, shortage.to_string())
    }
}

impl Counted {
    /// More memory for the same request.
    pub(super) fn more(&self, bytes: usize) -> Result<Self, Shortage> {
        let before = self.before + self.bytes;
        if before.saturating_add(bytes) > self.bodies.memory_max {
            return Err(Shortage::Ever);
        }
        self.bodies.budget().take(bytes, None)?;
        Ok(Self { bodies: self.bodies.clone(), bytes, before })
    }

    /// Counts another part with this one.
    pub(super) fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// An answer of JSON, which counts instead of this until it has been sent, or nearly so.
    pub(super) fn answer(self, bytes: Vec<u8>) -> Result<Response, Shortage> {
        let headers = [
            (CONTENT_TYPE, "application/json".to_owned()),
            (CONTENT_LENGTH, bytes.len().to_string()),
        ];
        if bytes.len() <= CHUNK {
            return Ok((headers, bytes).into_response());
        }
        let place = self.exchange(bytes)?;
        let chunks = stream::try_unfold((place, 0), async |(place, start)| {
            let chunk = place.chunk(start)?;
            let end = start + chunk.len();
            Ok::<_, BrokenOff>((!chunk.is_empty()).then_some((chunk, (place, end))))
        });
        Ok((headers, Body::from_stream(chunks)).into_response())
    }

    /// Gives this back, and takes what the bytes have.
    fn exchange(mut self, bytes: Vec<u8>) -> Result<Place, Shortage> {
        let bodies = self.bodies.clone();
        let mut budget = bodies.budget();
        budget.free += std::mem::take(&mut self.bytes);
        budget.take(bytes.len(), None)?;
        let began = budget.begin(UnderWay { bytes, _reader: None });
        drop(budget);
        Ok(Place { bodies, began })
    }
}
