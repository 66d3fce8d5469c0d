//! The tests of the cluster that need only its public interface, in one program: one crate to link.

mod end_to_end;
mod program;
mod support;
