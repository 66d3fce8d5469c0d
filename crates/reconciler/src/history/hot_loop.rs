//! Hot loops: keys that their own writes wake again and again.
//!
//! A run is self-caused if all of its causes are [by us](crate::Cause::is_by_us): nothing but
//! writes of earlier runs of its key has woken it. Runs in a row that are self-caused, and each of
//! which changes again what the run before has written, are a hot loop.

use tokio::time::Instant;

use crate::cause::Cause;
use crate::history::run_record::Run;
use crate::writes::write::{Verb, Write};

/// How many such runs in a row are a hot loop.
pub(crate) const HOT_LOOP_AT: u64 = 10;

/// Runs of a key that wake themselves: each was caused by nothing but the writes of the run before,
/// and changed the same object again. See [`Controller::hot_loops`](crate::Controller::hot_loops).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotLoop {
    /// How many in a row.
    pub runs: u64,
    /// What the last one wrote again, as in `patch deployments shop/web at 17`.
    pub write: String,
    /// When the last one ended.
    pub ended: Instant,
}

/// The first write of a self-caused run that changed what the run before had written.
///
/// A create does not count: the next one makes another object. Nor does a write that is not known
/// to have changed anything, since it does not wake the key again. Of a run with many writes, only
/// the writes that were kept are compared.
pub(crate) fn repeated_write<'r>(before: &Run, run: &'r Run) -> Option<&'r Write> {
    let is_self_caused =
        !run.causes.is_empty() && run.causes_omitted == 0 && run.causes.iter().all(Cause::is_by_us);
    let is_change = |write: &Write| write.has_changed() && write.verb != Verb::Create;
    let is_repeated = |write: &Write| {
        before.writes.iter().any(|before| before.is_same_place(write))
            || before.made.iter().any(|made| made.is_same_place(write))
    };
    let mut writes = run.writes.iter().filter(|_| is_self_caused);
    writes.find(|write| is_change(write) && is_repeated(write))
}

pub(crate) fn is_power_of_ten(number: u64) -> bool {
    number.checked_ilog10().is_some_and(|digits| number == 10_u64.pow(digits))
}
