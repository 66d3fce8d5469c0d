//! Bodies of answers: their type is erased, and their pauses are bounded.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::Response;
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::time::timeout;
use tower::BoxError;

use super::error::RequestTimedOut;

/// The body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// How a request ends.
pub(super) type SendResult = Result<Response<ResponseBody>, BoxError>;

/// Erases the type of a body and of its errors.
pub(super) fn erase_body<B>(body: B) -> ResponseBody
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    body.map_err(Into::into).boxed_unsync()
}

/// Fails the body if the server sends nothing for longer than `pause_max`. The clock runs only
/// while the caller waits for the next frame: a slow reader is not the server's fault.
pub(super) fn limit_pauses(body: ResponseBody, pause_max: Duration) -> ResponseBody {
    let frames = stream::unfold(body, move |mut body| async move {
        let frame = match timeout(pause_max, body.frame()).await {
            Ok(frame) => frame?,
            Err(_) => Err(RequestTimedOut { timeout: pause_max }.into()),
        };
        Some((frame, body))
    });
    // A body may be polled after its end.
    StreamBody::new(frames.fuse()).boxed_unsync()
}
