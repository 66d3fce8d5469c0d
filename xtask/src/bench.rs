//! Benchmarks: Windlass beside its peers, measured in one run on one machine.
//!
//! A [`suite`] is data: its cases and contestants, the columns of its tables, and its bounds. The
//! suites are [`queue`], [`informer`], [`controller`] and [`apiserver`]. There is one [`runner`]
//! for all of them: it builds the programs in `bench/`, runs every case for every contestant in
//! several rounds, and reads the JSON [`mod@line`]s that they print into [`results`]. [`report`]
//! prints these as tables.
//!
//! A missed bound is printed with the amount; only `--check` makes it an error.

mod apiserver;
mod controller;
mod helper;
mod informer;
mod line;
mod machine;
mod programs;
mod queue;
mod report;
mod results;
mod runner;
mod stage;
mod suite;
mod table;

use std::path::PathBuf;

use anyhow::Result;
use clap::builder::RangedI64ValueParser;
use clap::{Args, Subcommand};

/// Which suite to run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Subcommand)]
enum Suite {
    /// The work queue, compared with those of client-go and controller-runtime.
    Queue {
        /// The number of keys, a multiple of 100. The paced case gets a tenth of them, the storm a
        /// twentieth, and controller-runtime a tenth in the other cases.
        #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = queue::keys)]
        keys: u32,
        #[command(flatten)]
        common: Common,
    },
    /// The embedded API server, compared with kube-apiserver and etcd.
    Apiserver {
        /// How many `ConfigMaps` to list.
        #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = size())]
        objects: u32,
        #[command(flatten)]
        common: Common,
    },
    /// The informers, compared with those of client-go, controller-runtime and kube-runtime.
    Informer {
        /// How many pods the server has.
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = size())]
        pods: u32,
        #[command(flatten)]
        common: Common,
    },
    /// The controllers, compared with those of controller-runtime and kube-runtime.
    Controller {
        /// How many objects the server has.
        #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = size())]
        objects: u32,
        #[command(flatten)]
        common: Common,
    },
}

/// The options that all suites have.
#[derive(Args, Debug)]
struct Common {
    /// How often to run everything [default: 5 for the queue, 3 for the others].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Run only the cases whose name contains this; may be given several times.
    #[arg(long = "case", value_name = "PART")]
    cases: Vec<String>,
    /// Run only this contestant; may be given several times. Skips cases that need all at once.
    #[arg(long = "who", value_name = "NAME")]
    whos: Vec<String>,
    /// Write the medians to this file, as one line of JSON for each metric.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail if a bound is missed.
    #[arg(long)]
    check: bool,
}

fn size() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(100..=1_000_000)
}

/// Runs the chosen suite.
///
/// # Errors
/// If the options leave nothing to run, if a program does not build or run, or, with `--check`, if
/// a bound is missed.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.suite {
        Suite::Queue { keys, common } => runner::run(&queue::SUITE, *keys, common),
        Suite::Apiserver { objects, common } => runner::run(&apiserver::SUITE, *objects, common),
        Suite::Informer { pods, common } => runner::run(&informer::SUITE, *pods, common),
        Suite::Controller { objects, common } => runner::run(&controller::SUITE, *objects, common),
    }
}
