//! One server of the cluster: its command, and its process while it runs.
//!
//! Starting, signalling and killing are synchronous; only waiting for a graceful end is not. The
//! lock guards the process and is held for a few lines, never across an `await`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time;

use super::supervisor::Supervised;
use crate::Error;

/// How many lines of a log an error shows: enough for the reason, few enough to read.
const LOG_LINES: usize = 20;

/// How often to look whether a process has ended. Servers take some ten milliseconds to end.
const END_POLL: Duration = Duration::from_millis(5);

/// How long a server may take to end gracefully. kube-apiserver waits a minute at most for pending
/// requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(70);

/// A program with its flags that can be started any number of times.
#[derive(Debug)]
pub(super) struct Server {
    name: &'static str,
    command: Command,
    folder: PathBuf,
    log: PathBuf,
    /// The process, from its start until its end is noticed.
    process: Mutex<Option<Supervised>>,
}

impl Server {
    /// Creates a server without starting it. It runs in this folder and writes its log there.
    pub(super) fn new(name: &'static str, command: Command, folder: &Path) -> Self {
        Self {
            name,
            command,
            folder: folder.to_owned(),
            log: folder.join(format!("{name}.log")),
            process: Mutex::new(None),
        }
    }

    /// Returns the process id, if it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Supervised::pid)
    }

    /// Starts the process, without waiting until it is ready.
    pub(super) fn start(&self) -> Result<(), Error> {
        let mut process = self.process();
        if process.as_mut().is_some_and(|process| matches!(process.ended(), Ok(None))) {
            return Err(Error::AlreadyRunning { server: self.name });
        }
        let started = Supervised::spawn(&self.command, &self.log, &self.folder);
        *process = Some(started.map_err(Error::system(format!("start {}", self.name)))?);
        Ok(())
    }

    /// Sends a signal to the process, without waiting for its effect.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let mut process = self.process();
        let process = process.as_mut().ok_or(Error::NotRunning { server: self.name })?;
        process.signal(signal).map_err(Error::system(format!("send {signal} to {}", self.name)))
    }

    /// Kills the process, if it runs, and waits until it is gone.
    pub(super) fn kill(&self) {
        // Within the statement below, the lock would be held until the process ends.
        let process = self.process().take();
        drop(process);
    }

    /// Asks the process to end and waits for that. Dropped half-way, it has been asked.
    pub(super) async fn stop(&self) -> Result<(), Error> {
        self.signal(Signal::SIGTERM)?;
        // A paused process handles the signal only once it is resumed.
        self.signal(Signal::SIGCONT)?;
        let ended = time::timeout(STOP_TIMEOUT, async {
            while self.status()?.is_none() {
                time::sleep(END_POLL).await;
            }
            self.kill();
            Ok(())
        });
        ended.await.unwrap_or_else(|_| {
            Err(Error::system(format!("stop {}", self.name))(io::ErrorKind::TimedOut.into()))
        })
    }

    /// Checks that the process runs.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.status()? {
            None => Ok(()),
            Some(status) => Err(Error::Ended { server: self.name, status, log: self.end_of_log() }),
        }
    }

    /// Returns the error of a server that runs but is not ready.
    pub(super) fn not_ready(&self, waited: Duration, answer: String) -> Error {
        Error::NotReady { server: self.name, waited, answer, log: self.end_of_log() }
    }

    /// Returns how the process ended, if it has.
    fn status(&self) -> Result<Option<String>, Error> {
        let mut process = self.process();
        let process = process.as_mut().ok_or(Error::NotRunning { server: self.name })?;
        process.ended().map_err(Error::system(format!("look after {}", self.name)))
    }

    fn end_of_log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&log), LOG_LINES).to_owned()
    }

    /// Poisoning is ignored: a panic elsewhere leaves the process as it was.
    fn process(&self) -> MutexGuard<'_, Option<Supervised>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn last_lines(text: &str, count: usize) -> &str {
    let text = text.trim_end();
    let start = text.rmatch_indices('\n').nth(count - 1).map_or(0, |(index, _)| index + 1);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::super::supervisor::Folder;
    use super::*;

    fn server(folder: &Folder, script: &str) -> Server {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Server::new("server", command, folder.path())
    }

    #[test]
    fn end_of_a_log_is_its_last_lines() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a\nb\n", 2), "a\nb");
        assert_eq!(last_lines("a", 2), "a");
        assert_eq!(last_lines("", 2), "");
    }

    #[tokio::test]
    async fn server_can_be_started_again_after_it_ended_and_not_before() {
        let folder = Folder::new().expect("a folder");
        let server = server(&folder, "exec sleep 1000");
        assert!(matches!(server.stop().await, Err(Error::NotRunning { .. })));
        server.start().expect("a start");
        assert!(matches!(server.start(), Err(Error::AlreadyRunning { .. })));
        server.signal(Signal::SIGSTOP).expect("a pause");
        server.stop().await.expect("a stop, although it is paused");
        server.start().expect("a start after a stop");
        server.kill();
        assert_eq!(server.pid(), None);
        server.start().expect("a start after a kill");
        server.check().expect("a running server");
    }

    #[tokio::test]
    async fn server_that_fails_is_reported_with_its_log() {
        let folder = Folder::new().expect("a folder");
        let server = server(&folder, "echo too bad; exit 4");
        server.start().expect("a start");
        let error = loop {
            match server.check() {
                Ok(()) => time::sleep(END_POLL).await,
                Err(error) => break error,
            }
        };
        let text = "server ended with exit status: 4; the end of its log:\ntoo bad";
        assert_eq!(error.to_string(), text);
    }
}
