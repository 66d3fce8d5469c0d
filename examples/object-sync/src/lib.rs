//! Keeps one object equal to another: the operator [Sinker](https://github.com/influxdata/sinker),
//! rewritten on Windlass.
//!
//! A `ResourceSync` names a source and a target, of any kinds. The target is made of the source: as
//! a copy, or field by field.
//!
//! Reading order:
//!
//! - [`sync`]: the type `ResourceSync`, and its annotations;
//! - [`path`]: a place in an object;
//! - [`mapping`]: what a target looks like;
//! - [`kinds`]: which kinds are watched, as they are only known at run time;
//! - [`status`]: what the condition of a sync says;
//! - [`reconciler`](mod@reconciler): what is done for a sync, and when;
//! - [`demo`]: the story that the program tells without a cluster.

#![forbid(unsafe_code)]

pub mod demo;
pub mod kinds;
pub mod mapping;
pub mod path;
pub mod reconciler;
pub mod run;
pub mod status;
pub mod sync;
