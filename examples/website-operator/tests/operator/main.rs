//! The tests of the operator that need only its public interface, in one program: one crate to
//! link.

mod common;
mod plan;
mod real;
mod reconcile;
mod rotation;
#[cfg(feature = "demo")]
mod story;
mod tutorial;
mod versions;
