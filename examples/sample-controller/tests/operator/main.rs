//! Tests of the operator through the public interface. One program, because linking takes long.

mod both_clusters;
mod common;
mod killed;
mod scenarios;
mod story;
