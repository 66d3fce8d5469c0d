//! What workloads do, and that they do it as those of a real control plane.

mod both_clusters;
mod embedded;
mod support;
