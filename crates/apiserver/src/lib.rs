//! An embedded Kubernetes API server: in memory, in process, deterministic, with faults on demand.

#![allow(dead_code)]

mod accept;
mod api;
mod auth;
mod body;
mod clock;
mod controllers;
mod crd;
mod discovery;
mod failure;
mod fault;
mod field_error;
mod filter;
mod ids;
mod kinds;
mod list;
mod listen;
mod metadata;
mod object;
mod query;
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
mod watch;
mod write;

pub use auth::{Rule, User};
pub use body::{Body, BodyError};
pub use clock::WallClock;
pub use fault::{Fault, FaultId, FaultRule, Faults};
pub use listen::Listening;
pub use request::RequestInfo;
pub use server::{ApiServer, Builder, Snapshot};
pub use service::{ApiService, Disconnected};
