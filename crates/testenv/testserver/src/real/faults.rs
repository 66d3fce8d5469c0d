//! What may be done to the servers: kill, stop, pause, start again, and go back in time.
//!
//! A server that was killed or stopped keeps its port and its data, and comes back with both.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::task;

use super::ControlPlane;
use super::pause::Paused;
use super::server::Server;
use super::setup::DATA;
use crate::Error;

/// The state of the whole cluster at one moment, to go back to. It lives at most as long as the
/// cluster.
#[derive(Debug)]
pub struct Snapshot {
    /// A copy of etcd's data, in the cluster's folder.
    folder: TempDir,
}

impl ControlPlane {
    /// Kills the API server: clients see their connections end in the middle of a word.
    ///
    /// It blocks the thread until the process is gone, for some ten milliseconds.
    ///
    /// # Errors
    /// If it is not running.
    pub fn kill_apiserver(&self) -> Result<(), Error> {
        kill(&self.apiserver)
    }

    /// Stops the API server in good order, as an upgrade does: it answers what was asked, then
    /// ends. Dropped half-way, it has been asked to end.
    ///
    /// # Errors
    /// If it is not running, or does not end.
    pub async fn stop_apiserver(&self) -> Result<(), Error> {
        self.apiserver.stop().await
    }

    /// Makes the API server stand still: connections stay open and nothing is answered.
    ///
    /// # Errors
    /// If it is not running.
    pub fn pause_apiserver(&self) -> Result<(), Error> {
        self.apiserver.signal(Signal::SIGSTOP)
    }

    /// Lets the API server go on after a pause.
    ///
    /// # Errors
    /// If it is not running.
    pub fn resume_apiserver(&self) -> Result<(), Error> {
        self.apiserver.signal(Signal::SIGCONT)
    }

    /// Starts the API server again, at the same address, and waits until it is
    /// [ready](Self::ready). Dropped half-way, it has been started.
    ///
    /// # Errors
    /// If it is running, ends, or is not ready in time.
    pub async fn start_apiserver(&self) -> Result<(), Error> {
        self.apiserver.start()?;
        self.ready().await
    }

    /// Kills etcd. What it has answered before is kept.
    ///
    /// It blocks the thread until the process is gone, for some ten milliseconds.
    ///
    /// # Errors
    /// If it is not running.
    pub fn kill_etcd(&self) -> Result<(), Error> {
        kill(&self.etcd)
    }

    /// Stops etcd in good order. Dropped half-way, it has been asked to end.
    ///
    /// # Errors
    /// If it is not running, or does not end.
    pub async fn stop_etcd(&self) -> Result<(), Error> {
        self.etcd.stop().await
    }

    /// Makes etcd stand still: the API server takes requests and waits.
    ///
    /// # Errors
    /// If it is not running.
    pub fn pause_etcd(&self) -> Result<(), Error> {
        self.etcd.signal(Signal::SIGSTOP)
    }

    /// Lets etcd go on after a pause.
    ///
    /// # Errors
    /// If it is not running.
    pub fn resume_etcd(&self) -> Result<(), Error> {
        self.etcd.signal(Signal::SIGCONT)
    }

    /// Starts etcd again, at the same address, and waits until it answers. The API server finds it
    /// by itself, a little later: see [`ready`](Self::ready). Dropped half-way, it has been
    /// started.
    ///
    /// # Errors
    /// If it is running, ends, or is not ready in time.
    pub async fn start_etcd(&self) -> Result<(), Error> {
        self.etcd.start()?;
        self.etcd_ready().await
    }

    /// Remembers the state of the cluster, which goes on afterwards; etcd stands still meanwhile.
    ///
    /// The copy is what etcd would find if it were killed now, and it is made to begin again from
    /// that: it answers a write when its log has the write. Dropped half-way, etcd goes on and
    /// there is no snapshot.
    ///
    /// # Errors
    /// If etcd is not running, or the files cannot be copied.
    pub async fn etcd_snapshot(&self) -> Result<Snapshot, Error> {
        let failed = || Error::system("copy etcd's data");
        let folder = TempDir::with_prefix_in("snapshot-", self.folder()).map_err(failed())?;
        let (from, to) = (self.data(), folder.path().join(DATA));
        let paused = Paused::new(&self.etcd).await?;
        copy(from, to).await.map_err(failed())?;
        drop(paused);
        Ok(Snapshot { folder })
    }

    /// Takes the cluster back to a snapshot of it, as from a backup: versions count on from then,
    /// and may mean something else than they did. All servers are killed and started again, and the
    /// API server is [ready](Self::ready) in the end.
    ///
    /// Dropped half-way, servers are missing; calling it again repairs that.
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
        // Its caches come from the future.
        self.controller_manager.as_ref().map_or(Ok(()), Server::start)
    }

    fn data(&self) -> PathBuf {
        self.folder().join(DATA)
    }
}

fn kill(server: &Server) -> Result<(), Error> {
    // To kill what is not there is more likely a mistake in a test than intended.
    server.check()?;
    server.kill();
    Ok(())
}

/// Copies a folder of some hundred megabytes without holding up the test's runtime.
#[expect(
    clippy::disallowed_methods,
    reason = "it is waited for here; if the waiting ends, it writes into a folder that nobody has"
)]
async fn copy(from: PathBuf, to: PathBuf) -> io::Result<()> {
    task::spawn_blocking(move || copy_folder(&from, &to)).await?
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    // etcd refuses a folder that others can read.
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
