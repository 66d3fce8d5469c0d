//! What the HTTP servers of Windlass have in common: those of the manager and its webhooks, and the
//! embedded API server.
//!
//! [`server_config`] is the TLS of a server, [`LogLimit`] bounds the log lines that clients can
//! cause.

#![forbid(unsafe_code)]

mod log_limit;
mod tls;

pub use log_limit::{Line, LogLimit};
pub use tls::{server_config, single_certificate};
