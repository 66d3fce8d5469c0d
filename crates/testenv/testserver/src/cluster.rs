//! One handle for both clusters: a test says what it does, not where.

use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Authorization};

use crate::{Error, RealCluster};

/// A cluster to test on: an embedded API server of its own, or the real one of this process.
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
    /// A new embedded API server, with nothing in it but the namespaces that every cluster has.
    pub fn embedded() -> Self {
        Self::on(ApiServer::new())
    }

    /// The same where roles decide, as on the real cluster: [accounts](Self::account) have the
    /// rights that they are given, and no others.
    pub fn embedded_with_roles() -> Self {
        Self::on(ApiServer::builder().authorization(Authorization::Rbac).build())
    }

    /// An embedded API server that was built otherwise, with tokens or a seed.
    pub fn on(server: ApiServer) -> Self {
        Self { servers: Servers::Embedded(server) }
    }

    /// The real control plane of this process, started by whoever asks first. Tests share it: each
    /// works in a [namespace](Self::namespace) of its own.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if its programs are not on this machine; others if it does not start.
    pub async fn real() -> Result<Self, Error> {
        Ok(Self { servers: Servers::Real(RealCluster::shared().await?) })
    }

    /// A real control plane of one's own, for tests that hurt it.
    pub fn on_control_plane(cluster: RealCluster) -> Self {
        Self { servers: Servers::Real(Arc::new(cluster)) }
    }

    /// A new client with all rights. It belongs to the runtime that this is called in.
    ///
    /// # Errors
    /// If the TLS configuration for the real server cannot be made.
    pub fn client(&self) -> Result<kube::Client, Error> {
        match &self.servers {
            Servers::Embedded(server) => Ok(kube::Client::new(server.service(), "default")),
            Servers::Real(cluster) => cluster.client(),
        }
    }

    /// Makes a namespace that nobody else has, and gives its name: `prefix` and a few characters.
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

    /// Forgets all history up to now: old versions get 410.
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

    /// The embedded server, for its faults; `None` on the real cluster.
    pub fn server(&self) -> Option<&ApiServer> {
        match &self.servers {
            Servers::Embedded(server) => Some(server),
            Servers::Real(_) => None,
        }
    }

    /// The real cluster, to hurt it; `None` on the embedded one.
    pub fn control_plane(&self) -> Option<&Arc<RealCluster>> {
        match &self.servers {
            Servers::Embedded(_) => None,
            Servers::Real(cluster) => Some(cluster),
        }
    }
}

/// The variable that asks for the real tier; `cargo xtask test --real` sets it.
pub const REAL_TIER: &str = "WINDLASS_TEST_REAL";

/// Whether tests are to run on the real control plane, too.
///
/// Only where it was asked for: starting it takes seconds. Who asks wants it, so a machine that
/// lacks it then fails the test instead of passing it over.
pub fn real_tier_is_on() -> bool {
    std::env::var_os(REAL_TIER).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Runs a test on the embedded cluster, and then on the real one if [that was asked
/// for](real_tier_is_on).
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
/// If the test does, or if the real cluster was asked for and does not start.
pub async fn on_each_cluster(test: impl AsyncFn(TestCluster)) {
    run_on(TestCluster::embedded(), test).await;
}

/// The same with an embedded cluster where roles decide, as they do on the real one.
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
