//! The handle of a running cluster.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::{ApiServer, Kubeconfig, Listening, TlsError};
use windlass_workloads::WorkloadsError;

use crate::builder::Builder;
use crate::credentials::client;

/// A cluster in this process. Dropping it stops it at once.
#[must_use]
pub struct Cluster {
    pub(crate) server: ApiServer,
    /// The bearer token, if the server requires one.
    pub(crate) token: Option<String>,
    pub(crate) listening: Option<Listening>,
    pub(crate) kubeconfig: Option<Kubeconfig>,
    pub(crate) stop: CancellationToken,
    /// The controllers.
    pub(crate) running: JoinSet<Result<(), WorkloadsError>>,
}

/// Hides the token, which is a secret.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("url", &self.url())
            .field("kubeconfig", &self.kubeconfig)
            .finish_non_exhaustive()
    }
}

/// Why a cluster does not start, or has stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The certificate cannot be created.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The kubeconfig cannot be written or removed.
    #[error("the kubeconfig {} cannot be written or removed", path.display())]
    Kubeconfig {
        /// The path; empty for a temporary folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The controllers have failed.
    #[error(transparent)]
    Workloads(#[from] WorkloadsError),
    /// The controllers have panicked.
    #[error("the controllers have panicked")]
    Panicked,
}

impl Cluster {
    /// Returns a builder with the default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns a new in-process client with all rights. It uses no socket.
    pub fn client(&self) -> Client {
        client(&self.server, self.token.as_deref())
    }

    /// Returns the API server, for faults, snapshots and compaction.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Returns the URL of the API server; `None` without [`listen`](Builder::listen).
    pub fn url(&self) -> Option<String> {
        self.listening.as_ref().map(Listening::url)
    }

    /// Returns the path of the kubeconfig, which is removed with the cluster. `None` without
    /// [`listen`](Builder::listen).
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_ref().map(Kubeconfig::path)
    }

    /// Waits until the controllers end, which only a failure makes them do. Returns that failure.
    ///
    /// Cancel safety: dropped half-way, nothing is lost.
    ///
    /// # Errors
    /// The failure of the controllers.
    pub async fn wait_for_end(&mut self) -> Result<(), ClusterError> {
        let Some(ended) = self.running.join_next().await else { return Ok(()) };
        Ok(ended.map_err(|_| ClusterError::Panicked)??)
    }

    /// Stops everything: the controllers finish their current runs, connections are closed, and the
    /// kubeconfig is removed.
    ///
    /// Cancel safety: dropped half-way, everything stops at once.
    ///
    /// # Errors
    /// If the controllers have failed before, or the kubeconfig cannot be removed.
    pub async fn stop(mut self) -> Result<(), ClusterError> {
        self.stop.cancel();
        let ended = self.wait_for_end().await;
        if let Some(listening) = self.listening.take() {
            listening.stop().await;
        }
        if let Some(kubeconfig) = self.kubeconfig.take() {
            let path = kubeconfig.path().to_owned();
            kubeconfig.remove().map_err(|error| ClusterError::Kubeconfig { path, error })?;
        }
        ended
    }
}
