//! Informers: lists and watches of the Kubernetes API, kept as a small local cache.
//!
//! So far this crate holds the first stage, the way from the bytes of a response to single objects:
//!
//! - [`frames`]: [`ListFrames`] and [`WatchFrames`] split a body into objects and events as it arrives;
//! - [`mod@compact`]: every object leaves them without whitespace and without `metadata.managedFields`, in an
//!   allocation of exactly its size;
//! - `scan`: the structural scan under both, 64 bytes at a time.
//!
//! All of it is synchronous and does no I/O.

#[cfg_attr(not(test), expect(dead_code, reason = "listeners are to come"))]
mod backlog;
pub mod compact;
mod delta_fifo;
pub mod frames;
mod reflector;
mod resource;
mod scan;
mod source;

pub use compact::{ManagedFields, compact};
pub use delta_fifo::{Delta, DeltaFifo, Deltas, FinalState, IntoDeltas, Position, ReplaceList};
pub use frames::{
    Bookmark, Change, FrameError, FrameOptions, ListEnd, ListFrame, ListFrames, Part, Place, Seen,
    Status, StatusCause, WatchFrame, WatchFrames,
};
pub use reflector::{
    Action, Arrival, BackoffConfig, Listed, Phase, Reaction, Reflector, ReflectorConfig, Relist,
    ServerTraits, TimedOut,
};
pub use resource::{Resource, Scope};
pub use source::{
    Answer, Body, KubeListWatch, ListRequest, ListWatch, Request, SelectionError, SourceError,
    TransportError, WatchRequest,
};
