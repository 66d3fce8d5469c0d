//! Certificates that an operator makes itself, on the embedded API server.

pub(crate) mod cluster;
mod rotation;
mod sharing;
mod trouble;
