//! Bodies of answers: whole, in pieces, or without end, and cut short where a fault says so.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// A body broke off in the middle.
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

/// The same body, broken off after so many bytes.
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
