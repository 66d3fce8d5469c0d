//! A Kubernetes cluster in one process: the embedded API server, made-up nodes, and simulated
//! controllers of Deployments, `StatefulSets`, Jobs and Services.
//!
//! It is for tests of operators that need more than stored objects, and for trying things with
//! kubectl (`cargo run -p windlass-cluster`). It starts in milliseconds, needs nothing installed,
//! and runs no containers: pods only report that they run.
//!
//! ```
//! use k8s_openapi::api::core::v1::Node;
//! use kube::api::{Api, ListParams};
//! use windlass_cluster::Cluster;
//!
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::builder().nodes(3).start().await?;
//! let nodes: Api<Node> = Api::all(cluster.client());
//! assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), 3);
//! // … start your operator with a client of its own, create objects, wait for the results.
//! cluster.stop().await?;
//! # Ok(())
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(test()).unwrap();
//! ```
//!
//! Without [`Builder::listen`] there is no socket, and time is tokio's: a test on a paused clock
//! does not wait for rollouts. `crates/testenv/APISERVER.md` and the documentation of
//! [`windlass_workloads`] say what the server and the workloads do, and what they do not.
//!
//! The feature `program`, on by default, builds the program of the same name. Libraries turn it
//! off, because it selects a version of the Kubernetes types. It includes the feature `kubectl`,
//! which adds what only kubectl needs from the API server.
//!
//! Reading order: `cluster` (the handle), `builder` (its settings), `credentials` (how the
//! controllers authenticate), `greeting` (the output of the program).

#![forbid(unsafe_code)]

mod builder;
mod cluster;
mod credentials;
#[cfg(feature = "program")]
mod greeting;

/// The embedded API server: its builder, its faults, its rules.
pub use windlass_apiserver as apiserver;

pub use builder::Builder;
pub use cluster::{Cluster, ClusterError};
#[cfg(feature = "program")]
pub use greeting::greeting;
