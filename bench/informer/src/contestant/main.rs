//! One contestant of the informer benchmark that is written in Rust: an informer of all pods in a process
//! of its own, which does as the stage says. The words between them are in the crate's documentation.
//!
//! [`windlass`] is ours, [`kube_runtime`] the peer. [`handler`] is what every contestant's handler does, and
//! [`pod`] what it reads; [`memory`] gives free memory back.

mod handler;
mod kube_runtime;
mod memory;
mod pod;
mod windlass;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinSet;

use handler::Handler;

/// Holds an informer of pods.
#[derive(Debug, Parser)]
struct Options {
    /// Whose informer.
    #[arg(long)]
    who: Who,
    /// How to reach the server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// How many pods the server has.
    #[arg(long)]
    pods: usize,
    /// Let the handler read every pod that it is given.
    #[arg(long)]
    read: bool,
}

/// The contestants.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Who {
    /// kube-runtime's reflector with a streaming list, and managed fields cleared.
    KubeRuntime,
    /// Ours as it comes: it holds bytes, and decodes what is read.
    Windlass,
    /// Ours, holding decoded pods.
    WindlassResident,
    /// Ours, holding a type that has only what its user needs.
    WindlassSlim,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(&options)));
    // Not returned, because that would show a backtrace as well where those are switched on.
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("informer-contestant: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<()> {
    let parsed = Kubeconfig::read_from(&options.kubeconfig)?;
    let config =
        kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
    let handler = Arc::new(Handler::new(options.pods, options.read));
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut informers = JoinSet::new();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            Some(ended) = informers.join_next() => return ended?,
        };
        let Some(line) = line else { return Ok(()) };
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["start"] => {
                let (config, handler) = (config.clone(), Arc::clone(&handler));
                match options.who {
                    Who::KubeRuntime => informers.spawn(kube_runtime::run(config, handler)),
                    Who::Windlass => informers.spawn(windlass::compact(config, handler)),
                    Who::WindlassResident => informers.spawn(windlass::resident(config, handler)),
                    Who::WindlassSlim => informers.spawn(windlass::slim(config, handler)),
                };
            }
            ["trim"] => {
                memory::trim();
                println!("trimmed");
            }
            ["expect", count, since] => {
                handler.expect(count.parse()?, since.parse()?);
                println!("expecting");
            }
            _ => bail!("unknown command {line:?}"),
        }
    }
}
