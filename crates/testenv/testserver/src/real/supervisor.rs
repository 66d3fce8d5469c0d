//! Processes and folders that do not outlive this process, even if it is killed.
//!
//! Each server runs under a small shell that holds the reading end of a pipe, and this process
//! holds the other. However this process ends, the system closes its end; the shell notices and
//! kills the server. A parent-death signal would not work: it follows the thread that started the
//! server, and the threads of tests end before the process does.
//!
//! The shells have a process group of their own, so that Ctrl-C in the terminal does not reach them
//! before the pipe is closed.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

/// Runs `"$@"` with its output appended to the file `$log`, prints its process id, and ends with
/// its status. Meanwhile a second shell waits for the end of the pipe. It reads by itself, without
/// a third process that would have to be ended as well.
const SUPERVISE: &str = r#"
log=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- >>"$log" 2>&1 &
server=$!
(read -r line <&3; kill -KILL "$server") >/dev/null &
watcher=$!
exec 3<&-
echo "$server"
wait "$server"; status=$?
kill -KILL "$watcher"
exit "$status"
"#;

/// Waits for the end of the pipe and removes the folder `$1`. Servers that end at the same moment
/// may still write into it, so it retries.
const REMOVE: &str = r#"
read -r line
tries=0
while ! rm -rf "$1" && [ "$tries" -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
"#;

/// A server process that is killed when this is dropped or this process ends.
#[derive(Debug)]
pub(super) struct Supervised {
    /// Its standard input is the pipe.
    supervisor: Child,
    server: Pid,
}

/// A new folder that is removed when this is dropped or this process ends.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    remover: Child,
}

impl Supervised {
    /// Starts the program of this command, with its arguments and environment, in this folder.
    ///
    /// # Errors
    /// If there is no shell. A program that cannot be started appears as one that ends at once.
    pub(super) fn spawn(command: &Command, log: &Path, folder: &Path) -> io::Result<Self> {
        let mut shell = shell(SUPERVISE);
        shell.arg(log).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap_or(OsStr::new("")));
        }
        let mut supervisor = shell.current_dir(folder).stdout(Stdio::piped()).spawn()?;
        let output = supervisor.stdout.take().expect("standard output must be piped");
        let mut line = String::new();
        // The shell prints this line at once, or dies and closes the output.
        BufReader::new(output).read_line(&mut line)?;
        let pid =
            line.trim().parse().map_err(|_| io::Error::other("the shell told no process id"))?;
        Ok(Self { supervisor, server: Pid::from_raw(pid) })
    }

    /// Returns the process id of the server.
    pub(super) fn pid(&self) -> u32 {
        self.server.as_raw().unsigned_abs()
    }

    /// Returns how the server ended, if it has.
    pub(super) fn ended(&mut self) -> io::Result<Option<String>> {
        Ok(self.supervisor.try_wait()?.map(describe_exit))
    }

    /// Sends a signal to the server, unless it has ended.
    pub(super) fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        match signal::kill(self.server, signal) {
            // It has ended, but its supervisor has not reported it yet.
            Err(Errno::ESRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        end(&mut self.supervisor);
    }
}

impl Folder {
    /// Creates a new temporary folder that only this user can read.
    pub(super) fn new() -> io::Result<Self> {
        // It holds tokens and keys. The default mode would let other users read them.
        let mode = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("windlass-").permissions(mode).tempdir()?;
        let remover = shell(REMOVE).arg(folder.path()).stdout(Stdio::null()).spawn()?;
        Ok(Self { path: folder.keep(), remover })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        end(&mut self.remover);
    }
}

/// Returns a shell that runs this script, with the pipe as its standard input.
fn shell(script: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "windlass-supervisor"]);
    shell.stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    shell
}

/// Closes the pipe to a shell and waits until it has done its work, which takes milliseconds.
fn end(shell: &mut Child) {
    drop(shell.stdin.take());
    // It fails only if the shell has been waited for already.
    let _ = shell.wait();
}

/// A shell reports a process that was ended by a signal with a status from 128 on.
fn describe_exit(status: ExitStatus) -> String {
    match status.code().and_then(|code| Signal::try_from(code - 128).ok()) {
        Some(signal) => format!("signal {signal}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn spawned(folder: &Folder, program: &str, arguments: &[&str]) -> Supervised {
        let mut command = Command::new(program);
        command.args(arguments).env("WORD", "hello");
        Supervised::spawn(&command, &folder.path().join("log"), folder.path())
            .expect("a shell must be there")
    }

    fn is_alive(pid: u32) -> bool {
        signal::kill(Pid::from_raw(pid.try_into().expect("a process id")), None).is_ok()
    }

    /// Returns what the supervisor reports when the program ends by itself.
    fn outcome(mut process: Supervised) -> String {
        // Unlike `Child::wait`, this keeps the pipe open.
        let pipe = process.supervisor.stdin.take();
        let status = process.supervisor.wait().expect("the shell must be there");
        drop(pipe);
        describe_exit(status)
    }

    #[test]
    fn dropping_kills_the_server() {
        let folder = Folder::new().expect("a folder");
        let server = spawned(&folder, "sleep", &["1000"]);
        let pid = server.pid();
        assert!(is_alive(pid));
        drop(server);
        assert!(!is_alive(pid));
    }

    #[test]
    fn paused_server_is_killed_too() {
        let folder = Folder::new().expect("a folder");
        let mut server = spawned(&folder, "sleep", &["1000"]);
        let pid = server.pid();
        server.signal(Signal::SIGSTOP).expect("the server must be there");
        drop(server);
        assert!(!is_alive(pid));
    }

    #[test]
    fn server_that_ends_by_itself_is_noticed_with_status_and_log() {
        let folder = Folder::new().expect("a folder");
        let server = spawned(&folder, "sh", &["-c", "echo $WORD from $(pwd); exit 3"]);
        assert_eq!(outcome(server), "exit status: 3");
        let log = fs::read_to_string(folder.path().join("log")).expect("a log");
        assert_eq!(log.trim(), format!("hello from {}", folder.path().display()));
    }

    #[test]
    fn server_that_a_signal_ends_is_noticed() {
        let folder = Folder::new().expect("a folder");
        let mut server = spawned(&folder, "sleep", &["1000"]);
        server.signal(Signal::SIGTERM).expect("the server must be there");
        assert_eq!(outcome(server), "signal SIGTERM");
    }

    #[test]
    fn program_that_is_missing_ends_at_once_and_the_log_says_why() {
        let folder = Folder::new().expect("a folder");
        let server = spawned(&folder, "/no/such/program", &[]);
        assert_eq!(outcome(server), "exit status: 127");
        let log = fs::read_to_string(folder.path().join("log")).expect("a log");
        assert!(log.contains("/no/such/program"), "{log}");
    }

    #[test]
    fn folder_can_be_entered_by_its_owner_alone() {
        let folder = Folder::new().expect("a folder");
        let mode = fs::metadata(folder.path()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn folder_is_gone_after_dropping() {
        let folder = Folder::new().expect("a folder");
        let path = folder.path().to_owned();
        fs::create_dir(path.join("inner")).expect("the folder must be writable");
        drop(folder);
        assert!(!path.exists());
    }
}
