//! One handle for both servers: a test says what it does, not where.

use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Authorization};

use crate::{ControlPlane, Error};

/// A cluster to test on: an embedded API server of its own, or the real one of this process.
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
        Ok(Self { servers: Servers::Real(ControlPlane::shared().await?) })
    }

    /// A real control plane that this test does not share, for tests that inject faults.
    pub fn on_control_plane(cluster: ControlPlane) -> Self {
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

    /// The real control plane, to inject faults; `None` on the embedded server.
    pub fn control_plane(&self) -> Option<&Arc<ControlPlane>> {
        match &self.servers {
            Servers::Embedded(_) => None,
            Servers::Real(cluster) => Some(cluster),
        }
    }
}
