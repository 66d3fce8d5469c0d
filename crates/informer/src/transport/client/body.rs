//! A body that does not pause for longer than allowed.
//!
//! The clock runs only while someone waits for the next piece: whoever reads slowly is not the server's fault.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tower::BoxError;

use super::ResponseBody;
use super::error::RequestTimedOut;

/// A body with a bound on each pause.
pub(super) struct Paced {
    inner: ResponseBody,
    timeout: Duration,
    /// Runs while a piece is waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub(super) fn new(inner: ResponseBody, timeout: Duration) -> Self {
        Self { inner, timeout, timer: None }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            self.timer = None;
            return Poll::Ready(frame);
        }
        let timeout = self.timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(timeout)));
        timer.as_mut().poll(cx).map(|()| Some(Err(RequestTimedOut { timeout }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
