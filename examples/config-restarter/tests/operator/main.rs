//! The tests of the operator that need only its public interface, in one program: one crate to
//! link.

mod both_clusters;
mod common;
mod restarts;
mod story;
