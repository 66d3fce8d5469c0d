//! What workloads do, and that they do it as those of a real control plane.

#[macro_use]
mod support;

mod both_clusters;
mod embedded;
