//! `windlass why`: the story of an object as text.

use std::fmt::{self, Display};

use serde::Deserialize;

/// The displayed fields of an answer of `/debug/windlass/story`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Story {
    key: String,
    runs: Vec<Run>,
    omitted_runs: usize,
    links: Vec<Link>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the fields are named as in the answer")]
struct Run {
    id: String,
    controller: String,
    key: String,
    started: String,
    took_seconds: f64,
    attempt: u32,
    causes: Vec<String>,
    omitted_causes: u64,
    outcome: String,
    message: Option<String>,
    next_run: Option<String>,
    writes: Vec<String>,
    omitted_writes: u64,
    events: Vec<String>,
}

/// A run that triggered another one.
#[derive(Clone, Debug, Deserialize)]
struct Link {
    from: String,
    to: String,
    write: String,
    cause: String,
}

impl Story {
    /// Returns the short form of a run's id; the id itself if the story does not have the run.
    fn name(&self, id: &str) -> String {
        let run = self.runs.iter().find(|run| run.id == id);
        run.map_or_else(|| id.to_owned(), Run::to_string)
    }
}

impl Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            let key = &self.key;
            writeln!(f, "no run of {key} has ended that is still known: see `windlass queue`")?;
        }
        for run in &self.runs {
            let attempt = match run.attempt {
                0 | 1 => String::new(),
                attempt => format!(", attempt {attempt}"),
            };
            writeln!(f, "{run}: {} in {}{attempt}", run.outcome, duration(run.took_seconds))?;
            let woken_by = |cause: &str| {
                let links =
                    self.links.iter().filter(|link| link.to == run.id && link.cause == cause);
                links.map(|link| format!("<- {}", self.name(&link.from))).collect()
            };
            list(f, "because", &run.causes, run.omitted_causes, woken_by)?;
            let woke = |write: &str| {
                let links =
                    self.links.iter().filter(|link| link.from == run.id && link.write == write);
                links.map(|link| format!("-> {}", self.name(&link.to))).collect()
            };
            list(f, "write", &run.writes, run.omitted_writes, woke)?;
            list(f, "event", &run.events, 0, |_| Vec::new())?;
            for line in run.message.iter().flat_map(|message| message.lines()) {
                writeln!(f, "    {:8}{line}", "error")?;
            }
            if let Some(next) = &run.next_run {
                writeln!(f, "    {:8}at {}", "again", time(next))?;
            }
        }
        if self.omitted_runs > 0 {
            let runs = if self.omitted_runs == 1 { "run is" } else { "runs are" };
            let Self { omitted_runs, key, .. } = self;
            writeln!(f, "{omitted_runs} more {runs} linked to {key}: see --limit")?;
        }
        Ok(())
    }
}

/// Writes the lines of a list, each with its linked runs.
fn list(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    items: &[String],
    omitted: u64,
    linked: impl Fn(&str) -> Vec<String>,
) -> fmt::Result {
    for item in items {
        writeln!(f, "    {title:8}{item}")?;
        for run in linked(item) {
            writeln!(f, "            {run}")?;
        }
    }
    if omitted > 0 {
        writeln!(f, "    {title:8}{omitted} more that are not kept")?;
    }
    Ok(())
}

impl Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", time(&self.started), self.controller, self.key)
    }
}

/// Returns the time of day of an RFC 3339 time.
pub(super) fn time(text: &str) -> &str {
    text.split_once('T').map_or(text, |(_, time)| time.trim_end_matches('Z'))
}

pub(super) fn duration(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1_000.0) } else { format!("{seconds:.1} s") }
}
