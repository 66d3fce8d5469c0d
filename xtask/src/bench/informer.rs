//! The informers beside those of client-go, controller-runtime and kube-runtime.
//!
//! A suite on a [stage](super::staged). Here are its cases and contestants; [`tables`] is how they are shown,
//! [`targets`] what is wanted of them.

mod tables;
mod targets;

use anyhow::Result;
use clap::Args;

use super::go::Module;
use super::line::{Metric, Who};
use super::staged::{Case, Common, Suite};

/// How many pods there are unless told otherwise: enough to see, and quick.
const PODS: u32 = 10_000;

/// The suite.
pub(super) const SUITE: Suite = Suite {
    name: "informer",
    peer: Module { folder: "bench/informer-go" },
    items: "pods",
    filling: "two writes each",
    // Enough for a 99th percentile.
    changes_max: 2000,
    cases: CASES,
    whos: &[
        Who::ClientGo,
        Who::ControllerRuntime,
        Who::KubeRuntime,
        Who::Windlass,
        Who::WindlassResident,
        Who::WindlassSlim,
    ],
    base: Who::ClientGo,
    sections: tables::SECTIONS,
    targets: targets::all,
    meant_for: targets::PODS,
};

/// A first list of all pods, the same with a handler that reads every pod, updates at a steady pace, and a second
/// list after a watch that cannot be resumed.
const CASES: &[Case] = &[
    Case::in_turn("sync", SYNC),
    Case::in_turn("sync-read", SYNC),
    Case::in_turn("burst", BURST),
    Case::in_turn("relist", &[Metric::CpuS, Metric::PeakMb, Metric::ResidentMb]),
];

const SYNC: &[Metric] = &[
    Metric::CpuS,
    Metric::WallS,
    Metric::PeakMb,
    Metric::SettledMb,
    Metric::ResidentMb,
    Metric::BytesPerObject,
];

const BURST: &[Metric] =
    &[Metric::CpuS, Metric::CpuUsPerEvent, Metric::P50Us, Metric::P99Us, Metric::PeakMb];

/// What to measure, and what to do with it; everything, three times, by default.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How many pods the server has.
    #[arg(long, value_name = "N", default_value_t = PODS, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pods: u32,
    #[command(flatten)]
    common: Common,
}

/// Builds and runs everything, and prints what came out.
///
/// # Errors
/// As [`Suite::run`].
pub(crate) fn run(options: &Options) -> Result<()> {
    SUITE.run(options.pods, &options.common)
}
