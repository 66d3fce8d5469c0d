//! Replicas as processes: started, observed, killed, paused.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use windlass_testserver::User;

/// The output of `elector` and `election-go`, one JSON object per line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "event", content = "identity")]
pub enum Said {
    /// The replica leads, under this identity.
    Leading(String),
    /// The replica no longer leads.
    Stopped(String),
    /// This replica leads, as far as the printing one knows.
    Leader(String),
}

/// The durations of the elections, in milliseconds. They are short, and far enough apart for a busy
/// machine.
pub const LEASE_DURATION: u64 = 4_000;
/// See [`LEASE_DURATION`].
pub const RENEW_DEADLINE: u64 = 2_500;
/// See [`LEASE_DURATION`].
pub const RETRY_PERIOD: u64 = 500;

/// A process. It is killed when this is dropped, and ends when this process does.
#[derive(Debug)]
pub struct Replica {
    name: String,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Replica {
    /// Starts a program as this user, with the common flags.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(program: &Path, user: &User, flags: &[String]) -> Self {
        let mut command = Command::new(program);
        command.arg(format!("--kubeconfig={}", user.kubeconfig_path().display())).args([
            format!("--lease-duration={LEASE_DURATION}ms"),
            format!("--renew-deadline={RENEW_DEADLINE}ms"),
            format!("--retry-period={RETRY_PERIOD}ms"),
        ]);
        // Windlass' default identity begins with this variable.
        command.env("POD_NAME", user.name());
        // The program ends when its input does, and so also when this process is killed.
        command.args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the program must start");
        let output = child.stdout.take().expect("the output is piped");
        let lines = BufReader::new(output).lines();
        Self { name: user.name().to_owned(), child, lines }
    }

    /// The name of its user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the next line, and returns it; `None` if the process has ended. Cancel safe.
    ///
    /// # Panics
    /// If the line is not valid.
    pub async fn next(&mut self) -> Option<Said> {
        let line = self.lines.next_line().await.expect("the output can be read")?;
        let said = serde_json::from_str(&line);
        Some(said.unwrap_or_else(|error| panic!("{} said {line:?}: {error}", self.name)))
    }

    /// Waits for this line.
    ///
    /// # Panics
    /// If the process ends before.
    pub async fn wait_for(&mut self, wanted: &Said) {
        loop {
            match self.next().await {
                Some(said) if said == *wanted => return,
                Some(_) => {}
                None => panic!("{} ended, and did not say {wanted:?}", self.name),
            }
        }
    }

    /// Waits until it leads.
    ///
    /// # Panics
    /// If it ends before.
    pub async fn wait_until_leading(&mut self) {
        self.wait_for(&Said::Leading(self.name.clone())).await;
    }

    /// Waits until it reports that this replica leads.
    ///
    /// # Panics
    /// If it ends before.
    pub async fn wait_for_leader(&mut self, leader: &str) {
        self.wait_for(&Said::Leader(leader.to_owned())).await;
    }

    /// Returns whether it has ended by itself.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.expect("the process was not waited for yet");
        signal::kill(Pid::from_raw(pid), signal).expect("the process is there");
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub async fn wait(mut self) -> ExitStatus {
        // `Child::wait` closes the input, which would end the process.
        let input = self.child.stdin.take();
        let status = self.child.wait().await.expect("a child can be waited for");
        drop(input);
        status
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub async fn kill(self) {
        self.signal(Signal::SIGKILL);
        self.wait().await;
    }

    /// Stops it gracefully, and waits for its end.
    ///
    /// # Panics
    /// If it fails.
    pub async fn stop(self) {
        self.signal(Signal::SIGTERM);
        let name = self.name.clone();
        let status = self.wait().await;
        assert!(status.success(), "{name}: {status}");
    }
}

/// Ends this process when its input ends, so that it does not outlive a killed test.
pub fn end_with_the_input() {
    std::thread::spawn(|| {
        // An error counts as the end, too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}
