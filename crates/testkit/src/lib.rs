//! A Kubernetes cluster for tests behind one handle: embedded, or a real kube-apiserver with etcd.
//!
//! A test asks for a [`TestCluster`] and runs on the embedded API server by default: in milliseconds, with
//! nothing installed, with faults on demand ([`TestCluster::server`]). The same test runs on a real
//! kube-apiserver where that is asked for ([`on_each_cluster`], `cargo xtask test --real`), and there the
//! real one can be hurt ([`TestCluster::control_plane`]): killed, stopped, paused, restored from a snapshot.
//!
//! Reading order: [`mod@cluster`], then `real` and what is below it.

pub mod cluster;
mod error;
mod real;

pub use cluster::{TestCluster, on_each_cluster};
pub use error::Error;
pub use real::{
    CLEANUP_CONTROLLERS, ETCD_VERSION, KUBERNETES_VERSION, Pids, RealCluster, RealOptions,
    Snapshot, WORKLOAD_CONTROLLERS,
};
