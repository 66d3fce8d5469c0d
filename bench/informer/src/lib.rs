//! What the stage and its contestants have agreed upon.
//!
//! `informer-stage` holds a filled kube-apiserver and measures contestants, one process at a time, from
//! outside: their CPU time and memory are read from the system, the same way for every language. A
//! contestant holds one informer of pods. It does as the stage says, a line at a time, and answers by lines:
//!
//! ```text
//! → ready                  the process is up and knows where the server is
//! ← start                  make an informer
//! → synced N               the handler has seen all pods; the cache holds N
//! ← trim                   give free memory back to the system
//! → trimmed
//! ← expect COUNT SINCE     from now on, count pods that were stamped after SINCE
//! → expecting
//! → seen P50 P99           the handler has seen COUNT of them; latencies in microseconds
//! ```
//!
//! The end of its input ends it. The contestants of this crate are in `informer-contestant`, those that are
//! written in Go in `bench/informer-go`.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::time::{SystemTime, UNIX_EPOCH};

/// The label with the time at which a change was sent, in [nanoseconds since 1970](now_nanos).
///
/// A label, and not an annotation, because it is what handlers and predicates mostly look at.
pub const STAMP: &str = "bench.windlass.dev/sent";

/// The wall time in nanoseconds since 1970, which two processes of one machine can compare.
pub fn now_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // They are too many for this number in the year 2554.
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
