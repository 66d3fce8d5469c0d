//! Free ports of loopback.
//!
//! They come from below the range that systems take the ports of outgoing connections from: a
//! server that is down for a moment finds its port free when it comes back.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{io, process};

use crate::Error;

/// Outgoing connections have ports from 32768 on with Linux, from 49152 on with others.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// How far apart two processes with neighbouring ids begin to look.
const STRIDE: u32 = 97;

/// How many ports this process has looked at.
static LOOKED_AT: AtomicU32 = AtomicU32::new(0);

/// A port of loopback that nobody listens on, and that this process does not hand out again.
///
/// # Errors
/// If there is none.
pub fn free_port() -> Result<u16, Error> {
    let start = process::id().wrapping_mul(STRIDE);
    first_free((0..COUNT).map(|_| {
        let offset = LOOKED_AT.fetch_add(1, Ordering::Relaxed);
        let number = start.wrapping_add(offset) % u32::from(COUNT);
        FIRST + u16::try_from(number).unwrap_or_default()
    }))
    .map_err(Error::system("find a free port of loopback"))
}

/// The first of `candidates` that nobody listens on; if there is none, why the last one could not
/// be had.
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

    // No test listens on a port that it was given: a process that another test starts at that
    // moment holds a copy of the socket that the port was tried with, for as long as it takes to
    // become its program.

    #[test]
    fn ports_differ() {
        assert_ne!(free_port().expect("a port"), free_port().expect("another port"));
    }

    #[test]
    fn port_that_is_listened_on_is_passed_over() {
        let held =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the system must find a port");
        let taken = held.local_addr().expect("bound").port();
        let other = first_free(iter::once(taken).chain(1024..)).expect("there must be a free port");
        assert_ne!(other, taken);
        let error = first_free([taken]).expect_err("the port is listened on");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
