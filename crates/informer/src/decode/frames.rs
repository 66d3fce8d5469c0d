//! From the bytes of a response to single objects, as they arrive.
//!
//! The first stage of the way that data takes: the shell of a reflector reads a response body, pushes every
//! piece of it into [`ListFrames`] or [`WatchFrames`], and takes out what is complete. No I/O and no clock:
//! when to read, and when to give up, is the shell's decision.
//!
//! ```
//! use windlass_informer::{FrameOptions, ListFrame, ListFrames};
//!
//! # fn main() -> Result<(), windlass_informer::FrameError> {
//! let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":2}]}"#;
//! let mut frames = ListFrames::new(FrameOptions::default());
//! let mut objects = 0;
//! for chunk in body.chunks(10) {
//!     frames.push(chunk);
//!     while let Some(frame) = frames.next_frame()? {
//!         match frame {
//!             ListFrame::Item(_) => objects += 1,
//!             ListFrame::End(end) => assert_eq!(end.resource_version.as_deref(), Some("7")),
//!         }
//!     }
//! }
//! frames.finish()?;
//! assert_eq!(objects, 2);
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! - What comes out does not depend on where the body was divided into pieces (except how much an error shows
//!   of a body that is plain text).
//! - An object comes out whole or not at all: a body that ends within one is [`FrameError::Truncated`].
//! - Held is what has not been taken out: with `next_frame` called until it has nothing left, the object that
//!   is unfinished. It may not be larger than [`FrameOptions::frame_max`].
//! - Only the frame is checked: brackets and strings that end, keys and commas around the objects. An object
//!   that is not valid JSON within its brackets comes out as it is, and is the concern of whoever reads it, so
//!   that one broken object does not take the others with it.
//! - After an error nothing more comes out, and every call returns it again, until
//!   [`finish`](ListFrames::finish) makes the splitter ready for another body.
//! - No error and no `Debug` output shows the content of an object. The beginning of a body is shown only if
//!   it is text that no API server writes objects in.

mod body;
mod envelope;
mod error;
mod list;
mod reader;
mod status;
mod value;
mod watch;

pub use body::Seen;
pub use error::{FrameError, Part, Place};
pub use list::{ListEnd, ListFrame, ListFrames};
pub(crate) use status::RETRY_AFTER_MAX;
pub use status::{Status, StatusCause};
pub use watch::{Bookmark, Change, WatchFrame, WatchFrames};

use crate::decode::compact::ManagedFields;

/// How bodies are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameOptions {
    managed_fields: ManagedFields,
    frame_max: usize,
}

impl FrameOptions {
    /// The default of [`frame_max`](Self::frame_max): 64 MiB. By default etcd takes requests of up to 1.5 MiB,
    /// so this leaves ample room for servers that are set up for more.
    pub const FRAME_MAX_DEFAULT: usize = 64 << 20;

    /// Whether objects keep `metadata.managedFields`. By default they are cut.
    #[must_use]
    pub fn managed_fields(self, managed_fields: ManagedFields) -> Self {
        Self { managed_fields, ..self }
    }

    /// The largest object of a list, and the largest event of a watch, that is waited for, in bytes as they
    /// are sent. By default 64 MiB.
    #[must_use]
    pub fn frame_max(self, bytes: usize) -> Self {
        Self { frame_max: bytes, ..self }
    }
}

impl Default for FrameOptions {
    fn default() -> Self {
        Self { managed_fields: ManagedFields::default(), frame_max: Self::FRAME_MAX_DEFAULT }
    }
}
