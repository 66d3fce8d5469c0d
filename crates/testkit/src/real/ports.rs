//! Free ports of loopback.
//!
//! They come from below the range that systems take the ports of outgoing connections from: a server
//! that is down for a moment finds its port free when it comes back.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;

/// Outgoing connections have ports from 32768 on with Linux, from 49152 on with others.
const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;

/// How far apart two processes with neighbouring ids begin to look.
const STRIDE: u32 = 97;

/// How many ports this process has looked at.
static LOOKED_AT: AtomicU32 = AtomicU32::new(0);

/// A port of loopback that nobody listens on, and that this process does not hand out again.
///
/// # Errors
/// If there is none.
pub(super) fn free() -> Result<u16, Error> {
    let mut result = Ok(0);
    for _ in 0..COUNT {
        let offset = LOOKED_AT.fetch_add(1, Ordering::Relaxed);
        let candidate = FIRST + process::id().wrapping_mul(STRIDE).wrapping_add(offset) % COUNT;
        let port = u16::try_from(candidate).expect("FIRST + COUNT must be a port");
        result = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(|_| port);
        if result.is_ok() {
            break;
        }
    }
    result.map_err(Error::system("find a free port of loopback"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_can_be_listened_on() {
        let (one, other) = (free().expect("a port"), free().expect("another port"));
        assert_ne!(one, other);
        TcpListener::bind((Ipv4Addr::LOCALHOST, one)).expect("the port must be free");
    }

    #[test]
    fn port_that_is_listened_on_is_passed_over() {
        let held: Vec<_> = (0..3)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, free().expect("a port"))))
            .collect::<Result<_, _>>()
            .expect("the ports must be free");
        let next = free().expect("one more port");
        assert!(held.iter().all(|listener| listener.local_addr().expect("bound").port() != next));
    }
}
