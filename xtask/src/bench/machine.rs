//! The machine of a run: a description, and how much CPU time others took.

use std::fmt;
use std::fs;
use std::thread;

use anyhow::{Context, Result};

use super::programs::go_folder;
use super::suite::Suite;
use super::table::grouped;
use crate::process::CommandLine;

/// Describes a run for the reader: the machine, the tools, the size and the rounds.
///
/// # Errors
/// If a toolchain is missing.
pub(super) fn describe(suite: &Suite, with_go: bool, size: u32, rounds: u32) -> Result<String> {
    let mut parts = vec![processor(), version("rustc", &["--version"], "")?];
    if with_go {
        let go = version("go", &["version"], &go_folder(suite.name)).context(
            "this benchmark compares with programs in Go: install Go from https://go.dev/doc/install",
        )?;
        parts.push(go);
    }
    parts.push(format!("{} {}", grouped(size), suite.unit));
    parts.push(format!("{rounds} rounds"));
    Ok(parts.join("; "))
}

/// Returns the processor and its number of threads, such as `Intel(R) Xeon(R) Processor, 2 cores`.
fn processor() -> String {
    // Systems other than Linux lack the file; the rest of the line is still useful.
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model_name(&information).unwrap_or("unknown CPU");
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores")
}

fn model_name(information: &str) -> Option<&str> {
    let line = information.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

fn version(program: &str, arguments: &[&str], folder: &str) -> Result<String> {
    let output = CommandLine::new(program, arguments).in_folder(folder).capture()?;
    Ok(output.trim().to_owned())
}

/// The share of CPU time that others took during each run. On a virtual machine these are other
/// machines on the same hardware.
#[derive(Debug, Default)]
pub(super) struct OtherLoad {
    percents: Vec<f64>,
}

/// CPU time since boot, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    /// The used and the stolen time.
    wanted: u64,
    /// The stolen time.
    stolen: u64,
}

impl OtherLoad {
    /// Runs `work`, and records how much others took meanwhile.
    pub(super) fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = Times::now();
        let result = work();
        if let (Some(before), Some(after)) = (before, Times::now()) {
            self.percents.push(after.percent_stolen_since(before));
        }
        result
    }
}

impl fmt::Display for OtherLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.percents.clone();
        sorted.sort_by(f64::total_cmp);
        match (sorted.get(sorted.len() / 2), sorted.last()) {
            (Some(median), Some(worst)) => write!(
                f,
                "others took {median:.0} % of the wanted CPU time in the median run, \
                 {worst:.0} % in the worst"
            ),
            _ => f.write_str("the system does not tell how much CPU time others took"),
        }
    }
}

impl Times {
    /// Returns `None` if the system does not report it.
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(statistics: &str) -> Option<Self> {
        let line = statistics.lines().find(|line| line.starts_with("cpu "))?;
        // user, nice, system, idle, iowait, irq, softirq, steal; the others are included in the
        // first two.
        let times: Vec<u64> =
            line.split_whitespace().skip(1).take(8).map_while(|time| time.parse().ok()).collect();
        let stolen = *times.get(7)?;
        let idle = times[3] + times[4];
        Some(Self { wanted: times.iter().sum::<u64>() - idle, stolen })
    }

    #[expect(clippy::cast_precision_loss, reason = "it is shown as a percentage")]
    fn percent_stolen_since(self, earlier: Self) -> f64 {
        let wanted = self.wanted.saturating_sub(earlier.wanted).max(1);
        100.0 * self.stolen.saturating_sub(earlier.stolen) as f64 / wanted as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_the_one_of_the_first_processor() {
        let information = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n";
        assert_eq!(model_name(information), Some("Some CPU @ 2 GHz"));
        assert_eq!(model_name("processor\t: 0\n"), None);
    }

    #[test]
    fn stolen_time_is_a_share_of_the_wanted_time() {
        let times = |line: &str| Times::parse(line);
        let earlier = times("cpu  10 0 10 70 5 2 3 100 40 0\ncpu0 1 2 3\n").expect("a line");
        assert_eq!(earlier, Times { wanted: 125, stolen: 100 });
        let later = times("cpu  40 0 20 110 5 2 3 150 80 0\n").expect("a line");
        assert!((later.percent_stolen_since(earlier) - 5000.0 / 90.0).abs() < 1e-9);
        for line in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3 4 5 6 7"] {
            assert_eq!(times(line), None, "{line}");
        }
    }

    #[test]
    fn load_of_others_is_told_by_its_median_and_its_worst() {
        let load = OtherLoad { percents: vec![40.0, 0.0, 3.0] };
        assert!(load.to_string().contains("3 % of the wanted CPU time in the median run, 40 %"));
        assert!(OtherLoad::default().to_string().contains("does not tell"));
    }
}
