//! A contestant: a process that is talked to by lines, and measured from outside.
//!
//! CPU time is read from the process' CPU clock, which is finer than the hundredths of a second of
//! `/proc/PID/stat`; memory from `/proc/PID/status`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::now_nanos;

/// How long anything may take: 50,000 pods take seconds, but a million may be asked for.
pub const MAX_WAIT: Duration = Duration::from_mins(10);

/// How often a process is looked at that is to become quiet.
const LOOK: Duration = Duration::from_millis(250);

/// A process is quiet if it took less than this between two looks: two percent of a core.
const QUIET: Duration = Duration::from_millis(5);

/// A running contestant. Dropping it kills it.
#[derive(Debug)]
pub struct Contestant {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    pid: u32,
    began: Instant,
    /// What it writes to its standard error, which is shown if it fails.
    log: PathBuf,
}

/// Memory of a process in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// What is resident now.
    pub resident_mb: f64,
    /// The most that was, since the process began or [`Contestant::forget_peak`].
    pub peak_mb: f64,
}

impl Contestant {
    /// Starts the program and waits until it is ready. What it writes to its standard error goes
    /// into the file `log`.
    ///
    /// # Errors
    /// If the program does not start, or ends before it is ready.
    pub async fn start(program: &Path, arguments: &[String], log: PathBuf) -> Result<Self> {
        let began = Instant::now();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} could not be started", program.display()))?;
        let pid = child.id().context("a process that was just started must have an id")?;
        let input = child.stdin.take().context("the input was piped")?;
        let output = child.stdout.take().context("the output was piped")?;
        let output = BufReader::new(output).lines();
        let mut contestant = Self { child, input, output, pid, began, log };
        contestant.hear("ready").await?;
        Ok(contestant)
    }

    /// Says a line to it.
    ///
    /// # Errors
    /// If it has ended.
    pub async fn say(&mut self, line: &str) -> Result<()> {
        let said = self.input.write_all(format!("{line}\n").as_bytes()).await;
        said.with_context(|| self.complaint(&format!("it does not take {line:?}")))
    }

    /// Waits for the line that begins with this word, and returns the numbers that come after it.
    ///
    /// # Errors
    /// If it has ended, takes too long, or says something else; the error has the end of its log.
    pub async fn hear(&mut self, word: &str) -> Result<Vec<f64>> {
        let heard = timeout(MAX_WAIT, self.output.next_line()).await;
        let Ok(Ok(Some(line))) = heard else {
            bail!(self.complaint(&format!("it did not say {word:?}")));
        };
        let mut words = line.split_whitespace();
        ensure!(words.next() == Some(word), self.complaint(&format!("it said {line:?}")));
        words.map(|number| Ok(number.parse()?)).collect()
    }

    /// Makes it count so many changes that are sent from now on.
    ///
    /// # Errors
    /// If it does not say that it does.
    pub async fn expect(&mut self, changes: usize) -> Result<()> {
        self.say(&format!("expect {changes} {}", now_nanos())).await?;
        self.hear("expecting").await?;
        Ok(())
    }

    /// Waits until it has seen the changes that it expects; their latencies in microseconds: the
    /// middle one, and the one that 99 % do not exceed.
    ///
    /// # Errors
    /// If it does not see them.
    pub async fn seen(&mut self) -> Result<[f64; 2]> {
        let latencies = self.hear("seen").await?;
        let told = latencies.len();
        latencies
            .try_into()
            .ok()
            .with_context(|| format!("it told {told} instead of two latencies"))
    }

    /// Its memory without what it has no use for.
    ///
    /// # Errors
    /// If it does not give it back.
    pub async fn trimmed(&mut self) -> Result<Memory> {
        self.say("trim").await?;
        self.hear("trimmed").await?;
        self.settle().await?;
        self.memory()
    }

    /// Seconds since the process was started.
    pub fn age_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// CPU time so far.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu(&self) -> Result<Duration> {
        cpu_time(self.pid)
    }

    /// CPU seconds since it was this.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu_since(&self, before: Duration) -> Result<f64> {
        Ok(self.cpu()?.saturating_sub(before).as_secs_f64())
    }

    /// Waits until it has done what there is to do.
    ///
    /// # Errors
    /// If it has ended, or does not come to rest.
    pub async fn settle(&self) -> Result<()> {
        quiet(self.pid).await
    }

    /// Its memory.
    ///
    /// # Errors
    /// If it has ended.
    pub fn memory(&self) -> Result<Memory> {
        let path = format!("/proc/{}/status", self.pid);
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        Memory::parse(&status).with_context(|| format!("{path} has no VmRSS or VmHWM"))
    }

    /// Lets the peak of its memory begin at what it holds now.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.pid);
        fs::write(&path, "5").with_context(|| format!("{path} cannot be written"))
    }

    /// Ends it by the end of its input.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub async fn end(self) -> Result<()> {
        let Self { mut child, input, output: _output, .. } = self;
        drop(input);
        if timeout(Duration::from_secs(5), child.wait()).await.is_err() {
            child.kill().await?;
        }
        Ok(())
    }

    /// What went wrong, with the end of its log.
    fn complaint(&self, problem: &str) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let mut complaint = problem.to_owned();
        for line in &lines[lines.len().saturating_sub(10)..] {
            let _ = write!(complaint, "\n  {line}");
        }
        complaint
    }
}

impl Memory {
    fn parse(status: &str) -> Option<Self> {
        let mib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: f64 = line.trim_end_matches("kB").trim().parse().ok()?;
            Some(kib / 1024.0)
        };
        Some(Self { resident_mb: mib("VmRSS:")?, peak_mb: mib("VmHWM:")? })
    }
}

/// Waits until a process takes next to no CPU time.
pub(crate) async fn quiet(pid: u32) -> Result<()> {
    let deadline = Instant::now() + MAX_WAIT;
    let mut before = cpu_time(pid)?;
    loop {
        sleep(LOOK).await;
        let now = cpu_time(pid)?;
        if now.saturating_sub(before) < QUIET {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "process {pid} does not come to rest");
        before = now;
    }
}

/// User and system time of a process so far.
fn cpu_time(pid: u32) -> Result<Duration> {
    let read = || -> Result<Duration> {
        let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid)?))?;
        Ok(clock_gettime(clock)?.into())
    };
    read().with_context(|| format!("the CPU clock of process {pid} cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_mebibytes() {
        let status = "Name:\tx\nVmPeak:\t  9999 kB\nVmHWM:\t    3072 kB\nVmRSS:\t 1024 kB\n";
        assert_eq!(Memory::parse(status), Some(Memory { resident_mb: 1.0, peak_mb: 3.0 }));
        assert_eq!(Memory::parse("Name:\tx\n"), None);
    }

    async fn script(folder: &Path, text: &str) -> Result<Contestant> {
        let arguments = ["-c".to_owned(), text.to_owned()];
        Contestant::start(Path::new("sh"), &arguments, folder.join("contestant.log")).await
    }

    #[tokio::test]
    async fn contestant_is_heard_and_ends_with_its_input() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "echo ready; read line; echo synced 7 $line; read line";
        let mut contestant = script(folder.path(), text).await.expect("a shell");
        contestant.say("2.5").await.expect("it listens");
        assert_eq!(contestant.hear("synced").await.expect("numbers"), [7.0, 2.5]);
        contestant.end().await.expect("it ends");
    }

    #[tokio::test]
    async fn complaint_of_a_contestant_is_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "echo ready; echo no server >&2; exit 1";
        let mut contestant = script(folder.path(), text).await.expect("a shell");
        let error = contestant.hear("synced").await.expect_err("it has ended");
        assert_eq!(error.to_string(), "it did not say \"synced\"\n  no server");
    }
}
