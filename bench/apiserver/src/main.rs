//! One part of the API server benchmark: a server that is held, or one case run once.
//!
//! Every measured case is a process of its own that prints one JSON line for each metric;
//! `cargo xtask bench apiserver` runs them and compares. [`serve`](crate::hold) holds a filled
//! server for as long as the standard input stays open, because filling takes far longer than
//! listing. The server is never in the process that measures it, except in the case of a start
//! without a socket, so its CPU time and memory are its own ([`meter`]).
//!
//! Reading order: [`server`], [`objects`], then the cases: [`start`], [`list`], [`fanout`].

mod fanout;
mod hold;
mod list;
mod meter;
mod objects;
mod server;
mod start;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use serde_json::json;

/// What a case measured: metrics by their names.
type Measured = Vec<(&'static str, f64)>;

/// Runs one part of the API server benchmark.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Hold a server with so many `ConfigMaps` until the standard input ends.
    Serve {
        /// The server.
        #[arg(long)]
        who: Who,
        /// How many `ConfigMaps` to make.
        #[arg(long)]
        objects: usize,
    },
    /// Measure from nothing to the first answered list.
    Start {
        /// The server.
        #[arg(long)]
        who: Who,
    },
    /// Measure a list of all `ConfigMaps` of a server that is held.
    List {
        /// The server.
        #[arg(long)]
        who: Who,
        /// How many there must be.
        #[arg(long)]
        objects: usize,
        /// Ask for them in pages.
        #[arg(long)]
        paged: bool,
        /// How to reach the server.
        #[arg(long)]
        kubeconfig: PathBuf,
        /// The API server's process, and then those that work for it.
        #[arg(long = "pid", required = true)]
        pids: Vec<u32>,
    },
    /// Measure how changes reach watchers.
    Fanout {
        /// The server.
        #[arg(long)]
        who: Who,
        /// How many watches there are.
        #[arg(long)]
        watchers: usize,
        /// How many changes are made.
        #[arg(long)]
        updates: usize,
    },
}

/// The servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    /// The embedded server, called without a socket.
    InProcess,
    /// The embedded server as a program, over loopback.
    Embedded,
    /// kube-apiserver with etcd.
    Real,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (case, who, measured) = runtime.block_on(run(options.part))?;
    let who = who.to_possible_value().map(|value| value.get_name().to_owned());
    for (metric, value) in measured {
        println!(
            "{}",
            json!({
                "suite": "apiserver", "case": case, "who": who, "metric": metric, "value": value,
            })
        );
    }
    Ok(())
}

async fn run(part: Part) -> Result<(String, Who, Measured)> {
    Ok(match part {
        Part::Serve { who, objects } => {
            hold::hold(who, objects).await?;
            (String::new(), who, Measured::new())
        }
        Part::Start { who } => ("start".to_owned(), who, start::measure(who).await?),
        Part::List { who, objects, paged, kubeconfig, pids } => {
            let case = if paged { "list-paged" } else { "list" };
            let measured = list::measure(&kubeconfig, &pids, objects, paged).await?;
            (case.to_owned(), who, measured)
        }
        Part::Fanout { who, watchers, updates } => {
            let measured = fanout::measure(who, watchers, updates).await?;
            (format!("fanout-w{watchers}"), who, measured)
        }
    })
}
