//! The program: the operator on a cluster, its definitions, or a demo without a cluster.

use std::io::Write as _;

use anyhow::Result;
use clap::{Parser, Subcommand};
use windlass::prelude::Options;

/// The operator of Shops.
///
/// Without a command it runs on a cluster in this process, and shows what it does there.
#[derive(Debug, Parser)]
#[command(version)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator on the cluster of the kubeconfig
    Run(Box<Options>),
    /// Print the definitions of its kinds, for `kubectl apply -f -`
    Crds,
    /// Run the operator on a cluster in this process, which is gone afterwards
    #[cfg(feature = "demo")]
    Demo(shop_operator::demo::Flags),
}

#[tokio::main]
async fn main() -> Result<()> {
    match Program::parse().command {
        Some(Command::Run(options)) => Ok(shop_operator::manager(*options).run().await?),
        Some(Command::Crds) => {
            let definitions = shop_operator::definitions();
            let documents = definitions.iter().map(serde_saphyr::to_string);
            let text = documents.collect::<Result<Vec<_>, _>>()?.join("---\n");
            // An error, not a panic, if nobody reads on, as behind `| head`.
            Ok(std::io::stdout().write_all(text.as_bytes())?)
        }
        #[cfg(feature = "demo")]
        Some(Command::Demo(flags)) => shop_operator::demo::run(flags).await,
        #[cfg(feature = "demo")]
        None => shop_operator::demo::run(shop_operator::demo::Flags::default()).await,
        #[cfg(not(feature = "demo"))]
        None => anyhow::bail!("this was built without the demo: `run` works on a cluster"),
    }
}
