//! The stage of the informer benchmark: a kube-apiserver full of pods, on which contestants are measured.
//!
//! `cargo xtask bench informer` starts it once, because filling takes longer than everything else. It says
//! `ready`, reads one [`Request`] in JSON per line, and answers each by one line of JSON for each metric
//! and then an empty line. It ends with its input.
//!
//! Reading order: [`template`] and [`pod`] are what the server is filled with and [`fill`] how; [`process`]
//! is a contestant; [`case`](mod@case) what is done with it, with the help of [`write`](mod@write), [`door`] and
//! [`server`].

mod case;
mod door;
mod fill;
mod pod;
mod process;
mod server;
mod template;
mod write;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use case::Case;
use server::Stage;

/// Holds a kube-apiserver with pods and measures informers on it.
#[derive(Debug, Parser)]
struct Options {
    /// How many pods to make.
    #[arg(long, value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    pods: u32,
    /// How many updates a burst has; every pod gets at most one.
    #[arg(long)]
    updates: u32,
}

/// One run that is asked for.
#[derive(Debug, Deserialize)]
struct Request {
    case: Case,
    who: String,
    /// The contestant's program.
    program: PathBuf,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(&options)));
    // Not returned, because that would show a backtrace as well where those are switched on.
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("informer-stage: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<()> {
    let (pods, updates) = (usize::try_from(options.pods)?, usize::try_from(options.updates)?);
    let mut stage = Stage::start(pods, updates.min(pods)).await?;
    say("ready\n")?;
    let mut requests = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = requests.next_line().await? {
        let request: Request =
            serde_json::from_str(&line).with_context(|| format!("this is no request: {line}"))?;
        let Request { case, who, program } = &request;
        let measured = case
            .measure(&mut stage, who, program)
            .await
            .with_context(|| format!("{who} gave no result for {case}"))?;
        let lines = measured.into_iter().map(|(metric, value)| {
            let suite = "informer";
            json!({"suite": suite, "case": case, "who": who, "metric": metric, "value": value})
        });
        say(&lines.map(|line| format!("{line}\n")).chain(["\n".to_owned()]).collect::<String>())?;
    }
    Ok(())
}

/// Writes at once, also where the output is a pipe.
fn say(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}
