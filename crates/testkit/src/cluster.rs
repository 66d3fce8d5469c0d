//! One handle for both clusters, so that a test does not depend on where it runs.

use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Authorization};

use crate::{Error, RealCluster};

/// A cluster for tests: an embedded API server of its own, or the real one that this process
/// shares.
///
/// ```
/// # async fn test() -> Result<(), windlass_testkit::Error> {
/// use windlass_testkit::TestCluster;
///
/// let cluster = TestCluster::embedded();
/// let client = cluster.client()?;
/// let namespace = cluster.namespace("docs").await?;
/// # drop((client, namespace));
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(test()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct TestCluster {
    servers: Servers,
}

#[derive(Debug, Clone)]
enum Servers {
    Embedded(ApiServer),
    Real(Arc<RealCluster>),
}

impl TestCluster {
    /// Creates an embedded API server that contains only the default namespaces.
    pub fn embedded() -> Self {
        Self::on(ApiServer::new())
    }

    /// Creates an embedded API server that enforces roles, as the real cluster does:
    /// [accounts](Self::account) have only the rights that they are granted.
    pub fn embedded_with_roles() -> Self {
        Self::on(ApiServer::builder().authorization(Authorization::Rbac).build())
    }

    /// Uses an embedded API server with settings of its own, such as tokens or a seed.
    pub fn on(server: ApiServer) -> Self {
        Self { servers: Servers::Embedded(server) }
    }

    /// Returns the real control plane of this process, which the first caller starts. Tests share
    /// it: each works in a [namespace](Self::namespace) of its own.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if its programs are not on this machine; others if it fails to start.
    pub async fn real() -> Result<Self, Error> {
        Ok(Self { servers: Servers::Real(RealCluster::shared().await?) })
    }

    /// Uses a separate real control plane, for tests that inject faults.
    pub fn on_control_plane(cluster: RealCluster) -> Self {
        Self { servers: Servers::Real(Arc::new(cluster)) }
    }

    /// Creates a client with all rights. It belongs to the calling runtime.
    ///
    /// # Errors
    /// If the TLS configuration for the real server cannot be created.
    pub fn client(&self) -> Result<kube::Client, Error> {
        match &self.servers {
            Servers::Embedded(server) => Ok(kube::Client::new(server.service(), "default")),
            Servers::Real(cluster) => cluster.client(),
        }
    }

    /// Creates a namespace with a unique name, `prefix` and a few characters, and returns the name.
    ///
    /// # Errors
    /// If the cluster refuses it.
    pub async fn namespace(&self, prefix: &str) -> Result<String, Error> {
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"generateName": format!("{prefix}-")},
        });
        let request = Request::post("/api/v1/namespaces")
            .header("content-type", "application/json")
            .body(namespace.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        let made: Value = self.client()?.request(request).await?;
        Ok(made["metadata"]["name"].as_str().unwrap_or_default().to_owned())
    }

    /// Compacts the history up to now: reads of old versions get 410.
    ///
    /// # Errors
    /// If etcd of the real cluster does not answer.
    pub async fn compact(&self) -> Result<(), Error> {
        match &self.servers {
            Servers::Embedded(server) => server.compact(),
            Servers::Real(cluster) => drop(cluster.compact().await?),
        }
        Ok(())
    }

    /// Returns the embedded server, for its faults; `None` on the real cluster.
    pub fn server(&self) -> Option<&ApiServer> {
        match &self.servers {
            Servers::Embedded(server) => Some(server),
            Servers::Real(_) => None,
        }
    }

    /// Returns the real cluster, for its faults; `None` on the embedded one.
    pub fn control_plane(&self) -> Option<&Arc<RealCluster>> {
        match &self.servers {
            Servers::Embedded(_) => None,
            Servers::Real(cluster) => Some(cluster),
        }
    }
}

/// The variable that enables the real tier; `cargo xtask test --real` sets it.
pub const REAL_TIER: &str = "WINDLASS_TEST_REAL";

/// Returns whether tests should also run on the real control plane.
///
/// It is opt-in: starting it takes seconds. If it was requested but is not on this machine, tests
/// fail instead of being skipped.
pub fn real_tier_is_on() -> bool {
    std::env::var_os(REAL_TIER).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Runs a test on the embedded cluster, and then on the real one if [requested](real_tier_is_on).
///
/// ```no_run
/// # async fn test() {
/// windlass_testkit::on_each_cluster(async |cluster| {
///     let namespace = cluster.namespace("example").await.expect("a namespace");
///     // … the same on both
/// })
/// .await;
/// # }
/// ```
///
/// # Panics
/// If the test panics, or if the real cluster was requested and fails to start.
pub async fn on_each_cluster(test: impl AsyncFn(TestCluster)) {
    run_on(TestCluster::embedded(), test).await;
}

/// Like [`on_each_cluster`], with an embedded cluster that enforces roles, as the real one does.
///
/// # Panics
/// As [`on_each_cluster`].
pub async fn on_each_cluster_with_roles(test: impl AsyncFn(TestCluster)) {
    run_on(TestCluster::embedded_with_roles(), test).await;
}

async fn run_on(embedded: TestCluster, test: impl AsyncFn(TestCluster)) {
    test(embedded).await;
    if !real_tier_is_on() {
        println!("skipped on a real kube-apiserver: run `cargo xtask test --real`");
        return;
    }
    match TestCluster::real().await {
        Ok(cluster) => test(cluster).await,
        Err(error) => panic!("{REAL_TIER} is set, but there is no real cluster: {error}"),
    }
}
