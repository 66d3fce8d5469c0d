//! A Kubernetes cluster for tests behind one handle: embedded, or a real kube-apiserver with etcd.
//!
//! A test asks for a [`TestCluster`] and runs on the embedded API server by default: in
//! milliseconds, with nothing installed, with faults on demand ([`TestCluster::server`]). The same
//! test runs on a real kube-apiserver where that is asked for ([`on_each_cluster`],
//! `cargo xtask test --real`), and there the real one can be hurt ([`TestCluster::control_plane`]):
//! killed, stopped, paused, restored from a snapshot.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, ListParams, PostParams};
//! use windlass_testkit::TestCluster;
//! use windlass_testkit::apiserver::{Fault, FaultRule};
//!
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = TestCluster::embedded();
//! let api: Api<ConfigMap> = Api::default_namespaced(cluster.client()?);
//! let mut object = ConfigMap::default();
//! object.metadata.name = Some("settings".to_owned());
//! api.create(&PostParams::default(), &object).await?;
//!
//! // The next list fails with 503, once.
//! let server = cluster.server().expect("this cluster is embedded");
//! let refusal = Fault::Fail { code: 503, retry_after: None };
//! server.faults().add(FaultRule::new(refusal).verb("list").times(1));
//! assert!(api.list(&ListParams::default()).await.is_err());
//! assert_eq!(api.list(&ListParams::default()).await?.items.len(), 1);
//! # Ok(())
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(test()).unwrap();
//! ```
//!
//! Code that will run with a Role can be tested with it: [`TestCluster::account`] makes a service
//! account that has the rights it is given, and no others. [`Log`] is what a test logged.
//!
//! A binary or test that uses this crate chooses the version of Kubernetes' types, by a feature of
//! `k8s-openapi` such as `latest`; libraries choose none.
//!
//! Reading order: [`mod@cluster`], `account`, then `real` and what is below it.

#![forbid(unsafe_code)]

mod account;
pub mod cluster;
mod error;
mod log;
mod real;

/// The embedded API server: its builder, its faults, its rules.
pub use windlass_apiserver as apiserver;

pub use account::Account;
pub use cluster::{TestCluster, on_each_cluster, on_each_cluster_with_roles};
pub use error::Error;
pub use log::Log;
pub use real::{
    AuditRecord, AuditStage, CLEANUP_CONTROLLERS, ETCD_VERSION, KUBERNETES_VERSION, Pids,
    RealCluster, RealOptions, Snapshot, User, WORKLOAD_CONTROLLERS, free_port, go_program, kubectl,
};
