//! Informers: lists and watches of the Kubernetes API, kept as a small local cache.

mod backlog;
mod cache;
mod client;
pub mod compact;
mod delta_fifo;
mod discovery;
mod dynamic;
mod engine;
mod error;
mod event;
mod factory;
mod feed;
pub mod frames;
mod informer;
mod ingest;
mod judge;
mod listener;
mod lock;
mod observer;
mod options;
#[cfg(feature = "prometheus")]
mod prometheus;
mod reflector;
mod resource;
mod scan;
mod source;
mod status;
mod transform;
mod vitals;

pub use client::{
    ClientStack, ConnectError, FinishedRequest, HttpService, RequestObserver, RequestOutcome,
    RequestTimedOut, ResponseBody,
};
pub use compact::{ManagedFields, compact};
pub use delta_fifo::{Delta, DeltaFifo, Deltas, FinalState, IntoDeltas, Position, ReplaceList};
pub use discovery::DiscoveryError;
pub use dynamic::{DynamicError, DynamicInformerFactory};
pub use error::{InformerError, Stopped};
pub use event::{Event, Filtered, Handler, filtered};
pub use factory::{FactoryBuilder, InformerFailure, NotSynced, SharedInformerFactory};
pub use frames::{
    Bookmark, Change, FrameError, FrameOptions, ListEnd, ListFrame, ListFrames, Part, Place, Seen,
    Status, StatusCause, WatchFrame, WatchFrames,
};
pub use informer::SharedInformer;
pub use listener::{HandlerOptions, HandlerStatus, Registration, Resync, Subscription};
pub use observer::{ListReport, Observer, Probe};
pub use options::InformerOptions;
#[cfg(feature = "prometheus")]
pub use prometheus::InformerMetrics;
pub use reflector::{
    Action, Arrival, BackoffConfig, Listed, Phase, Reaction, Reflector, ReflectorConfig, Relist,
    ServerTraits, TimedOut,
};
pub use resource::{Resource, Scope};
pub use source::{
    Answer, Body, KubeListWatch, ListRequest, ListWatch, Request, SelectionError, SourceError,
    TransportError, WatchRequest,
};
pub use status::{Activity, Counts, FeedStatus, InformerStatus, Life, Progress};
pub use transform::Transform;
pub use windlass_indexer as indexer;
