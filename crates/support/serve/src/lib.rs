//! What the HTTP servers of Windlass have in common: those of the manager and its webhooks, and the
//! embedded API server.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use tokio::net::TcpListener;
//! use tokio_util::sync::CancellationToken;
//! use windlass_serve::{BindError, Limits, RequestBody, serve};
//!
//! # async fn run(stop: CancellationToken) -> Result<(), BindError> {
//! let address = "127.0.0.1:8080";
//! let listener = TcpListener::bind(address).await;
//! let listener = listener.map_err(|error| BindError::new(&address, "--address", error))?;
//! let hello = tower::service_fn(async |_: Request<RequestBody>| {
//!     Ok::<_, Infallible>(Response::new("hello".to_owned()))
//! });
//! serve(listener, hello, None, Limits::TRUSTED, &stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: `limits` (what clients may use), `serve` (the accept loop and its connections),
//! `connections` (which one is closed for another), `progress` (the time limits of requests),
//! `tls`, `bind_error`, `log_limit`.

#![forbid(unsafe_code)]

mod bind_error;
mod connections;
mod limits;
mod log_limit;
mod progress;
mod serve;
mod tls;

pub use bind_error::BindError;
pub use limits::Limits;
pub use log_limit::{Line, LogLimit};
pub use progress::RequestBody;
pub use serve::{VerifiedClient, serve};
pub use tls::{server_config, single_certificate};
