//! Whole-system tests: those that need a cluster, or more than one crate.
//!
//! The conformance suite: every case is one body that talks to a server; its answers are compared
//! with those of a real kube-apiserver. Reading order, along the flow of data:
//!
//! - [`cases`]: the list of all cases, and their bodies by area;
//! - `script`: the vocabulary of a case, with `request`, `answer` and `watching`;
//! - `target`: the server under test, embedded or real;
//! - `fixtures`: shared objects and definitions, and `rights`: users with roles;
//! - `transcript`: requests and answers, made comparable by `normalise`;
//! - `recording`: the transcripts of the real server, in `tests/recordings`, formatted by `render`;
//! - [`runner`]: runs a case, and compares or records it; `diff` shows a difference;
//! - [`roles`]: the initial roles of a real server;
//! - [`observed`]: the answers of a real server that unit tests of the embedded one compare with.
//!
//! Failovers of real processes:
//!
//! - [`replica`]: a replica as a process that can be killed and paused;
//! - [`failover`]: the objects of the operator `replica`, and what the audit log must show.
//!
//! [`mistakes`]: what the compiler says about the likeliest mistakes of users.

pub mod cases;
pub mod failover;
pub mod mistakes;
pub mod observed;
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

/// The code of the page for people who come from another framework, compiled like every other
/// example.
#[cfg(doctest)]
#[doc = include_str!("../../docs/coming-from.md")]
struct ComingFrom;
