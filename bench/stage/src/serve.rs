//! The program of a stage: it measures what it is asked to.
//!
//! `cargo xtask bench` starts it once, because filling takes longer than everything else. It says `ready`, reads
//! one [`Request`] in JSON per line, and answers each by one line of JSON for each metric and then an empty line.
//! It ends with its input.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::program;

/// What a case measured: metrics by their names.
pub type Measured = Vec<(&'static str, f64)>;

/// A filled server, and what can be measured on it.
pub trait Stage: Sized {
    /// The suite's name in every line of JSON.
    const SUITE: &'static str;

    /// What is measured, as its name in JSON.
    type Case: DeserializeOwned;

    /// Starts a server and fills it with so many objects; so many of them change in the cases with changes.
    fn start(objects: usize, changes: usize) -> impl Future<Output = Result<Self>>;

    /// Runs a case once with a new process.
    fn measure(
        &mut self,
        case: Self::Case,
        who: &str,
        program: &Path,
    ) -> impl Future<Output = Result<Measured>>;
}

/// Holds a kube-apiserver full of objects, and measures contestants on it.
#[derive(Debug, Parser)]
struct Options {
    /// How many objects to make.
    #[arg(long, value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    objects: u32,
    /// How many changes a case has; every object gets at most one.
    #[arg(long)]
    changes: u32,
}

/// One run that is asked for.
#[derive(Debug, Deserialize)]
struct Request {
    case: Value,
    who: String,
    /// The contestant's program.
    program: PathBuf,
}

/// The `main` of a stage.
pub fn serve<S: Stage>() -> ExitCode {
    let options = Options::parse();
    program(&format!("{}-stage", S::SUITE), run::<S>(&options))
}

async fn run<S: Stage>(options: &Options) -> Result<()> {
    let (objects, changes) = (usize::try_from(options.objects)?, usize::try_from(options.changes)?);
    let mut stage = S::start(objects, changes.min(objects)).await?;
    say("ready\n")?;
    let mut requests = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = requests.next_line().await? {
        let request: Request =
            serde_json::from_str(&line).with_context(|| format!("this is no request: {line}"))?;
        let Request { case, who, program } = &request;
        let known = S::Case::deserialize(case).with_context(|| format!("{case} is no case"))?;
        let measured = stage.measure(known, who, program).await;
        let measured = measured.with_context(|| format!("{who} gave no result for {case}"))?;
        say(&lines(S::SUITE, case, who, measured))?;
    }
    Ok(())
}

/// One line for each metric, and an empty one.
fn lines(suite: &str, case: &Value, who: &str, measured: Measured) -> String {
    let line = |(metric, value): (&str, f64)| json!({"suite": suite, "case": case, "who": who, "metric": metric, "value": value});
    let lines = measured.into_iter().map(|metric| format!("{}\n", line(metric)));
    lines.chain(["\n".to_owned()]).collect()
}

/// Writes at once, also where the output is a pipe.
fn say(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_lines_of_json_and_end_with_an_empty_one() {
        let shown = lines("s", &json!("storm"), "w", vec![("cpu_s", 1.5), ("wall_s", 2.0)]);
        assert_eq!(
            shown,
            "{\"case\":\"storm\",\"metric\":\"cpu_s\",\"suite\":\"s\",\"value\":1.5,\"who\":\"w\"}\n\
             {\"case\":\"storm\",\"metric\":\"wall_s\",\"suite\":\"s\",\"value\":2.0,\"who\":\"w\"}\n\n"
        );
    }
}
