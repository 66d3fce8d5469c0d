//! A live operator as a process, and the address of its dashboard.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};

/// The variable with the folder of the programs for the tests. `cargo xtask browser` builds them.
const PROGRAMS: &str = "WINDLASS_PROGRAMS";

/// The unit of times in `/proc/PID/stat`, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running operator. It is killed when this is dropped.
#[derive(Debug)]
pub struct Operator {
    process: Child,
    url: String,
}

impl Operator {
    /// Starts a program, and waits until it logs the address of its dashboard.
    ///
    /// # Errors
    /// If the program was not built, or ends before it logs an address.
    pub fn start(program: &str, arguments: &[&str]) -> Result<Self> {
        let folder = std::env::var(PROGRAMS)
            .with_context(|| format!("{PROGRAMS} is not set; use `cargo xtask browser`"))?;
        let mut process = Command::new(Path::new(&folder).join(program))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("{program} does not start"))?;
        let log = process.stderr.take().context("its log must be ours")?;
        let url = url(log).with_context(|| format!("{program} has no dashboard"))?;
        Ok(Self { process, url })
    }

    /// Returns the URL of the dashboard, with the token.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the CPU time in seconds that the process uses during `meanwhile`.
    ///
    /// # Errors
    /// If the process has ended.
    pub async fn cpu_during(&self, meanwhile: impl Future<Output = ()>) -> Result<f64> {
        let before = self.cpu_seconds()?;
        meanwhile.await;
        Ok(self.cpu_seconds()? - before)
    }

    fn cpu_seconds(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // The name of the program, in parentheses, may contain spaces.
        let (_, fields) = text.rsplit_once(')').context("stat has no name")?;
        let times = fields.split_whitespace().skip(11).take(2);
        let ticks: Vec<f64> = times.map(str::parse).collect::<Result<_, _>>()?;
        Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
    }

    /// Stops the process as Ctrl-Z does: it exists, but does not answer.
    ///
    /// # Errors
    /// If there is no program `kill`.
    pub fn freeze(&self) -> Result<()> {
        self.signal("-STOP")
    }

    /// Resumes a frozen process.
    ///
    /// # Errors
    /// As [`freeze`](Self::freeze).
    pub fn thaw(&self) -> Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let status =
            Command::new("kill").args([signal, &self.process.id().to_string()]).status()?;
        ensure!(status.success(), "kill {signal}: {status}");
        Ok(())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Reads the log until a line has the address. The rest is read and dropped, so that the program
/// does not block when it logs.
fn url(log: ChildStderr) -> Option<String> {
    let mut lines = BufReader::new(log).lines();
    let is_url = |word: &&str| word.starts_with("http") && word.contains("#token=");
    let url = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.split_whitespace().find(is_url).map(str::to_owned));
    thread::spawn(move || lines.for_each(drop));
    url
}
