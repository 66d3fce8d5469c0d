//! A real kube-apiserver with etcd, and on request kube-controller-manager, for one test process.
//!
//! Everything runs on loopback, in a temporary folder, with certificates and tokens of its own.
//! Reading order:
//!
//! - [`options`]: what a test can configure;
//! - [`assets`]: where the programs are;
//! - [`supervisor`]: processes and folders that do not outlive this process;
//! - [`server`]: one of the programs, started and stopped any number of times;
//! - [`setup`]: files, ports and flags that make three servers one cluster;
//! - [`ready`]: waiting for readiness; [`faults`]: faults; [`etcd`]: etcd's own API;
//! - [`users`]: users with client certificates; [`audit`]: the audit log;
//! - [`shared`]: one cluster for all tests of a process.
//!
//! The handle holds no task, timer or connection, so it belongs to no runtime: tests with runtimes
//! of their own can share it, and each creates its own client. It uses the real clock: on a paused
//! clock, every wait would end at once.

mod assets;
mod audit;
mod certificates;
mod etcd;
mod faults;
mod options;
mod pause;
mod ports;
mod ready;
mod server;
mod setup;
mod shared;
mod supervisor;
mod users;

use std::path::Path;

use kube::config::AuthInfo;

use crate::Error;
pub use assets::{ETCD_VERSION, KUBERNETES_VERSION, go_program, kubectl};
pub use audit::{AuditRecord, AuditStage};
pub use faults::Snapshot;
pub use options::{CLEANUP_CONTROLLERS, ControlPlaneOptions, WORKLOAD_CONTROLLERS};
pub use ports::free_port;
use server::Server;
use setup::Access;
use supervisor::Folder;
pub use users::User;

/// A running control plane. Dropping it ends its servers and removes their files. They also end,
/// within milliseconds, when this process does, however that happens.
#[derive(Debug)]
pub struct ControlPlane {
    // The drop order: clients go before the servers that they use, and the files go last.
    controller_manager: Option<Server>,
    apiserver: Server,
    etcd: Server,
    access: Access,
    folder: Folder,
}

/// The process ids of the running servers, to measure their resource usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pids {
    /// The process id of etcd.
    pub etcd: Option<u32>,
    /// The process id of kube-apiserver.
    pub apiserver: Option<u32>,
    /// The process id of kube-controller-manager.
    pub controller_manager: Option<u32>,
}

impl ControlPlane {
    /// Starts a control plane and returns when it is [ready](Self::ready), after three to four
    /// seconds.
    ///
    /// Dropped half-way, it leaves nothing behind.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if this machine lacks a program. Otherwise if files cannot be
    /// written, or a server ends or is not ready in time; then the error has the end of its log.
    pub async fn start(options: ControlPlaneOptions) -> Result<Self, Error> {
        let cluster = setup::prepare(&options)?;
        // One after the other: a client that connects before etcd listens waits a second before it
        // retries.
        cluster.start_etcd().await?;
        cluster.start_apiserver().await?;
        if let Some(controller_manager) = &cluster.controller_manager {
            controller_manager.start()?;
        }
        Ok(cluster)
    }

    /// Creates a client with all rights. Must be called within a runtime, which the client then
    /// belongs to.
    ///
    /// # Errors
    /// If the TLS configuration cannot be created.
    pub fn client(&self) -> Result<kube::Client, Error> {
        self.client_as(self.admin_token())
    }

    /// Creates a client with this bearer token; otherwise like [`client`](Self::client).
    ///
    /// # Errors
    /// If the TLS configuration cannot be created.
    pub fn client_as(&self, token: &str) -> Result<kube::Client, Error> {
        Ok(kube::Client::try_from(self.config_as(token))?)
    }

    /// Returns the configuration of a client with all rights.
    pub fn config(&self) -> kube::Config {
        self.config_as(self.admin_token())
    }

    /// Returns the configuration of a client with this bearer token.
    pub fn config_as(&self, token: &str) -> kube::Config {
        let mut config = kube::Config::new(self.access.url.clone());
        config.root_cert = Some(vec![self.access.authority.der.clone()]);
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        config
    }

    /// Returns the path of the kubeconfig of a user with all rights, for `kubectl` and other
    /// programs.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.access.kubeconfig
    }

    /// Returns the token of a user in the group `system:masters`, which has all rights.
    pub fn admin_token(&self) -> &str {
        &self.access.admin_token
    }

    /// Returns the token of the user `bob`, who has no rights: answers are 403.
    pub fn powerless_token(&self) -> &str {
        &self.access.powerless_token
    }

    /// Returns the folder with everything that this cluster writes, such as `kube-apiserver.log`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the process ids of the running servers.
    pub fn pids(&self) -> Pids {
        Pids {
            etcd: self.etcd.pid(),
            apiserver: self.apiserver.pid(),
            controller_manager: self.controller_manager.as_ref().and_then(Server::pid),
        }
    }
}
