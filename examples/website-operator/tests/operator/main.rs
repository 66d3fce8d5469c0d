//! Tests of the operator through the public interface. One program, because linking takes long.

mod common;
mod plan;
mod real;
mod reconcile;
mod rotation;
#[cfg(feature = "demo")]
mod story;
mod tutorial;
mod versions;
