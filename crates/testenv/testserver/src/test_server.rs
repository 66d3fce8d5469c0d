//! One handle for both servers, so that a test does not depend on where it runs.

use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Authorization};

use crate::{ControlPlane, Error};

/// A cluster for tests: an embedded API server of its own, or the real one that this process
/// shares.
///
/// ```
/// # async fn test() -> Result<(), windlass_testserver::Error> {
/// use windlass_testserver::TestServer;
///
/// let cluster = TestServer::embedded();
/// let client = cluster.client()?;
/// let namespace = cluster.namespace("docs").await?;
/// # drop((client, namespace));
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(test()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct TestServer {
    servers: Servers,
}

#[derive(Debug, Clone)]
enum Servers {
    Embedded(ApiServer),
    Real(Arc<ControlPlane>),
}

impl TestServer {
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
        Ok(Self { servers: Servers::Real(ControlPlane::shared().await?) })
    }

    /// Uses a separate real control plane, for tests that inject faults.
    pub fn on_control_plane(cluster: ControlPlane) -> Self {
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

    /// Returns the real control plane, for its faults; `None` on the embedded server.
    pub fn control_plane(&self) -> Option<&Arc<ControlPlane>> {
        match &self.servers {
            Servers::Embedded(_) => None,
            Servers::Real(cluster) => Some(cluster),
        }
    }
}
