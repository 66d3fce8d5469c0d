//! The behaviour of workloads, and that it equals that of a real control plane.

#[macro_use]
mod support;

mod both_clusters;
mod embedded;
