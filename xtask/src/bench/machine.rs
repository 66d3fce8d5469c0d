//! The machine that a result is from: without it, a number means nothing to another person.

use std::fs;
use std::thread;

use anyhow::Result;

use super::go::Module;
use super::rounds;
use crate::process::CommandLine;

/// What a reader has to know of a run: the machine, the tools, the size and the rounds. Asking for it also finds out
/// whether Go is there, if a side of the suite needs it.
///
/// # Errors
/// If a toolchain is missing or too old.
pub(super) fn line(go: Option<Module>, size: &str, rounds: u32) -> Result<String> {
    let mut parts = vec![processor()];
    if let Some(module) = go {
        parts.push(module.toolchain()?);
    }
    parts.extend([rustc()?, size.to_owned(), rounds::spoken(rounds)]);
    Ok(parts.join("; "))
}

/// The processor and how many threads it runs at once, like `Intel(R) Xeon(R) Processor, 2 cores`.
fn processor() -> String {
    // Other systems than Linux lack the file; the rest of the line is worth printing all the same.
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model_name(&information).unwrap_or("unknown CPU");
    match thread::available_parallelism().map(usize::from) {
        Ok(1) => format!("{model}, 1 core"),
        Ok(cores) => format!("{model}, {cores} cores"),
        Err(_) => format!("{model}, unknown number of cores"),
    }
}

/// The compiler that builds our side, like `rustc 1.95.0`.
///
/// # Errors
/// If there is no compiler.
fn rustc() -> Result<String> {
    let output = CommandLine::new("rustc", &["--version"]).capture()?;
    Ok(output.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

/// The time that the processors of a machine were wanted for, in units of its own, since it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    wanted: u64,
    /// What others were given instead, who run on the same hardware.
    taken: u64,
}

impl Times {
    #[cfg(test)]
    pub(super) fn new(wanted: u64, taken: u64) -> Self {
        Self { wanted, taken }
    }

    /// Those of now; nothing where the system does not tell.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(statistics: &str) -> Option<Self> {
        let line = statistics.lines().find(|line| line.starts_with("cpu "))?;
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows are parts of the first two.
        let times: Vec<u64> =
            line.split_whitespace().skip(1).take(8).map_while(|time| time.parse().ok()).collect();
        let taken = *times.get(7)?;
        let idle = times[3] + times[4];
        Some(Self { wanted: times.iter().sum::<u64>() - idle, taken })
    }

    /// Which share of what was wanted since `earlier` was taken: whoever wants less is not calmer for that.
    #[expect(clippy::cast_precision_loss, reason = "it is shown as a percentage")]
    pub(super) fn taken_since(self, earlier: Self) -> f64 {
        let wanted = self.wanted.saturating_sub(earlier.wanted).max(1);
        self.taken.saturating_sub(earlier.taken) as f64 / wanted as f64
    }
}

fn model_name(information: &str) -> Option<&str> {
    let line = information.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_the_first_processors() {
        let information = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n";
        assert_eq!(model_name(information), Some("Some CPU @ 2 GHz"));
        assert_eq!(model_name("processor\t: 0\n"), None);
    }

    #[test]
    fn time_that_is_taken_is_a_share_of_what_was_wanted() {
        let times = |line: &str| Times::parse(line);
        let earlier = times("cpu  10 0 10 70 5 2 3 100 40 0\ncpu0 1 2 3\n").expect("a line");
        assert_eq!(earlier, Times { wanted: 125, taken: 100 });
        let later = times("cpu  40 0 20 110 5 2 3 150 80 0\n").expect("a line");
        assert!((later.taken_since(earlier) - 50.0 / 90.0).abs() < 1e-9);
        assert!(earlier.taken_since(earlier).abs() < 1e-9);
        for line in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3 4 5 6 7"] {
            assert_eq!(times(line), None, "{line}");
        }
    }
}
