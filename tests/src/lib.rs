//! Tests of the whole: what needs a cluster, and what needs more than one crate.
//!
//! The conformance suite: every case is one body that talks to a server and is compared with what a
//! real kube-apiserver answered. Reading order, along the way of the data:
//!
//! - [`cases`]: the list of all cases, and their bodies by area;
//! - `script`: the vocabulary in which a case is written, with `request`, `answer` and `watching`;
//! - `target`: the server that is asked, embedded or real;
//! - `fixtures`: the objects and definitions that cases share, and `rights`: users with roles;
//! - `transcript`: what was asked and answered, made comparable by `normalise`;
//! - `recording`: the transcripts of the real server, in `tests/recordings`, printed by `render`;
//! - [`runner`]: runs a case and compares, or records it; a difference is shown by `diff`;
//! - [`roles`]: the roles that a real server starts with.
//!
//! Failovers of real processes:
//!
//! - [`replica`]: a replica as a process that can be killed and paused;
//! - [`failover`]: the objects of the operator `replica`, and what the audit log must show.

pub mod cases;
pub mod failover;
pub mod replica;
pub mod roles;
pub mod runner;

mod answer;
pub mod diff;
mod fixtures;
mod hook_server;
mod normalise;
mod protobuf;
mod recording;
mod render;
mod request;
mod rights;
mod script;
mod target;
mod transcript;
mod watching;

pub use script::Script;

/// The code of the page for people who come from another framework, checked as every other example.
#[cfg(doctest)]
#[doc = include_str!("../../docs/coming-from.md")]
struct ComingFrom;
