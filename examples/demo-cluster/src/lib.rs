//! The cluster that the examples run on.
//!
//! Without a flag it is an API server in this process ([`Demo`]), in which pods come and go, so
//! that there is something to see and nothing to break. With `--kubeconfig FILE` it is the cluster
//! that the file names, and the examples only read from it.
//!
//! Reading order: `choice` (which of the two), `demo` (the server and its life), `step` (what may
//! happen next), `objects` (what is there in the beginning).

mod choice;
mod demo;
mod objects;
mod step;

pub use choice::{Choice, Cluster};
pub use demo::{Demo, DemoOptions, bind};
pub use objects::{GROUP_LABEL, pod_group_kind};
