//! One contestant of the controller benchmark that is written in Rust: a controller of all
//! `ConfigMaps` in a process of its own, which does as the stage says. The words between them are
//! in `bench/stage`.
//!
//! [`windlass`] is ours, [`kube_runtime`] the peer. [`runs`] is what every contestant's reconciler
//! does.

mod kube_runtime;
mod runs;
mod windlass;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use windlass_bench_stage::{Start, play, program};
use windlass_manager::Metrics;

use runs::Runs;

/// How many objects are worked on at once.
const WORKERS: u16 = 4;

/// Reconciles `ConfigMaps`, and does nothing to them.
#[derive(Debug, Parser)]
struct Options {
    /// Whose controller.
    #[arg(long)]
    who: Who,
    /// How to reach the server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// How many objects the stage has made.
    #[arg(long)]
    objects: usize,
}

/// The contestants.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Who {
    /// kube-runtime's Controller with a streaming list, and managed fields cleared.
    KubeRuntime,
    /// Ours as it comes.
    Windlass,
    /// Ours with all metrics of the manager.
    WindlassMetrics,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runs = Arc::new(Runs::new(options.objects));
    let start = |config| -> Start {
        let runs = Arc::clone(&runs);
        match options.who {
            Who::KubeRuntime => Box::pin(kube_runtime::run(config, runs)),
            Who::Windlass => Box::pin(windlass::run(config, runs, None)),
            Who::WindlassMetrics => Box::pin(windlass::run(config, runs, Some(Metrics::new()))),
        }
    };
    let expect = |count, since| runs.expect(count, since);
    program("controller-contestant", play(&options.kubeconfig, start, expect))
}
