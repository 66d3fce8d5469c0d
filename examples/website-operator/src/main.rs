//! The program: the operator on a cluster, its definition, or a story without a cluster.

use anyhow::Result;
use clap::{Parser, Subcommand};
#[cfg(feature = "demo")]
use website_operator::demo;
use website_operator::{definition, run};

/// Makes a `ConfigMap`, a Deployment and a Service of every Website.
///
/// Without a command it tells a story, with three replicas of itself, on an API server in this
/// process. It touches no other cluster.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
    #[cfg(feature = "demo")]
    #[command(flatten)]
    telling: demo::Telling,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator on a cluster: that of --kubeconfig, or in a pod its own
    #[command(mut_arg("kubeconfig", |arg| {
        arg.help("The kubeconfig file; required outside of a pod")
    }))]
    Run(Box<run::Flags>),
    /// Print the definition of Website, for `kubectl apply -f -`
    Crd,
}

#[tokio::main]
async fn main() -> Result<()> {
    let program = Program::parse();
    match program.command {
        Some(Command::Run(flags)) => run::run(*flags).await,
        Some(Command::Crd) => {
            print!("{}", serde_saphyr::to_string(&definition())?);
            Ok(())
        }
        #[cfg(feature = "demo")]
        None => demo::run(&program.telling).await,
        #[cfg(not(feature = "demo"))]
        None => anyhow::bail!("this was built without the demo: `run` works on a cluster"),
    }
}
