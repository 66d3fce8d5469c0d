//! Where a long run stands: which round, case and queue, for how long, and for how long yet.
//!
//! It goes to standard error, so that the tables alone go into a file. On a terminal it is one line that
//! is written over; elsewhere it is a line per round and case, so that a log stays short.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::line::{Who, names};
use crate::process::Stopwatch;

/// Shows the progress of rounds that all consist of the same runs.
#[derive(Debug)]
pub(super) struct Progress {
    /// How many rounds there will be.
    rounds: u32,
    /// How long each run of a round took when it last ran.
    durations: Vec<Option<Duration>>,
    whole: Stopwatch,
    /// What was last shown, to not repeat a line in a log.
    last_shown: Option<(u32, &'static str)>,
    on_terminal: bool,
}

/// A duration as a person says it: `1 h 02 min`, `3 min 05 s`, `12 s`.
struct Spoken(Duration);

impl Progress {
    /// For `rounds` of `runs` each; the clock starts now.
    pub(super) fn start(rounds: u32, runs: usize) -> Self {
        Self {
            rounds,
            durations: vec![None; runs],
            whole: Stopwatch::start(),
            last_shown: None,
            on_terminal: io::stderr().is_terminal(),
        }
    }

    /// Shows that a run begins: the `index`th of the `round`th round, both from zero.
    pub(super) fn begins(&mut self, round: u32, index: usize, case: &'static str, whos: &[Who]) {
        let is_repeated = self.last_shown.replace((round, case)) == Some((round, case));
        if is_repeated && !self.on_terminal {
            return;
        }
        let who = if self.on_terminal { format!(", {}", names(whos)) } else { String::new() };
        let left = rest(&self.durations, self.rounds - round - 1, index)
            .map_or_else(String::new, |rest| format!(", about {} left", Spoken(rest)));
        let line = format!(
            "round {}/{}, {case}{who}: {} so far{left}",
            round + 1,
            self.rounds,
            Spoken(self.whole.elapsed())
        );
        // Progress that cannot be shown must not end the run.
        let _ = if self.on_terminal {
            write!(io::stderr(), "{ERASE}    {line}")
        } else {
            writeln!(io::stderr(), "    {line}")
        };
    }

    /// Remembers how long the `index`th run of a round took.
    pub(super) fn ended(&mut self, index: usize, took: Duration) {
        self.durations[index] = Some(took);
    }

    /// How long it has taken since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.whole.elapsed()
    }
}

/// Whatever comes next, results or an error, begins on a clean line.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.on_terminal {
            let _ = write!(io::stderr(), "{ERASE}");
        }
    }
}

/// Goes to the beginning of the terminal's line and erases it.
const ERASE: &str = "\r\x1b[2K";

/// How long the rest will take: the runs from `index` on, and then `rounds` whole rounds.
///
/// Runs differ a hundredfold in length, so each counts as long as it last took, and one that has not run
/// yet as the mean of those that have. `None` before anything has run.
fn rest(durations: &[Option<Duration>], rounds: u32, index: usize) -> Option<Duration> {
    let known: Vec<Duration> = durations.iter().copied().flatten().collect();
    let count = u32::try_from(known.len()).ok().filter(|&count| count > 0)?;
    let mean = known.iter().sum::<Duration>() / count;
    let sum = |runs: &[Option<Duration>]| -> Duration {
        runs.iter().map(|run| run.unwrap_or(mean)).sum()
    };
    Some(sum(&durations[index..]) + sum(durations) * rounds)
}

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, s) => write!(f, "{s} s"),
            (0, min, s) => write!(f, "{min} min {s:02} s"),
            (h, min, _) => write!(f, "{h} h {min:02} min"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest_in_seconds(durations: &[Option<u64>], rounds: u32, index: usize) -> Option<u64> {
        let durations: Vec<_> =
            durations.iter().map(|seconds| seconds.map(Duration::from_secs)).collect();
        rest(&durations, rounds, index).map(|rest| rest.as_secs())
    }

    #[test]
    fn nothing_is_estimated_before_the_first_run_ended() {
        assert_eq!(rest_in_seconds(&[None, None], 4, 0), None);
    }

    #[test]
    fn unknown_runs_count_as_the_mean_of_the_known() {
        // Left: one unknown run of this round, and a round of 1 + 3 + 2.
        assert_eq!(rest_in_seconds(&[Some(1), Some(3), None], 1, 2), Some(2 + 6));
    }

    #[test]
    fn known_runs_count_as_they_last_took() {
        // Left: 10 of this round, and two rounds of 1 + 10.
        assert_eq!(rest_in_seconds(&[Some(1), Some(10)], 2, 1), Some(10 + 22));
        assert_eq!(rest_in_seconds(&[Some(1), Some(10)], 0, 1), Some(10));
    }

    #[test]
    fn durations_are_spoken() {
        let spoken = |seconds| Spoken(Duration::from_secs(seconds)).to_string();
        assert_eq!(spoken(12), "12 s");
        assert_eq!(spoken(185), "3 min 05 s");
        assert_eq!(spoken(3725), "1 h 02 min");
    }
}
