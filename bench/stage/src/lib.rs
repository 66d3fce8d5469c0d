//! What the benchmarks have in common whose contestants are measured on a stage.
//!
//! A stage is a process that holds a filled kube-apiserver and measures contestants, each a process
//! of its own, from outside: their CPU time and memory are read from the system, the same way for
//! every language. A contestant does as the stage says, a line at a time, and answers by lines:
//!
//! ```text
//! → ready                  the process is up and knows where the server is
//! ← start                  begin
//! → synced N               informers: the handler has seen all objects; the cache holds N
//! → reconciled N           controllers: every object has run; it took N runs
//! ← trim                   give free memory back to the system
//! → trimmed
//! ← expect COUNT SINCE     from now on, count objects that were stamped after SINCE
//! → expecting
//! → seen P50 P99           it has seen COUNT of them; latencies in microseconds
//! ```
//!
//! The end of its input ends it. For a stage there are [`serve()`], [`Server`], [`fill()`],
//! [`each`], [`Turns`] and [`Contestant`]; for contestants that are written in Rust, [`play()`],
//! [`Latencies`] and [`trim`]. Those that are written in Go have the same in `bench/stage-go`.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod fill;
mod latencies;
mod memory;
mod play;
mod process;
mod program;
mod serve;
mod server;
mod write;

use std::time::{SystemTime, UNIX_EPOCH};

pub use fill::fill;
pub use latencies::Latencies;
pub use memory::trim;
pub use play::{Start, play};
pub use process::{Contestant, MAX_WAIT, Memory};
pub use program::program;
pub use serve::{Entrant, Measured, Stage, serve};
pub use server::{Server, Turns};
pub use write::{create, each, manager, replace, send};

/// The label with the time at which a change was sent, in [nanoseconds since 1970](now_nanos).
///
/// A label, and not an annotation, because it is what handlers and predicates mostly look at.
pub const STAMP: &str = "bench.windlass.dev/sent";

/// The stamp of an object that was never changed; as long as any other, so that objects keep their
/// size.
pub const NEVER: u64 = 1_000_000_000_000_000_000;

/// The wall time in nanoseconds since 1970, which two processes of one machine can compare.
pub fn now_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // They are too many for this number in the year 2554.
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A number of objects or changes, to calculate with.
#[expect(clippy::cast_precision_loss, reason = "there are less than 2^52 objects")]
pub fn count(objects: usize) -> f64 {
    objects as f64
}
