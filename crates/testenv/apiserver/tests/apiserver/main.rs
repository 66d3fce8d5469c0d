//! The tests of the apiserver that need only its public interface, in one program: one crate to link.

mod apply;
mod depth;
mod determinism;
mod faults;
mod fuzz;
mod fuzz_protobuf;
mod garbage_by_step;
mod invariants;
mod limits;
mod program;
mod rbac;
mod regressions;
mod strategic;
mod support;
mod tables;
mod webhooks;
