//! Wall time, CPU time and peak memory of a section.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;

pub(crate) struct Meter {
    began: Instant,
    cpu_before: Duration,
}

pub(crate) struct Measured {
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) peak_mb: f64,
}

impl Meter {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { cpu_before: cpu_time()?, began: Instant::now() })
    }

    pub(crate) fn stop(&self) -> Result<Measured> {
        let wall_s = self.began.elapsed().as_secs_f64();
        let cpu_s = cpu_time()?.saturating_sub(self.cpu_before).as_secs_f64();
        Ok(Measured { wall_s, cpu_s, peak_mb: peak_mb()? })
    }
}

/// User and system time of this process so far.
fn cpu_time() -> Result<Duration> {
    let usage: Usage = getrusage(UsageWho::RUSAGE_SELF).context("getrusage")?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// The most memory that was resident. The peak of getrusage would include the parent's before the
/// exec.
fn peak_mb() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("peak memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib =
        line.context("peak memory: /proc/self/status has no VmHWM")?.trim_end_matches("kB").trim();
    Ok(kib.parse::<f64>().context("peak memory")? / 1024.0)
}
