//! A server that is paused until a guard is dropped.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time;

use super::server::Server;
use crate::Error;

/// How often to check whether a process is stopped; mostly it is at the first check.
const POLL: Duration = Duration::from_millis(1);

/// Keeps a server paused until dropped.
#[derive(Debug)]
pub(super) struct PauseGuard<'a>(&'a Server);

impl<'a> PauseGuard<'a> {
    /// Pauses the server, and returns when none of its threads runs any more, not even to finish a
    /// write.
    pub(super) async fn new(server: &'a Server) -> Result<Self, Error> {
        server.check()?;
        server.signal(Signal::SIGSTOP)?;
        let paused = Self(server);
        while !server.pid().is_none_or(all_threads_stopped) {
            time::sleep(POLL).await;
        }
        Ok(paused)
    }
}

impl Drop for PauseGuard<'_> {
    fn drop(&mut self) {
        // It fails only if the server is gone, and then there is nothing to resume.
        let _ = self.0.signal(Signal::SIGCONT);
    }
}

/// Returns whether all threads of a process are stopped. Only Linux reports it; elsewhere it is
/// assumed.
fn all_threads_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        // A thread that has ended does not run either.
        fs::read_to_string(thread.path().join("stat")).map_or(true, |stat| is_stopped(&stat))
    })
}

/// The state is the letter after the name, which is in parentheses and may contain parentheses.
fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::supervisor::Folder;
    use super::*;

    #[test]
    fn state_is_read_after_the_name() {
        assert!(is_stopped("12 (etcd) T 1 12"));
        assert!(is_stopped("12 (a) S (b) T 1 12"));
        assert!(!is_stopped("12 (T) S 1 12"));
    }

    #[tokio::test]
    async fn server_is_stopped_until_the_guard_is_dropped() {
        let folder = Folder::new().expect("a folder");
        let mut command = Command::new("sleep");
        command.arg("1000");
        let server = Server::new("sleep", command, folder.path());
        server.start().expect("a start");
        let pid = server.pid().expect("a process");
        let paused = PauseGuard::new(&server).await.expect("a pause");
        assert!(all_threads_stopped(pid));
        drop(paused);
        server.stop().await.expect("a server that hears");
    }
}
