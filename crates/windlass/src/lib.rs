//! The facade of Windlass: one dependency, one set of names.
//!
//! It re-exports the crates below it, each as a module, and grows as they do:
//!
//! - [`informer`]: caches of the Kubernetes API that keep themselves up to date, and tell what
//!   changes;
//! - [`indexer`]: what is in such a cache, found by key, namespace, label and whatever else you
//!   declare;
//! - [`manager`]: runs controllers as a service: probes, metrics, leader election, an ordered stop;
//! - [`reconciler`]: the `Reconcile` trait, and a controller that wires informers to a queue;
//! - [`workqueue`]: keys that wait for a worker, with dedup, delays, rate limits and retries.
//!
//! [`prelude`] has the names that nearly every controller needs.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use windlass::prelude::*;
//!
//! /// Every pod that changes becomes a key in the queue.
//! async fn watch_pods(
//!     client: kube::Client,
//!     queue: WorkQueue<ObjectKey>,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let factory = SharedInformerFactory::new(client);
//!     let pods = factory.informer::<Pod>()?;
//!     let keys = queue.clone();
//!     pods.add_handler(move |event: Event<Pod>| {
//!         // Refused only after the queue was shut down, and then nobody wants it.
//!         let _ = keys.add(event.key().clone());
//!     })?;
//!     factory.start();
//!     factory.wait_for_sync().await?; // the cache is complete, and the handler has seen all of it
//!
//!     while let Some(lease) = queue.get().await {
//!         match pods.lister().get(lease.key())? {
//!             Some(pod) => println!("{} is there: {:?}", lease.key(), pod.status),
//!             None => println!("{} is gone", lease.key()),
//!         }
//!         lease.finish();
//!     }
//!     factory.shut_down().await;
//!     Ok(())
//! }
//! ```
//!
//! Features: `rustls` (on by default), for servers that speak TLS; `prometheus`, for
//! metrics on a `prometheus_client` registry; `otel`, for traces by OTLP.

#![forbid(unsafe_code)]

pub use windlass_indexer as indexer;
pub use windlass_informer as informer;
pub use windlass_manager as manager;
pub use windlass_reconciler as reconciler;
pub use windlass_webhook as webhook;
pub use windlass_workqueue as workqueue;

/// The names that nearly every controller needs: `use windlass::prelude::*;`.
pub mod prelude {
    pub use crate::indexer::{Cached, Head, Index, Lister, ObjectKey, Selector};
    pub use crate::informer::{
        ClientStack, Event, FinalState, Handler, HandlerOptions, InformerOptions, SharedInformer,
        SharedInformerFactory, filtered,
    };
    pub use crate::manager::{Manager, Options, TaskContext};
    pub use crate::reconciler::{
        Action, CancellationToken, Controller, Error, Finalize, Finalized, OwnedBy, Predicate,
        Reconcile, RunContext, Watch, reconcile_fn,
    };
    pub use crate::workqueue::{Add, Lease, WorkQueue};
}

/// The code of the README and of the guide, checked as every other example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/guide.md")]
struct Readme;
