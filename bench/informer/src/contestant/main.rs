//! One contestant of the informer benchmark that is written in Rust: an informer of all pods in a
//! process of its own, which does as the stage says. The words between them are in `bench/stage`.
//!
//! [`windlass`] is ours, [`kube_runtime`] the peer. [`handler`] is what every contestant's handler
//! does, and [`pod`] what it reads.

mod handler;
mod kube_runtime;
mod pod;
mod windlass;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use windlass_bench_stage::{Start, play, program};

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
    objects: usize,
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
    let handler = Arc::new(Handler::new(options.objects, options.read));
    let start = |config| -> Start {
        let handler = Arc::clone(&handler);
        match options.who {
            Who::KubeRuntime => Box::pin(kube_runtime::run(config, handler)),
            Who::Windlass => Box::pin(windlass::compact(config, handler)),
            Who::WindlassResident => Box::pin(windlass::resident(config, handler)),
            Who::WindlassSlim => Box::pin(windlass::slim(config, handler)),
        }
    };
    let expect = |count, since| handler.expect(count, since);
    program("informer-contestant", play(&options.kubeconfig, start, expect))
}
