//! The HTTP endpoints of a manager.
//!
//! - [`listen`]: an address that is served, over plain HTTP or TLS.
//! - [`tls`]: the certificate of a listener, read again when its files change.
//! - [`auth`]: who may read an endpoint, as the API server says.

pub mod auth;
pub mod listen;
pub mod tls;

pub use auth::Authorizer;
pub use listen::{BindError, Listener};
pub use tls::{CertificateState, InvalidCertificate, Tls, TlsError};
