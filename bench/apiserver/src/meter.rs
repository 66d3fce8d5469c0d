//! Wall time here, and CPU time and peak memory of other processes.
//!
//! The first process is the server itself, the others work for it: etcd does for kube-apiserver.
//! Their CPU time is read from their CPU clocks, which are finer than the hundredths of a second of
//! `/proc/PID/stat`.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// A section that is being measured.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    pids: &'a [u32],
    began: Instant,
    cpu_before: Vec<Duration>,
    own_before: Duration,
}

/// What a section took.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) wall_s: f64,
    /// CPU seconds of the server, and of it with its helpers.
    pub(crate) cpu_s: f64,
    pub(crate) cpu_all_s: f64,
    /// CPU seconds of this process.
    pub(crate) client_cpu_s: f64,
    /// The most memory that was resident in the section, of the server, and of it with its helpers.
    pub(crate) peak_mb: f64,
    pub(crate) peak_all_mb: f64,
}

/// A stopwatch for where CPU and memory do not matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch(Instant);

impl Watch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

impl<'a> Meter<'a> {
    /// Starts to measure; the peaks of the processes begin at what they hold now.
    pub(crate) fn start(pids: &'a [u32]) -> Result<Self> {
        for pid in pids {
            // Where the system refuses, the peak is the one since the process began, which is no
            // less true.
            let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
        let cpu_before = pids.iter().map(|&pid| cpu_time(pid)).collect::<Result<_>>()?;
        Ok(Self { pids, cpu_before, own_before: own_cpu_time()?, began: Instant::now() })
    }

    pub(crate) fn stop(&self) -> Result<Taken> {
        let wall_s = self.began.elapsed().as_secs_f64();
        let mut cpu = Vec::new();
        let mut peaks = Vec::new();
        for (&pid, &before) in self.pids.iter().zip(&self.cpu_before) {
            cpu.push(cpu_time(pid)?.saturating_sub(before).as_secs_f64());
            let path = format!("/proc/{pid}/status");
            let status = fs::read_to_string(&path).with_context(|| path.clone())?;
            peaks.push(peak_mb(&status).with_context(|| format!("{path} has no VmHWM"))?);
        }
        Ok(Taken {
            wall_s,
            cpu_s: cpu.first().copied().unwrap_or_default(),
            cpu_all_s: cpu.iter().sum(),
            client_cpu_s: own_cpu_time()?.saturating_sub(self.own_before).as_secs_f64(),
            peak_mb: peaks.first().copied().unwrap_or_default(),
            peak_all_mb: peaks.iter().sum(),
        })
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

/// User and system time of this process so far.
fn own_cpu_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("getrusage")?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// The most memory that was resident, from the text of `/proc/PID/status`.
fn peak_mb(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_read_in_mebibytes() {
        let status = "Name:\tx\nVmPeak:\t  9999 kB\nVmHWM:\t    3072 kB\nVmRSS:\t 100 kB\n";
        assert_eq!(peak_mb(status), Some(3.0));
        assert_eq!(peak_mb("Name:\tx\n"), None);
    }

    #[test]
    fn helpers_count_beside_the_server() {
        let own = [std::process::id(), std::process::id()];
        let taken = Meter::start(&own).and_then(|meter| meter.stop()).expect("own process");
        assert!(taken.peak_mb > 0.0);
        assert!(taken.peak_all_mb >= 2.0 * taken.peak_mb);
        assert!(taken.cpu_all_s >= taken.cpu_s);
    }
}
