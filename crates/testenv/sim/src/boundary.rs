//! The boundary of a process: the tower service below its clients.
//!
//! A request leaves the process into the outbox, and the clock of the process stops until the
//! simulation has looked at it. The simulation alone decides when and whether it arrives, and when
//! its answer and the lines of a watch come back.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::{mpsc, oneshot};
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use tower::BoxError;

use crate::process::Gate;

/// The connection broke, before or in the middle of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The body of an answer as it arrives.
pub(crate) type WireBody = UnsyncBoxBody<Bytes, BoxError>;

/// An answer as it arrives.
pub(crate) type Answer = Result<Response<WireBody>, Broken>;

/// The other end of the body of a watch.
pub(crate) type Lines = mpsc::UnboundedSender<Result<Bytes, Broken>>;

/// A request that has left the process.
pub(crate) struct Sent {
    pub(crate) request: Request<Bytes>,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// The service below the clients of one process.
#[derive(Clone)]
pub(crate) struct Boundary {
    gate: Arc<Gate>,
    outbox: Arc<Mutex<Vec<Sent>>>,
}

impl Boundary {
    pub(crate) fn new(gate: &Arc<Gate>) -> Self {
        Self { gate: Arc::clone(gate), outbox: Arc::default() }
    }

    /// Returns what the process has sent since the last call.
    pub(crate) fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn send(&self, request: Request<Bytes>) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        let sent = Sent { request, answer };
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
        self.gate.note_sent();
        receiver
    }
}

impl tower::Service<Request<Body>> for Boundary {
    type Response = Response<WireBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<WireBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let boundary = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let answer = boundary.send(Request::from_parts(parts, body)).await;
            // The simulation drops what it will never answer.
            let answer = answer.unwrap_or(Err(Broken));
            answer.map_err(BoxError::from)
        })
    }
}

/// A body that is here at once.
pub(crate) fn whole(bytes: Bytes) -> WireBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A body that comes line by line, and where to put the lines.
pub(crate) fn streamed() -> (Lines, WireBody) {
    // The simulation bounds it: the log of the server has finitely many changes.
    let (sender, receiver) = mpsc::unbounded();
    let frames = receiver.map(|line: Result<Bytes, Broken>| Ok(Frame::data(line?)));
    (sender, StreamBody::new(frames).boxed_unsync())
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the simulation broke the connection")
    }
}

impl std::error::Error for Broken {}
