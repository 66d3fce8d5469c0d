//! A Kubernetes cluster for tests behind one handle: embedded, or a real kube-apiserver with etcd.
//!
//! A test asks for a [`TestServer`] and runs on the embedded API server by default: in
//! milliseconds, with nothing installed, with faults on demand ([`TestServer::server`]). On
//! request, the same test also runs on a real kube-apiserver ([`on_each_server`],
//! `cargo xtask test --real`). The real one can be killed, stopped, paused, and restored from a
//! snapshot ([`TestServer::control_plane`]).
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, ListParams, PostParams};
//! use windlass_testserver::TestServer;
//! use windlass_testserver::apiserver::{Fault, FaultRule};
//!
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = TestServer::embedded();
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
//! [`TestServer::account`] creates a service account that has only the rights it is granted, to
//! test code that will run with a Role. [`Log`] captures what a test logs.
//!
//! A binary or test that uses this crate selects the version of the Kubernetes types, by a feature
//! of `k8s-openapi` such as `latest`; libraries select none.
//!
//! Reading order: `test_server`, `twins`, `account`, then `real` and its modules.

#![forbid(unsafe_code)]

mod account;
mod error;
mod log;
mod real;
mod test_server;
mod twins;

/// The embedded API server: its builder, its faults, its rules.
pub use windlass_apiserver as apiserver;

pub use account::Account;
pub use error::Error;
pub use log::Log;
pub use real::{
    AuditRecord, AuditStage, CLEANUP_CONTROLLERS, ControlPlane, ControlPlaneOptions, ETCD_VERSION,
    KUBERNETES_VERSION, Pids, Snapshot, User, WORKLOAD_CONTROLLERS, free_port, go_program, kubectl,
};
pub use test_server::TestServer;
