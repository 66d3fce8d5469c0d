//! Free loopback ports.
//!
//! They are below the ephemeral range, from which systems take the ports of outgoing connections.
//! So a server that is restarted finds its port still free.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{io, process};

use crate::Error;

/// The ephemeral range starts at 32768 on Linux, at 49152 on other systems.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// The distance between the first candidates of two processes with consecutive ids.
const STRIDE: u32 = 97;

/// How many ports this process has tried.
static PORTS_TRIED: AtomicU32 = AtomicU32::new(0);

/// Returns a loopback port that nobody listens on, and that this process does not hand out again.
///
/// # Errors
/// If there is no free port.
pub fn free_port() -> Result<u16, Error> {
    let start = process::id().wrapping_mul(STRIDE);
    first_free((0..COUNT).map(|_| {
        let offset = PORTS_TRIED.fetch_add(1, Ordering::Relaxed);
        let number = start.wrapping_add(offset) % u32::from(COUNT);
        FIRST + u16::try_from(number).unwrap_or_default()
    }))
    .map_err(Error::system("find a free port of loopback"))
}

/// Returns the first of `candidates` that nobody listens on; else the error of the last one.
fn first_free(candidates: impl IntoIterator<Item = u16>) -> io::Result<u16> {
    let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
    for port in candidates {
        result = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(|_| port);
        if result.is_ok() {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    // These tests do not listen on a returned port: a process that another test starts at that
    // moment holds a copy of the socket that probed the port, until it executes its program.

    #[test]
    fn ports_differ() {
        assert_ne!(free_port().expect("a port"), free_port().expect("another port"));
    }

    #[test]
    fn port_in_use_is_skipped() {
        let held =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the system must find a port");
        let taken = held.local_addr().expect("bound").port();
        let other = first_free(iter::once(taken).chain(1024..)).expect("there must be a free port");
        assert_ne!(other, taken);
        let error = first_free([taken]).expect_err("the port is listened on");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
