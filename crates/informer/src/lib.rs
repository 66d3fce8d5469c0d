//! Informers: lists and watches of the Kubernetes API, kept as a local cache, with any number of
//! handlers.
//!
//! ```text
//! server ─body→ frames ─objects→ judge → DeltaFifo → Store ─┬→ Lister    (reads at any time)
//!    ▲                                                      └→ handlers  (get every change)
//!    └─requests─ Reflector
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
//! A factory has one informer, one watch and one cache for all users that ask for the same
//! resource, namespaces, selectors, transform and managedFields. The type that it is read as does
//! not matter: `Pod`, `DynamicObject`, metadata only and a type of your own with three fields are
//! views of one cache ([`SharedInformer::read_as`], [`SharedInformerFactory::informer_of`],
//! [`SharedInformerFactory::dynamic_informer`], [`SharedInformerFactory::metadata`]). An informer
//! stops when its last user is dropped.
//!
//! # What handlers can rely on
//!
//! - Every handler sees each object as added, then updated, then deleted. The version of a uid
//!   never goes back. `old` of an update is what the handler saw last. An object that was deleted
//!   and created again under the same name is deleted and then added.
//! - A handler that joins late is first shown every cached object as added. It misses nothing and
//!   gets nothing twice. [`Registration::wait_for_sync`] returns when it has seen all.
//! - The next list finds what a watch has missed: objects that it does not have are deleted, with
//!   the last known state ([`FinalState::LastKnown`], client-go's `DeletedFinalStateUnknown`).
//! - A handler that is slow or panics slows no other one. Up to 1,024 events wait for it; above
//!   that those of the same object merge, so that memory is bounded by the number of objects.
//! - Objects are shared and immutable by type. Nobody has to copy them before a change, and there
//!   is nothing like client-go's cache mutation detector.
//!
//! # What a resync is
//!
//! With [`InformerOptions::resync`] or [`HandlerOptions::resync`] a handler is shown every object
//! again from time to time, as an update whose old and new versions are the same
//! ([`Event::is_resync`]). It comes from the cache. No request is sent, so a resync does not find
//! changes that a watch has missed, although it is often described so. A list does: after a gap the
//! reflector requests one, and [`InformerOptions::audit`] requests one from time to time, compares
//! it with the cache and repairs the cache.
//!
//! # What happens when things go wrong
//!
//! - A watch that ends is resumed from its position. Everything is listed again only for the
//!   reasons in [`Relist`](observe::Relist), and when a resource that was missing (404) returns.
//!   Each wait is random, up to a bound that doubles from 0.8 to 30 seconds, and is added to the
//!   time in `Retry-After`. Each watched namespace has its own backoff. [`ReflectorConfig`] has the
//!   settings, and `reflector.rs` explains all rules.
//! - A list is processed as it arrives, and is never held as a whole: unchanged objects are only
//!   marked, new and changed ones are applied at once, and in the end unmarked ones are deleted. So
//!   during a relist a part of the cache is newer than the rest. An interrupted list deletes
//!   nothing.
//! - If versions go back in two lists in a row, the cluster was restored from a backup: the cache
//!   follows it, and handlers get the differences as events.
//! - An object whose metadata cannot be read is put in quarantine, with its key, and the others are
//!   processed. One whose body does not decode is an error for its readers. No error, log line or
//!   status shows the content of an object.
//! - All of this is in [`SharedInformer::status`], and goes to [`InformerOptions::on_error`], to
//!   `tracing`, and to an [`Observer`](observe::Observer) for metrics.
//!
//! # Memory
//!
//! The cache holds metadata and compact bytes without managedFields, and decodes what is read
//! (see [`windlass_indexer`]). [`InformerOptions::resident`] holds decoded objects instead: for a
//! type of your own with a few fields that is the smallest.
//!
//! # The layers of a change
//!
//! | type | file | created by | what is new in it |
//! |---|---|---|---|
//! | `Frame` | `decode/frames/frame.rs` | `Frames` | what the server says, and the bytes |
//! | `Received` | `cache/judge.rs` | `Feed` | the head; whether it belongs to a list |
//! | `Delta` | `cache/delta_fifo.rs` | `Judge` | it is newer than what is cached or queued |
//! | `Notice` | `cache/backlog.rs` | `Cache` | the version that it replaces in the store |
//! | [`Event`] | `cache/event.rs` | `Listener` | the type of the objects |
//!
//! # Reading order of the source
//!
//! - `transport`: the HTTP stack (`client`), and the requests of lists and watches (`source`).
//! - `decode`: from bytes to objects (`frames`, `compact`, `ingest`).
//! - `reflector`: what to request next; it does no I/O.
//! - `cache`: which objects are new (`judge`, `listing`), the order in which they are applied
//!   (`delta_fifo`), and how handlers get them (`backlog`, `listener`, `event`).
//! - `share`: the task that sends requests and reads answers (`feed`), all tasks of an informer
//!   (`engine`), and what users hold (`informer`, `registry`, `factory`); whether a cache shows a
//!   write, and how it would show it (`informer_cache`, `overlay`).
//! - `telemetry`: status, observers, log lines, metrics.

#![forbid(unsafe_code)]

mod cache;
mod decode;
mod error;
mod lock;
mod reflector;
mod resource;
mod share;
mod telemetry;
mod transport;

pub use cache::delta_fifo::FinalState;
pub use cache::event::{Event, Handler, filtered};
pub use cache::listener::HandlerOptions;
pub use decode::compact::ManagedFields;
pub use decode::frames::Status;
pub use decode::transform::Transform;
pub use error::{InformerError, InformerFailure, NotSynced, Stopped};
pub use reflector::{BackoffConfig, ReflectorConfig};
pub use resource::{Resource, Scope, StaticResource};
pub use share::factory::{FactoryBuilder, SharedInformerFactory};
pub use share::informer::SharedInformer;
pub use share::informer_cache::{InformerCache, Written};
pub use share::options::InformerOptions;
pub use share::registration::{Registration, Subscription};
#[cfg(feature = "prometheus")]
pub use telemetry::prometheus::InformerMetrics;
#[cfg(feature = "prometheus")]
pub use telemetry::requests::RequestMetrics;
pub use telemetry::status::{
    Activity, Counts, FeedStatus, HandlerStatus, InformerPhase, InformerStatus,
};
pub use transport::client::{ClientStack, ConnectError, NotLeader, RequestError, ServerClock};
pub use transport::discovery::DiscoveryError;
pub use transport::source::SourceError;

pub mod client {
    //! For layers of a [`ClientStack`](crate::ClientStack), and what its errors and requests tell.

    pub use crate::transport::client::{
        CreatedName, HttpService, RequestInfo, RequestTarget, RequestTimedOut, ResponseBody,
        error_chain, explain, safe_message, status_of,
    };
}

pub mod observe {
    //! For metrics of your own: what happens to lists, watches and requests.

    pub use crate::decode::frames::EventType;
    pub use crate::reflector::{ListFault, Reaction, Relist};
    pub use crate::telemetry::observer::{Observation, Observer, StatusHandle};
    pub use crate::telemetry::status::Progress;
    pub use crate::transport::client::{FinishedRequest, RequestObserver, RequestOutcome};
}

pub mod source {
    //! For sources of your own: [`SharedInformer::with_source`](crate::SharedInformer::with_source)
    //! takes any [`ListWatch`].

    pub use crate::decode::frames::{FrameError, StatusCause};
    pub use crate::transport::source::{
        Answer, Body, KubeListWatch, ListRequest, ListWatch, Request, SelectionError, WatchRequest,
    };
}
