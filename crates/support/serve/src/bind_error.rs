//! Why an address cannot be bound.

use std::io;

/// An address cannot be bound. The message says why, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.message())]
pub struct BindError {
    address: String,
    flag: String,
    source: io::Error,
}

impl BindError {
    /// `flag` is the flag of the program that sets the address.
    pub fn new(address: &impl ToString, flag: &str, source: io::Error) -> Self {
        Self { address: address.to_string(), flag: flag.to_owned(), source }
    }

    fn message(&self) -> String {
        let Self { address, flag, source } = self;
        let example = "127.0.0.1:8080, or 0.0.0.0:8080 for all addresses of the machine";
        match source.kind() {
            io::ErrorKind::AddrInUse => format!(
                "address {address} is in use: stop the other process, or choose another port with \
                 {flag}"
            ),
            io::ErrorKind::PermissionDenied => format!(
                "this user may not listen on address {address}: choose a port above 1023 with \
                 {flag}"
            ),
            io::ErrorKind::AddrNotAvailable => format!(
                "address {address} is not an address of this machine: choose another one with \
                 {flag}, such as {example}"
            ),
            _ => format!(
                "address {address} cannot be bound ({source}): give {flag} a host and a port, such \
                 as {example}"
            ),
        }
    }
}
