//! How fast we are beside the others.
//!
//! A suite builds both sides in release, runs them on this machine in one go and interleaved, and prints
//! medians, ratios and the targets of the project. What it prints is measured, not asserted: a missed
//! target is shown and counted, and only `--check` makes it an error.
//!
//! Every run of a case is a process of its own that prints one metric per [`mod@line`]. [`results`]
//! collects them by round and compares within a round; [`targets`] judges the ratios. What to run, and
//! which targets there are, is the suite's: [`queue`], [`apiserver`], [`informer`], [`controller`]; the last two
//! are [`staged`]. The rest is how it looks and what it needs: [`cases`], [`rounds`], [`table`], [`json`],
//! [`progress`], [`machine`], [`program`] and [`go`].

mod apiserver;
mod cases;
mod controller;
mod go;
mod informer;
mod json;
mod line;
mod machine;
mod program;
mod progress;
mod queue;
mod results;
mod rounds;
mod staged;
mod table;
mod targets;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Which suite to run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Subcommand)]
enum Suite {
    /// The work queue beside those of client-go and controller-runtime.
    Queue(queue::Options),
    /// The embedded API server beside kube-apiserver with etcd.
    Apiserver(apiserver::Options),
    /// The informers beside those of client-go, controller-runtime and kube-runtime.
    Informer(informer::Options),
    /// The controllers beside those of controller-runtime and kube-runtime.
    Controller(controller::Options),
}

/// Runs the chosen suite.
///
/// # Errors
/// If something is missing that it needs, if a side does not build or run, or, with `--check`, if a
/// target is missed.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.suite {
        Suite::Queue(options) => queue::run(options),
        Suite::Apiserver(options) => apiserver::run(options),
        Suite::Informer(options) => informer::run(options),
        Suite::Controller(options) => controller::run(options),
    }
}
