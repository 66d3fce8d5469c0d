//! `cargo windlass`: starts a Kubernetes operator, and looks inside a running one.
//!
//! Reading order of the source:
//!
//! - `program`: the command line;
//! - `new`: `cargo windlass new`. `new/answers` is what was asked for, `new/names` checks and
//!   derives names, `new/owned` has the kinds that an operator can own, `new/template` and
//!   `new/render` turn the files of `template/` into those of the operator;
//! - `crds`: `cargo windlass crds`;
//! - `rbac`: `cargo windlass rbac`, the Roles of an operator from what its tests do;
//! - `inspect`: `windlass why` and the like, which ask a running operator.
//!
//! `template/` is an operator for the kind `Gadget` that owns every kind there is to choose from.
//! `template-check/` makes it a crate of the workspace, so that it is compiled and tested. A line
//! `// if deployments services` begins a part that stays if the new operator owns one of these
//! kinds, up to the line `// end`.

#![forbid(unsafe_code)]

mod crds;
mod inspect;
mod new;
mod program;
mod rbac;

pub use program::{cargo_main, main};
