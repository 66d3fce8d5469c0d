//! Bodies of answers: whole, in chunks, or endless, and cut short by a fault.

use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use windlass_nesting::on_large_stack;

use crate::shared::Shared;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// The error of a body that breaks off in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection broke in the middle of the answer")]
pub struct BodyError;

pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

pub(crate) fn stream(
    pieces: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
) -> Body {
    BodyExt::boxed_unsync(StreamBody::new(pieces.map(|piece| piece.map(Frame::data))))
}

/// Returns the same body, polled on a large stack while the server has deeply nested objects: lists
/// and watches encode them while the body is read.
pub(crate) fn with_stack(body: Body, shared: Arc<Shared>) -> Body {
    BodyExt::boxed_unsync(WithStack { body, shared })
}

struct WithStack {
    body: Body,
    shared: Arc<Shared>,
}

impl http_body::Body for WithStack {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.body.is_end_stream() || !self.shared.has_deep() {
            return Pin::new(&mut self.body).poll_frame(cx);
        }
        let (body, waker) = (&mut self.body, cx.waker().clone());
        on_large_stack(|| Pin::new(body).poll_frame(&mut Context::from_waker(&waker)))
            .unwrap_or(Poll::Ready(Some(Err(BodyError))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WithStack {
    /// Dropping a watch may drop deeply nested objects that are queued for conversion, so this
    /// needs a large stack, too.
    fn drop(&mut self) {
        if self.body.is_end_stream() || !self.shared.has_deep() {
            return;
        }
        let mut body = Some(mem::replace(&mut self.body, whole(Bytes::new())));
        if on_large_stack(|| drop(body.take())).is_err() {
            // A leak is better than aborting the process.
            mem::forget(body);
        }
    }
}

/// Returns a body that breaks off after `after` bytes.
pub(crate) fn cut(body: Body, after: usize) -> Body {
    let pieces = body.into_data_stream();
    stream(futures::stream::unfold((pieces, Some(after)), |(mut pieces, left)| async move {
        let left = left?;
        if left == 0 {
            return Some((Err(BodyError), (pieces, None)));
        }
        match pieces.next().await? {
            Ok(mut piece) => {
                piece.truncate(left);
                let left = left - piece.len();
                Some((Ok(piece), (pieces, Some(left))))
            }
            Err(error) => Some((Err(error), (pieces, None))),
        }
    }))
}
