//! The body of a list or of a watch, as a feed reads it.

use std::time::Duration;

use futures::StreamExt as _;

use crate::decode::frames::{
    FrameError, FrameOptions, ListFrame, ListFrames, WatchFrame, WatchFrames,
};
use crate::transport::source::{Body, Request};

/// Reads the few bytes that follow a complete list, so that the connection can be used again. Gives
/// up if they do not come.
pub(super) async fn drain(mut body: Body) {
    let rest = async { while let Some(Ok(_)) = body.next().await {} };
    let _ = tokio::time::timeout(DRAIN_MAX, rest).await;
}

/// How long to wait for these bytes.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// Splits the body of a list or of a watch.
pub(super) enum Frames {
    List(ListFrames),
    Watch(WatchFrames),
}

pub(super) enum Frame {
    List(ListFrame),
    Watch(WatchFrame),
}

impl Frames {
    /// For the body of the answer to `request`.
    pub(super) fn of(request: &Request, options: FrameOptions) -> Self {
        match request {
            Request::List(_) => Self::List(ListFrames::new(options)),
            Request::Watch(_) => Self::Watch(WatchFrames::new(options)),
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        match self {
            Self::List(frames) => frames.push(chunk),
            Self::Watch(frames) => frames.push(chunk),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        Ok(match self {
            Self::List(frames) => frames.next_frame()?.map(Frame::List),
            Self::Watch(frames) => frames.next_frame()?.map(Frame::Watch),
        })
    }

    pub(super) fn finish(&mut self) -> Result<(), FrameError> {
        match self {
            Self::List(frames) => frames.finish(),
            Self::Watch(frames) => frames.finish(),
        }
    }
}
