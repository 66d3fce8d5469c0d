//! `cargo windlass`: starts a Kubernetes operator, adds to it, and looks inside a running one.
//!
//! Reading order of the source:
//!
//! - `program`: the command line;
//! - `new`: `cargo windlass new`. `new/answers` asks the user, `new/names` checks and derives
//!   names, `new/owned` has the kinds that an operator can own, `new/template` and `new/render`
//!   turn the files of `template/` into those of the operator;
//! - `add`: `cargo windlass add`, which changes an operator;
//! - `crds` and `manifests`: the CRDs of the operator in the current folder. `definitions` reads
//!   them, `compatibility` compares two releases, `diff` compares texts. `package` finds the
//!   package in a folder, and the cargo that builds it;
//! - `rbac`: `cargo windlass rbac`, which derives the Roles of an operator from the requests that
//!   it sends in its tests;
//! - `inspect`: `windlass why` and the like, which query a running operator.
//!
//! `template/` is an operator for the kind `Gadget` that owns every kind that `--owns` offers.
//! `template-check/` makes it a crate of the workspace, so that it is compiled and tested. A line
//! `// if deployments services` begins a part that is kept if the new operator owns one of these
//! kinds, up to the line `// end`. `template-added/` is the recorded output of `new` and then
//! `add` (`cargo xtask record template`); it is a crate of the workspace, too.

#![forbid(unsafe_code)]

mod add;
mod compatibility;
mod crds;
mod definitions;
mod diff;
mod inspect;
mod manifests;
mod new;
mod package;
mod program;
mod rbac;

pub use program::{cargo_main, kubectl_main, main};
