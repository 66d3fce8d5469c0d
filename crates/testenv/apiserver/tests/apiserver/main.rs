//! Tests of the API server through the public interface. One program, because linking takes long.

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
