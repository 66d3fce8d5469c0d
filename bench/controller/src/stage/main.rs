//! The stage of the controller benchmark: a kube-apiserver full of small objects, on which
//! contestants are measured.
//!
//! What every stage does is in `bench/stage`. Reading order: [`object`] is what the server is
//! filled with, [`objects`] the filled server, and [`case`](mod@case) what is done with a
//! contestant.

mod case;
mod object;
mod objects;

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_bench_stage::serve::<objects::Objects>()
}
