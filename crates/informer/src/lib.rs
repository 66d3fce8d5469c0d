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

mod client;
pub mod compact;
mod discovery;
pub mod frames;
mod resource;
mod scan;
mod source;

pub use client::{
    ClientStack, ConnectError, FinishedRequest, HttpService, RequestObserver, RequestOutcome,
    RequestTimedOut, ResponseBody,
};
pub use compact::{ManagedFields, compact};
pub use discovery::DiscoveryError;
pub use frames::{
    Bookmark, Change, FrameError, FrameOptions, ListEnd, ListFrame, ListFrames, Part, Place, Seen,
    Status, StatusCause, WatchFrame, WatchFrames,
};
pub use resource::{Resource, Scope};
pub use source::{
    Answer, Body, KubeListWatch, ListRequest, ListWatch, Request, SelectionError, SourceError,
    TransportError, WatchRequest,
};
