//! How far the requests of a connection are: what its stream, its requests and its answers report.
//!
//! ```text
//!  waiting ─first byte─▶ header ─complete─▶ request ─answered─▶ answer ─all is written─▶ waiting
//! ```
//!
//! A header has [`HEADER_TIMEOUT`], from its first byte: clients keep idle connections open, so the
//! time in which they send nothing does not count. An answer has the time that the limits give
//! it. The stream fails when the time is over, which ends the connection.
//!
//! A client may send further requests before it reads the answers. hyper then goes on to read and
//! to answer them, and its buffer grows if they have headers alone. So the time of the first answer
//! that is not written counts, whatever comes after it, and [`UNWRITTEN_MAX`] bounds their number.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::connections::Place;

/// How long a header may take from its first byte. It usually comes in one packet.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// How many answers may be made and not written when a further request comes. They fit into the
/// buffers of a socket, so a client that reads them never gets there.
const UNWRITTEN_MAX: u32 = 16;

/// How far the requests of a connection are.
#[derive(Debug)]
pub(crate) struct Progress {
    place: Place,
    answer_timeout: Option<Duration>,
    /// Held only to read or to change it.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    step: Step,
    /// The answers since everything was written; `None` if there is none.
    unwritten: Option<Unwritten>,
}

#[derive(Debug)]
struct Unwritten {
    /// The deadline of the first one, if it has one.
    until: Option<Instant>,
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// For the first byte of a request.
    Waiting,
    Header {
        until: Instant,
    },
    /// The header is complete; the body may not be.
    Request,
    /// The answer is being sent. Its last part was made, but not yet written, if `is_made`.
    Answer {
        is_made: bool,
    },
}

impl Progress {
    /// Of a new connection. Each answer must be sent within the timeout, if there is one.
    pub(crate) fn new(place: Place, answer_timeout: Option<Duration>) -> Arc<Self> {
        let state = State { step: Step::Waiting, unwritten: None };
        Arc::new(Self { place, answer_timeout, state: state.into() })
    }

    /// Waits until the connection has to end, because another one got its place.
    pub(crate) async fn closed(&self) {
        self.place.closed().await;
    }

    /// A header is complete. Returns the body, which reports when it is complete.
    pub(crate) fn begin(self: &Arc<Self>, body: Incoming) -> RequestBody {
        let mut state = self.state();
        state.step = Step::Request;
        if let Some(unwritten) = &mut state.unwritten
            && unwritten.count >= UNWRITTEN_MAX
        {
            unwritten.until = Some(Instant::now());
        }
        drop(state);
        let body = RequestBody { body, progress: Some(Arc::clone(self)) };
        if body.is_end_stream() {
            self.place.set_busy();
        }
        body
    }

    /// The answer is there. Returns its body, which reports when it is made.
    pub(crate) fn answer<B>(self: &Arc<Self>, body: B) -> Sent<B> {
        let mut state = self.state();
        state.step = Step::Answer { is_made: false };
        let until = self.answer_timeout.map(|timeout| Instant::now() + timeout);
        state.unwritten.get_or_insert(Unwritten { until, count: 0 }).count += 1;
        drop(state);
        Sent { body, progress: Arc::clone(self) }
    }

    fn has_read(&self) {
        let mut state = self.state();
        if state.step == Step::Waiting {
            state.step = Step::Header { until: Instant::now() + HEADER_TIMEOUT };
        }
    }

    fn has_flushed(&self) {
        let mut state = self.state();
        // The time of an answer goes on until all of it is written.
        if state.step == (Step::Answer { is_made: false }) {
            return;
        }
        state.unwritten = None;
        if state.step == (Step::Answer { is_made: true }) {
            state.step = Step::Waiting;
            drop(state);
            self.place.set_idle();
        }
    }

    /// When the connection fails, unless it gets on.
    fn deadline(&self) -> Option<Instant> {
        let state = self.state();
        match (&state.unwritten, state.step) {
            (Some(unwritten), _) => unwritten.until,
            (None, Step::Header { until }) => Some(until),
            (None, _) => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a request.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    /// `None` once it is complete.
    progress: Option<Arc<Progress>>,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if (frame.is_none() || self.body.is_end_stream())
            && let Some(progress) = self.progress.take()
            && progress.state().step == Step::Request
        {
            progress.place.set_busy();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer.
pub(crate) struct Sent<B> {
    body: B,
    progress: Arc<Progress>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Sent<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// hyper drops the body when it has all of it.
impl<B> Drop for Sent<B> {
    fn drop(&mut self) {
        if let Step::Answer { is_made } = &mut self.progress.state().step {
            *is_made = true;
        }
    }
}

/// The stream of a connection.
pub(crate) struct Timed<S> {
    stream: S,
    progress: Arc<Progress>,
    /// For the deadline of a step, when one was waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub(crate) fn new(stream: S, progress: Arc<Progress>) -> Self {
        Self { stream, progress, timer: None }
    }

    /// What was polled, or an error if it is not ready and the time of the step is over.
    fn or_deadline<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            return polled;
        }
        let Some(deadline) = self.progress.deadline() else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.progress.has_read();
        }
        self.or_deadline(polled, cx)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.or_deadline(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        if polled.is_ready() {
            self.progress.has_flushed();
        }
        self.or_deadline(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.or_deadline(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.or_deadline(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
