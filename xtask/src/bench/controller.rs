//! The controllers beside those of controller-runtime and kube-runtime.
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

/// The suite.
pub(super) const SUITE: Suite = Suite {
    name: "controller",
    peer: Module { folder: "bench/controller-go" },
    items: "objects",
    filling: "one write each",
    changes_max: 10_000,
    cases: CASES,
    whos: &[Who::ControllerRuntime, Who::KubeRuntime, Who::Windlass],
    base: Who::ControllerRuntime,
    sections: tables::SECTIONS,
    targets: targets::all,
    meant_for: targets::OBJECTS,
};

/// From the start of the process until every object has run; changes at a steady pace; and the same for all
/// contestants at once.
const CASES: &[Case] = &[
    Case::in_turn("storm", STORM),
    Case::in_turn("changes", CHANGES),
    Case::at_once("side-by-side", CHANGES),
];

const STORM: &[Metric] =
    &[Metric::CpuS, Metric::WallS, Metric::PeakMb, Metric::SettledMb, Metric::ResidentMb];

const CHANGES: &[Metric] = &[
    Metric::CpuS,
    Metric::CpuUsPerEvent,
    Metric::WallS,
    Metric::P50Us,
    Metric::P99Us,
    Metric::PeakMb,
];

/// What to measure, and what to do with it; everything, three times, by default.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How many objects the server has.
    #[arg(long, value_name = "N", default_value_t = targets::OBJECTS, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    objects: u32,
    #[command(flatten)]
    common: Common,
}

/// Builds and runs everything, and prints what came out.
///
/// # Errors
/// As [`Suite::run`].
pub(crate) fn run(options: &Options) -> Result<()> {
    SUITE.run(options.objects, &options.common)
}
