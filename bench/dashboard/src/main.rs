//! An operator under load, for the tests and the cost of the dashboard: many objects, many changes.
//!
//! This process is the operator alone, so that its CPU time is the operator's. It starts itself
//! once more for the API server and the changes ([`load`]).

mod load;
mod operator;

use std::process::Stdio;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use windlass_manager::Options;

use load::Load;

/// An operator with many objects that change.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    command: Option<Subprogram>,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    manager: Options,
}

#[derive(Debug, Subcommand)]
enum Subprogram {
    /// The API server and the changes; prints the path of a kubeconfig, and ends with its input
    Load(Load),
}

#[tokio::main]
async fn main() -> Result<()> {
    let Program { command, load, manager: mut options } = Program::parse();
    if let Some(Subprogram::Load(load)) = command {
        return load.run().await;
    }
    let (_process, kubeconfig) = start(&load).await?;
    options.kubeconfig = Some(kubeconfig.into());
    // Whatever fails here fails on purpose.
    "error,windlass_reconciler=off,windlass_manager::dashboard=info"
        .clone_into(&mut options.log_level);
    Ok(operator::manager(options).run().await?)
}

/// Starts the API server, and waits until its objects are there.
async fn start(load: &Load) -> Result<(Child, String)> {
    let mut process = Command::new(std::env::current_exe()?)
        .args(["load", "--objects", &load.objects.to_string()])
        .args(["--changes", &load.changes.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("the API server does not start")?;
    let output = process.stdout.take().context("its output must be ours")?;
    let line = BufReader::new(output).lines().next_line().await?;
    Ok((process, line.context("the API server has ended")?))
}
