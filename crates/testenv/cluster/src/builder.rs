//! The settings of a cluster, and how it starts.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::{ApiServer, Kubeconfig, Listening, Tls, User};
use windlass_informer::SharedInformerFactory;
use windlass_workloads::{RUN_TIME, START_DELAY, Workloads};

use crate::cluster::{Cluster, ClusterError};
use crate::credentials::client;

/// Configures and starts a [`Cluster`].
#[derive(Clone)]
#[must_use]
pub struct Builder {
    server: windlass_apiserver::Builder,
    token: Option<String>,
    nodes: u32,
    start_delay: Duration,
    run_time: Duration,
    address: Option<SocketAddr>,
    has_tls: bool,
    kubeconfig: Option<PathBuf>,
}

/// Hides the token, which is a secret.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("nodes", &self.nodes)
            .field("address", &self.address)
            .field("has_tls", &self.has_tls)
            .finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            server: ApiServer::builder(),
            token: None,
            nodes: 1,
            start_delay: START_DELAY,
            run_time: RUN_TIME,
            address: None,
            has_tls: false,
            kubeconfig: None,
        }
    }
}

impl Builder {
    /// Sets the builder of the API server: seed, clock, tokens, access rules. Default:
    /// [`ApiServer::builder`]. Every namespace gets the service account `default`.
    pub fn server(self, server: windlass_apiserver::Builder) -> Self {
        Self { server, ..self }
    }

    /// Sets the bearer token of the controllers, [`Cluster::client`] and the kubeconfig. The
    /// [server](Self::server) has to know it, and to grant its user all rights. Default: no token,
    /// for a server without authentication.
    pub fn token(self, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..self }
    }

    /// Sets the number of nodes, named `node-1` and so on. Default: 1. With 0, every pod is
    /// assigned to a node name for which there is no Node object.
    pub fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// Sets how long a pod takes to become ready. Default: 100 ms.
    pub fn start_delay(self, start_delay: Duration) -> Self {
        Self { start_delay, ..self }
    }

    /// Sets how long a pod runs that is meant to end, such as one of a Job. Default: 100 ms.
    pub fn run_time(self, run_time: Duration) -> Self {
        Self { run_time, ..self }
    }

    /// Listens on this address; port 0 picks a free one. Default: no socket. Without
    /// [`tls`](Self::tls), use a loopback address.
    pub fn listen(self, address: SocketAddr) -> Self {
        Self { address: Some(address), ..self }
    }

    /// Serves TLS with a generated certificate; the kubeconfig contains its authority. Default:
    /// off. Without [`listen`](Self::listen), it listens on a free port of 127.0.0.1; without
    /// [`token`](Self::token), it generates a random one.
    pub fn tls(self) -> Self {
        Self { has_tls: true, ..self }
    }

    /// Sets the path of the kubeconfig: a new file, removed when the cluster ends. An existing file
    /// is not overwritten. Default: in a new temporary folder.
    pub fn kubeconfig(self, path: impl Into<PathBuf>) -> Self {
        Self { kubeconfig: Some(path.into()), ..self }
    }

    /// Starts the cluster, and returns when its nodes exist. The cluster belongs to the calling
    /// runtime.
    ///
    /// Cancel safety: dropped half-way, everything stops at once.
    ///
    /// # Errors
    /// If the address cannot be listened on, the kubeconfig cannot be written, or there are too
    /// many nodes.
    pub async fn start(mut self) -> Result<Cluster, ClusterError> {
        if self.has_tls && self.token.is_none() {
            let (token, owner) = (Tls::random_token()?, User::named("windlass"));
            self.server = self.server.token(&token, owner.group("system:masters"));
            self.token = Some(token);
        }
        let server = self.server.clone().default_accounts(true).build();
        let listening = self.serve(&server).await?;
        let factory = SharedInformerFactory::new(client(&server, self.token.as_deref()));
        let workloads = Workloads::new(&factory)
            .nodes(self.nodes)
            .start_delay(self.start_delay)
            .run_time(self.run_time);
        workloads.register_nodes().await?;
        // The last fallible step: a later failure would leave the file behind.
        let kubeconfig = listening.as_ref().map(|listening| self.write_kubeconfig(listening));
        let kubeconfig = kubeconfig.transpose()?;
        let stop = CancellationToken::new();
        let mut running = JoinSet::new();
        running.spawn(workloads.run(stop.clone()));
        Ok(Cluster { server, token: self.token, listening, kubeconfig, stop, running })
    }

    async fn serve(&self, server: &ApiServer) -> Result<Option<Listening>, ClusterError> {
        let address = self.address.or_else(|| self.has_tls.then(|| ([127, 0, 0, 1], 0).into()));
        let Some(address) = address else { return Ok(None) };
        let listening = if self.has_tls {
            server.listen_tls(address, &Tls::generate(address.ip())?).await
        } else {
            server.listen(address).await
        };
        listening.map(Some).map_err(|error| ClusterError::Listen { address, error })
    }

    fn write_kubeconfig(&self, listening: &Listening) -> Result<Kubeconfig, ClusterError> {
        let token = self.token.as_deref();
        let written = match &self.kubeconfig {
            Some(path) => listening.write_kubeconfig(path, token),
            None => listening.temporary_kubeconfig(token),
        };
        let path = self.kubeconfig.clone().unwrap_or_default();
        written.map_err(|error| ClusterError::Kubeconfig { path, error })
    }
}
