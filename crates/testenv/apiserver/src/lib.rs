//! An embedded Kubernetes API server: in memory, in process, deterministic, with faults on demand.
//!
//! It answers controllers, informers and their tests as kube-apiserver does; one conformance suite
//! runs on both. `crates/testenv/APISERVER.md` lists what is supported, what is not, and the
//! answers to unsupported requests.
//!
//! ```
//! use windlass_apiserver::{ApiServer, Fault, FaultRule};
//!
//! let server = ApiServer::builder().seed(7).build();
//! // In process: kube::Client::new(server.service(), "default").
//! // Over loopback: server.listen(address).
//!
//! // The first watch of pods breaks off after 100 bytes, in the middle of a line if need be.
//! let cut = Fault::CutAnswer { after_bytes: 100 };
//! server.faults().add(FaultRule::new(cut).verb("watch").resource("pods").times(1));
//! ```
//!
//! # The path of a request
//!
//! [`ApiService`] receives a request and injects faults. `route`, `query` and `accept` parse it.
//! `access` authenticates the sender and authorizes the request. `api` dispatches on the verb. From
//! there on everything is synchronous, under the one lock of `shared`: `write` and `list` work on
//! `state`, which holds the `store` (objects as bytes, one revision counter, a log of changes for
//! each kind) and the `kinds` (built-in ones from a table, custom ones from their definitions; both
//! have the same type). After a write, `controllers` run until nothing changes any more:
//! definitions become kinds, namespaces are emptied, garbage is collected, aggregated roles are
//! filled. A `watch` reads from the log at its own pace.
//!
//! Only webhooks are waited for: a write that needs one ends before anything is stored, the webhook
//! is called without the lock, and the write starts again with its answer (`webhook`).
//!
//! # Features
//!
//! `kubectl`, on by default: tables, `OpenAPI` documents and strategic merge patches, which only
//! kubectl asks for. Without it a table is refused as an unknown media type is, `/openapi` is a
//! 404, and a strategic merge patch is a 415. `program`, on by default: the program of the same
//! name, and the module `program`. Libraries turn both off.
//!
//! # Determinism
//!
//! Uids, generated names and the chances of faults come from [`Builder::seed`], stored times from
//! [`Builder::clock`], waiting from tokio's clock, and every map whose iteration order is visible
//! is ordered: the same requests in the same order give the same bytes.

#![forbid(unsafe_code)]
// Items that only the feature-gated modules use do not have a `cfg` of their own.
#![cfg_attr(not(feature = "kubectl"), allow(dead_code))]

mod accept;
mod access;
mod accounts;
mod api;
mod auth;
mod body;
mod cel;
mod clock;
mod controllers;
mod crd;
mod deprecation;
mod discovery;
mod failure;
mod fault;
mod field_error;
mod fields;
mod filter;
mod go_decoder;
mod ids;
mod impersonate;
mod json;
mod kind;
mod kinds;
mod kubeconfig;
mod list;
mod listen;
mod merge_schema;
mod metadata;
mod object;
#[cfg_attr(not(feature = "kubectl"), path = "no_openapi.rs")]
mod openapi;
#[cfg(feature = "program")]
pub mod program;
mod protobuf;
mod query;
mod rbac;
mod reply;
mod request;
mod route;
mod schema;
mod selector;
mod server;
mod service;
mod shared;
mod state;
mod store;
#[cfg_attr(not(feature = "kubectl"), path = "no_table.rs")]
mod table;
mod target;
mod tls;
mod user;
mod watch;
mod webhook;
mod write;

pub use auth::{Authorization, Rule};
pub use body::{Body, BodyError};
pub use clock::WallClock;
pub use fault::{Fault, FaultId, FaultRule, Faults};
pub use kubeconfig::Kubeconfig;
pub use listen::Listening;
pub use request::RequestInfo;
pub use server::{ApiServer, Builder, Snapshot};
pub use service::{ApiService, Disconnected};
pub use tls::{Tls, TlsError};
pub use user::User;
pub use webhook::backend::Webhooks;
