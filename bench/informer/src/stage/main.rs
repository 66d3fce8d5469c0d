//! The stage of the informer benchmark: a kube-apiserver full of pods, on which contestants are
//! measured.
//!
//! What every stage does is in `bench/stage`. Reading order: [`template`] and [`pod`] are what the
//! server is filled with and [`pods`] is the filled server; [`case`](mod@case) is what is done with
//! a contestant, with the help of [`write`](mod@write) and [`door`].

mod case;
mod door;
mod pod;
mod pods;
mod template;
mod write;

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_bench_stage::serve::<pods::Pods>()
}
