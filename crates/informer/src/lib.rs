//! Informers: lists and watches of the Kubernetes API, kept as a small local cache, with any number of handlers.
//!
//! ```text
//! server ─body→ frames ─objects→ Reflector · judge → DeltaFifo → Store ─┬─ Lister          (read at any time)
//!                                                                      └─ handlers        (told of every change)
//! ```
//!
//! # A first informer
//!
//! ```
//! # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use k8s_openapi::api::core::v1::Pod;
//! use windlass_informer::{Event, InformerOptions, SharedInformerFactory};
//!
//! let factory = SharedInformerFactory::builder(client)
//!     .defaults(InformerOptions::new().resync(Duration::from_secs(60)))
//!     .build();
//! let pods = factory.informer::<Pod>()?;
//! pods.add_handler(|event: Event<Pod>| match event {
//!     Event::Added { object, .. } => println!("new: {}", object.key()),
//!     Event::Updated { new, .. } => println!("changed: {}", new.key()),
//!     Event::Deleted { object, .. } => println!("gone: {}", object.key()),
//! })?;
//! factory.start();
//! factory.wait_for_sync().await?;
//! for pod in &pods.lister().in_namespace("shop") {
//!     let pod = pod.get()?; // decoded here, and not before
//!     println!("{:?}", pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()));
//! }
//! factory.shut_down().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What is shared
//!
//! A factory has one informer, one watch and one cache for everyone who asks for the same: the resource, its
//! namespaces and selectors, the transform, and whether managedFields are kept. As which type it is read does not
//! matter: `Pod`, `DynamicObject`, metadata only and a type of your own with three fields are faces of one cache
//! ([`SharedInformer::read_as`], [`SharedInformerFactory::informer_of`], [`SharedInformerFactory::dynamic`],
//! [`SharedInformerFactory::metadata`]). An informer stops when its last user leaves, so that a resource whose
//! definition was deleted does not hold up the others.
//!
//! # What handlers can rely on
//!
//! - Every handler sees for each object: added, then updates, then deleted; the version of a uid never goes back.
//!   `old` of an update is what it was told last. An object that was deleted and made again under its name is
//!   deleted and then added.
//! - A handler that joins late is shown everything as added first, and nothing is lost or doubled between that
//!   and what follows. [`Registration::wait_for_sync`] says when it has seen all.
//! - What a watch has missed is found by the next list: what is gone from it is told as deleted, with the last
//!   state that was known ([`FinalState::LastKnown`], client-go's `DeletedFinalStateUnknown`).
//! - A handler that is slow or panics slows nobody else. Up to 1,024 events wait for it; from there on those of the
//!   same object merge, so that memory is bounded by the number of objects.
//! - Objects are shared and immutable by type. There is nothing to copy before a change and nothing like client-go's
//!   cache mutation detector, because there is no mutation to detect.
//!
//! # What a resync is, and what not
//!
//! With [`InformerOptions::resync`] or [`HandlerOptions::resync`] a handler is shown every object again from time to
//! time, as an update whose old and new versions are the same ([`Event::is_resync`]). It comes from the cache. The
//! server is asked for nothing, and a change that was missed is not found that way, though it is often described
//! so. What does find it is a list: after a gap the reflector makes one by itself, and
//! [`InformerOptions::audit`] makes one from time to time, compares it with the cache and repairs that.
//!
//! # What happens when things go wrong
//!
//! - A watch that ends is resumed where it was; only a version that the server no longer has (410), a server that
//!   cannot reach it, or doubt about the server itself cost a list. Waits grow from 0.8 to 30 seconds with jitter, for
//!   each informer by itself. `Retry-After` is heeded. See [`Reflector`] for all of the rules.
//! - A list is taken in as it arrives, and never held as a whole: what is unchanged only gets a mark, what is new or
//!   changed is applied on arrival, and at its end what has no mark is deleted. So during a relist the cache is partly
//!   newer than the rest: atomicity over keys is given up for memory. A list that is interrupted deletes nothing.
//! - If versions go back in two lists in a row, the cluster was restored from a backup: the cache follows it, and
//!   the differences are told as events.
//! - An object whose metadata cannot be read is put in quarantine, with its key, and the others go on; one whose body
//!   does not decode is an error for who reads it. No error, log line or status shows content of an object.
//! - All of it is in [`SharedInformer::status`], goes to [`InformerOptions::on_error`], to `tracing`, and to an
//!   [`Observer`] for metrics.
//!
//! # What it takes
//!
//! The cache holds metadata and compact bytes without managedFields, and decodes what is read
//! ([`windlass_indexer`] tells how). [`InformerOptions::resident`] holds decoded objects instead: for a type of your
//! own with a few fields that is the smallest of all.
//!
//! # Reading order of the source
//!
//! `source` (what is asked for), `frames` and `compact` (from bytes to objects), `reflector` (what to ask next),
//! `ingest` and `judge` (what an object means), `delta_fifo`, `cache` (where it all meets), `backlog` and `listener`
//! (handlers), `feed` and `engine` (what waits, and what runs), `informer`, `factory`, `dynamic` (what users hold),
//! `client` (the way to the server), `status` and `observer`.

#![forbid(unsafe_code)]

mod decode;
mod error;
mod freshness;
mod reflect;
mod resource;
mod share;
mod telemetry;
mod transport;

pub use decode::compact::{ManagedFields, compact};
pub use decode::frames::{
    Bookmark, Change, FrameError, FrameOptions, ListEnd, ListFrame, ListFrames, Part, Place, Seen,
    Status, StatusCause, WatchFrame, WatchFrames,
};
pub use decode::transform::Transform;
pub use error::{InformerError, Stopped};
pub use freshness::{Freshness, Written};
pub use reflect::reflector::{BackoffConfig, ListFault, Reaction, ReflectorConfig, Relist};
pub use resource::{Resource, Scope};
pub use share::delta_fifo::FinalState;
pub use share::event::{Event, Handler, filtered};
pub use share::factory::{FactoryBuilder, InformerFailure, NotSynced, SharedInformerFactory};
pub use share::informer::SharedInformer;
pub use share::listener::{HandlerOptions, HandlerStatus};
pub use share::options::InformerOptions;
pub use share::registration::{Registration, Subscription};
pub use telemetry::observer::{Observation, Observer, StatusHandle};
#[cfg(feature = "prometheus")]
pub use telemetry::prometheus::InformerMetrics;
pub use telemetry::status::{Activity, Counts, FeedStatus, InformerStatus, Life, Progress};
pub use transport::client::{
    ClientStack, ConnectError, CreatedName, CredentialsError, FinishedRequest, HttpService,
    RequestError, RequestInfo, RequestObserver, RequestOutcome, RequestTarget, RequestTimedOut,
    ResponseBody, error_chain, explain, safe_message, status_of,
};
pub use transport::discovery::DiscoveryError;
pub use transport::source::{
    Answer, Body, KubeListWatch, ListRequest, ListWatch, Request, SelectionError, SourceError,
    TransportError, WatchRequest,
};
