//! A server in processes of its own, until it is dropped.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use windlass_testserver::{ControlPlane, ControlPlaneOptions};

use crate::Who;

/// A server that runs.
#[derive(Debug)]
pub(crate) enum Server {
    /// Ours.
    Embedded(Embedded),
    /// kube-apiserver with etcd.
    Real(Box<ControlPlane>),
}

/// The program `windlass-apiserver`.
#[derive(Debug)]
pub(crate) struct Embedded {
    child: Child,
    /// Kept open: a program whose output nobody takes any more may end.
    output: BufReader<ChildStdout>,
    kubeconfig: PathBuf,
    _folder: TempDir,
}

impl Server {
    /// Starts it, and returns when it can be asked.
    pub(crate) async fn start(who: Who) -> Result<Self> {
        match who {
            Who::Embedded => Ok(Self::Embedded(Embedded::start()?)),
            Who::Real => {
                Ok(Self::Real(Box::new(ControlPlane::start(ControlPlaneOptions::new()).await?)))
            }
            Who::InProcess => bail!("this case needs a server with a process of its own"),
        }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        match self {
            Self::Embedded(server) => &server.kubeconfig,
            Self::Real(cluster) => cluster.kubeconfig_path(),
        }
    }

    /// The API server's process, and then those that work for it.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match self {
            Self::Embedded(server) => vec![server.child.id()],
            Self::Real(cluster) => {
                let pids = cluster.pids();
                pids.apiserver.into_iter().chain(pids.etcd).collect()
            }
        }
    }
}

impl Embedded {
    fn start() -> Result<Self> {
        let own = std::env::current_exe().context("the path of this program is not known")?;
        let program = own.with_file_name("windlass-apiserver");
        let folder = TempDir::new().context("no temporary folder")?;
        let kubeconfig = folder.path().join("kubeconfig");
        // kube-apiserver logs no requests by default, so ours logs none here.
        let mut child = Command::new(&program)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .env("RUST_LOG", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} could not be started", program.display()))?;
        let output = child.stdout.take().context("the output was piped")?;
        let output = BufReader::new(output);
        let mut server = Self { child, output, kubeconfig, _folder: folder };
        // The first thing that it says is where it listens. It says little more than that, so the
        // rest of it fits into the pipe.
        let mut line = String::new();
        server.output.read_line(&mut line).context("it could not be read")?;
        if !line.contains("http://") {
            bail!("{} said {line:?} instead of its address", program.display());
        }
        Ok(server)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client for the server that this file describes.
pub(crate) async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let parsed = Kubeconfig::read_from(kubeconfig)?;
    let config =
        kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}
