//! The program: the operator on a cluster, or a story without one.

use anyhow::Result;
use clap::{Parser, Subcommand};
use object_sync::{demo, run};
use windlass::manager::Options;

/// Keeps one object equal to another.
///
/// Without a command it tells a story on an API server in this process. It touches no other
/// cluster.
#[derive(Debug, Parser)]
#[command(version)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator on a cluster: that of --kubeconfig, or in a pod its own
    #[command(mut_arg("kubeconfig", |arg| {
        arg.help("The kubeconfig file; required outside of a pod")
    }))]
    Run(Box<Options>),
}

#[tokio::main]
async fn main() -> Result<()> {
    match Program::parse().command {
        Some(Command::Run(options)) => run::run(*options).await,
        None => demo::run().await,
    }
}
