//! A real kube-apiserver with etcd, and on request kube-controller-manager, for one test process.
//!
//! Everything runs on loopback, in a temporary folder, with certificates and tokens of its own.
//! Reading order:
//!
//! - [`options`]: what a test may ask for;
//! - [`assets`]: where the programs are;
//! - [`supervisor`]: a process, and a folder, that do not outlive this process;
//! - [`server`]: one of the programs, started and stopped as often as wanted;
//! - [`setup`]: files, ports and flags that make three servers one cluster;
//! - [`ready`]: when it may be used; [`faults`]: what may be done to it; [`etcd`]: etcd's own API;
//! - [`users`]: users with certificates of their own; [`audit`]: who wrote what;
//! - [`shared`]: one cluster for all tests of a process.
//!
//! The handle holds no task, timer or connection, so it belongs to no runtime: tests with runtimes
//! of their own can share it, and each asks it for a client of its own. It knows only the real
//! clock: a test on a paused clock would see every wait end at once.

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

/// A running control plane. Dropping it ends its servers and removes their files.
///
/// It also ends, within milliseconds, when this process does, however that happens.
#[derive(Debug)]
pub struct ControlPlane {
    // The order is the one of dropping: who asks goes before who answers, and the files go last.
    controller_manager: Option<Server>,
    apiserver: Server,
    etcd: Server,
    access: Access,
    folder: Folder,
}

/// The process ids of the servers that run, to measure what they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pids {
    /// Of etcd.
    pub etcd: Option<u32>,
    /// Of kube-apiserver.
    pub apiserver: Option<u32>,
    /// Of kube-controller-manager.
    pub controller_manager: Option<u32>,
}

impl ControlPlane {
    /// Starts a control plane and returns when it is [ready](Self::ready), after three to four
    /// seconds.
    ///
    /// Dropped half-way, it leaves nothing behind.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if this machine lacks a program. Otherwise something is wrong: files
    /// cannot be written, a server ends, or is not ready in time; then the error has the end of its
    /// log.
    pub async fn start(options: ControlPlaneOptions) -> Result<Self, Error> {
        let cluster = setup::prepare(&options)?;
        // One after the other: a client of etcd that comes too early waits a second before it tries
        // again.
        cluster.start_etcd().await?;
        cluster.start_apiserver().await?;
        if let Some(controller_manager) = &cluster.controller_manager {
            controller_manager.start()?;
        }
        Ok(cluster)
    }

    /// A new client with all rights. It belongs to the runtime that this is called in, and has to
    /// be called in one.
    ///
    /// # Errors
    /// If the TLS configuration cannot be made.
    pub fn client(&self) -> Result<kube::Client, Error> {
        self.client_as(self.admin_token())
    }

    /// A new client with this bearer token, as [`client`](Self::client) is with the
    /// administrator's.
    ///
    /// # Errors
    /// If the TLS configuration cannot be made.
    pub fn client_as(&self, token: &str) -> Result<kube::Client, Error> {
        Ok(kube::Client::try_from(self.config_as(token))?)
    }

    /// What a client with all rights needs to know.
    pub fn config(&self) -> kube::Config {
        self.config_as(self.admin_token())
    }

    /// What a client with this bearer token needs to know.
    pub fn config_as(&self, token: &str) -> kube::Config {
        let mut config = kube::Config::new(self.access.url.clone());
        config.root_cert = Some(vec![self.access.authority.der.clone()]);
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        config
    }

    /// The kubeconfig of a user with all rights, for `kubectl` and other programs.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.access.kubeconfig
    }

    /// The token of a user in the group `system:masters`, who may do everything.
    pub fn admin_token(&self) -> &str {
        &self.access.admin_token
    }

    /// The token of the user `bob`, who has an identity and no rights: answers are 403.
    pub fn powerless_token(&self) -> &str {
        &self.access.powerless_token
    }

    /// The folder with everything that this cluster writes, like `kube-apiserver.log`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process ids of the servers that run.
    pub fn pids(&self) -> Pids {
        Pids {
            etcd: self.etcd.pid(),
            apiserver: self.apiserver.pid(),
            controller_manager: self.controller_manager.as_ref().and_then(Server::pid),
        }
    }
}
