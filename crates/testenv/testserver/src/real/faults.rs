//! Faults of the real cluster: kill, stop, pause or restart its servers, and restore a snapshot.
//!
//! A killed or stopped server keeps its port and its data, and restarts with both.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::task;

use super::ControlPlane;
use super::pause::PauseGuard;
use super::server::Server;
use super::setup::DATA;
use crate::Error;

/// The state of the whole cluster at one moment, to restore later. Its files live at most as long
/// as the cluster.
#[derive(Debug)]
pub struct Snapshot {
    /// A copy of etcd's data, in the cluster's folder.
    folder: TempDir,
}

impl ControlPlane {
    /// Kills the API server: clients see their connections break off.
    ///
    /// Blocks the thread until the process is gone, for some ten milliseconds.
    ///
    /// # Errors
    /// If it is not running.
    pub fn kill_apiserver(&self) -> Result<(), Error> {
        kill(&self.apiserver)
    }

    /// Stops the API server gracefully, as an upgrade does: it answers pending requests, then ends.
    /// Dropped half-way, it has been asked to end.
    ///
    /// # Errors
    /// If it is not running, or does not end.
    pub async fn stop_apiserver(&self) -> Result<(), Error> {
        self.apiserver.stop().await
    }

    /// Pauses the API server: connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// If it is not running.
    pub fn pause_apiserver(&self) -> Result<(), Error> {
        self.apiserver.signal(Signal::SIGSTOP)
    }

    /// Resumes the API server after a pause.
    ///
    /// # Errors
    /// If it is not running.
    pub fn resume_apiserver(&self) -> Result<(), Error> {
        self.apiserver.signal(Signal::SIGCONT)
    }

    /// Restarts the API server at the same address, and waits until it is [ready](Self::ready).
    /// Dropped half-way, it has been started.
    ///
    /// # Errors
    /// If it is running, ends, or is not ready in time.
    pub async fn start_apiserver(&self) -> Result<(), Error> {
        self.apiserver.start()?;
        self.ready().await
    }

    /// Kills etcd. Acknowledged writes are kept.
    ///
    /// Blocks the thread until the process is gone, for some ten milliseconds.
    ///
    /// # Errors
    /// If it is not running.
    pub fn kill_etcd(&self) -> Result<(), Error> {
        kill(&self.etcd)
    }

    /// Stops etcd gracefully. Dropped half-way, it has been asked to end.
    ///
    /// # Errors
    /// If it is not running, or does not end.
    pub async fn stop_etcd(&self) -> Result<(), Error> {
        self.etcd.stop().await
    }

    /// Pauses etcd: the API server accepts requests, and they wait.
    ///
    /// # Errors
    /// If it is not running.
    pub fn pause_etcd(&self) -> Result<(), Error> {
        self.etcd.signal(Signal::SIGSTOP)
    }

    /// Resumes etcd after a pause.
    ///
    /// # Errors
    /// If it is not running.
    pub fn resume_etcd(&self) -> Result<(), Error> {
        self.etcd.signal(Signal::SIGCONT)
    }

    /// Restarts etcd at the same address, and waits until it answers. The API server reconnects by
    /// itself, a little later: see [`ready`](Self::ready). Dropped half-way, it has been started.
    ///
    /// # Errors
    /// If it is running, ends, or is not ready in time.
    pub async fn start_etcd(&self) -> Result<(), Error> {
        self.etcd.start()?;
        self.etcd_ready().await
    }

    /// Takes a snapshot of the running cluster. etcd is paused meanwhile.
    ///
    /// The copy is the state that etcd would find after a kill, which it can recover from: it
    /// acknowledges a write only once its log contains it. Dropped half-way, etcd is resumed and
    /// there is no snapshot.
    ///
    /// # Errors
    /// If etcd is not running, or the files cannot be copied.
    pub async fn etcd_snapshot(&self) -> Result<Snapshot, Error> {
        let failed = || Error::system("copy etcd's data");
        let folder = TempDir::with_prefix_in("snapshot-", self.folder()).map_err(failed())?;
        let (from, to) = (self.data(), folder.path().join(DATA));
        let paused = PauseGuard::new(&self.etcd).await?;
        copy(from, to).await.map_err(failed())?;
        drop(paused);
        Ok(Snapshot { folder })
    }

    /// Restores a snapshot of this cluster, as from a backup. Resource versions continue from the
    /// snapshot, so the same version can be assigned twice, to different states. All servers are
    /// killed and restarted; in the end the API server is [ready](Self::ready).
    ///
    /// Dropped half-way, some servers are not running; calling it again repairs that.
    ///
    /// # Errors
    /// If files cannot be copied, or a server does not start.
    pub async fn restore(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let servers = self.controller_manager.iter().chain([&self.apiserver, &self.etcd]);
        servers.for_each(Server::kill);
        let data = self.data();
        match fs::remove_dir_all(&data) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => copy(snapshot.folder.path().join(DATA), data).await,
        }
        .map_err(Error::system("put etcd's data back"))?;
        self.start_etcd().await?;
        self.start_apiserver().await?;
        // Restarted, because its caches contain versions newer than the snapshot.
        self.controller_manager.as_ref().map_or(Ok(()), Server::start)
    }

    fn data(&self) -> PathBuf {
        self.folder().join(DATA)
    }
}

fn kill(server: &Server) -> Result<(), Error> {
    // Killing a server that is not running is more likely a mistake in a test than intended.
    server.check()?;
    server.kill();
    Ok(())
}

/// Copies a folder of some hundred megabytes without blocking the test's runtime.
#[expect(
    clippy::disallowed_methods,
    reason = "it is waited for here; if the waiting ends, it writes into a folder that nobody has"
)]
async fn copy(from: PathBuf, to: PathBuf) -> io::Result<()> {
    task::spawn_blocking(move || copy_folder(&from, &to)).await?
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    // etcd refuses a folder that other users can read.
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
