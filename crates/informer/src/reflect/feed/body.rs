//! The body of a list or of a watch, as a feed reads it.

use std::time::Duration;

use futures::StreamExt as _;

use crate::decode::frames::{
    FrameError, FrameOptions, ListFrame, ListFrames, WatchFrame, WatchFrames,
};
use crate::transport::source::{Body, Request};

/// Reads what is left of a body after its end, a few bytes: then the connection can be used again. If they do not
/// come, it is given up.
pub(super) async fn drain(mut body: Body) {
    let rest = async { while let Some(Ok(_)) = body.next().await {} };
    let _ = tokio::time::timeout(DRAIN_MAX, rest).await;
}

/// How long the end of a list is waited for when all of the list is there.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// A body of either kind, being split.
pub(super) enum Frames {
    List(ListFrames),
    Watch(WatchFrames),
}

pub(super) enum Frame {
    List(ListFrame),
    Watch(WatchFrame),
}

impl Frames {
    /// For the body that answers `request`.
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
