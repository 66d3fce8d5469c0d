//! The program of a stage: it measures what it is asked to.
//!
//! `cargo xtask bench` starts it once, because filling takes longer than everything else. It says
//! `ready`, reads one [`Request`] in JSON per line, and answers each by one line of JSON for each
//! metric of each contestant and then an empty line. It ends with its input.

use std::io::Write as _;
use std::path::PathBuf;
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

    /// Starts a server and fills it with so many objects; so many of them change in the cases with
    /// changes.
    fn start(objects: usize, changes: usize) -> impl Future<Output = Result<Self>>;

    /// Runs a case once, with a new process for each contestant, and returns what it measured of
    /// each.
    fn measure(
        &mut self,
        case: Self::Case,
        entrants: &[Entrant],
    ) -> impl Future<Output = Result<Vec<Measured>>>;
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

/// Who is to be measured.
#[derive(Debug, Deserialize)]
pub struct Entrant {
    /// The contestant's name.
    pub who: String,
    /// The program that has it.
    pub program: PathBuf,
}

/// One run that is asked for.
#[derive(Debug, Deserialize)]
struct Request {
    case: Value,
    /// One, or those that run at the same time.
    entrants: Vec<Entrant>,
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
        let Request { case, entrants } = &request;
        let known = S::Case::deserialize(case).with_context(|| format!("{case} is no case"))?;
        let measured = stage.measure(known, entrants).await;
        let measured = measured.with_context(|| format!("no result for {case} of {entrants:?}"))?;
        let whos = entrants.iter().map(|entrant| entrant.who.as_str());
        say(&lines(S::SUITE, case, whos.zip(measured)))?;
    }
    Ok(())
}

/// One line for each metric of everyone, and an empty one.
fn lines<'w>(
    suite: &str,
    case: &Value,
    measured: impl IntoIterator<Item = (&'w str, Measured)>,
) -> String {
    let mut lines = String::new();
    for (who, metrics) in measured {
        for (metric, value) in metrics {
            let line =
                json!({"suite": suite, "case": case, "who": who, "metric": metric, "value": value});
            lines += &line.to_string();
            lines.push('\n');
        }
    }
    lines + "\n"
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
        let shown = lines(
            "s",
            &json!("storm"),
            [("v", vec![("cpu_s", 1.5)]), ("w", vec![("wall_s", 2.0)])],
        );
        assert_eq!(
            shown,
            "{\"case\":\"storm\",\"metric\":\"cpu_s\",\"suite\":\"s\",\"value\":1.5,\"who\":\"v\"}\n\
             {\"case\":\"storm\",\"metric\":\"wall_s\",\"suite\":\"s\",\"value\":2.0,\"who\":\"w\"}\n\n"
        );
    }
}
