//! The tests of the apiserver that need only its public interface, in one program: one crate to
//! link.

mod apply;
mod depth;
mod determinism;
mod faults;
mod fuzz;
mod fuzz_protobuf;
mod garbage_by_step;
mod invariants;
mod limits;
#[cfg(feature = "program")]
mod program;
mod rbac;
mod regressions;
#[cfg(feature = "kubectl")]
mod strategic;
mod support;
#[cfg(feature = "kubectl")]
mod tables;
mod webhooks;
#[cfg(not(feature = "kubectl"))]
mod without_kubectl;
