//! Which run woke which: a run is linked to another one if it wrote the version of an object whose
//! change is a cause of the other.

use std::collections::HashMap;

use windlass_indexer::{ResourceVersion, Uid};
use windlass_reconciler::{Cause, Change, Run, Write};

/// A run that woke another one, by their indexes.
pub(super) struct Link<'r> {
    pub(super) from: usize,
    pub(super) to: usize,
    /// What `from` wrote.
    pub(super) write: &'r Write,
    /// Why `to` ran.
    pub(super) cause: &'r Cause,
}

/// What a write produced: a version of the object with this uid, or `None` if it deleted the object
/// (the answer to a delete has no version).
type WrittenVersion<'r> = (&'r Uid, Option<&'r ResourceVersion>);

/// Which of these runs woke which, in the order of the runs that were woken.
pub(super) fn links<'r>(runs: impl Iterator<Item = &'r Run> + Clone) -> Vec<Link<'r>> {
    let mut writers: HashMap<WrittenVersion<'r>, (usize, &'r Write)> = HashMap::new();
    for (index, run) in runs.clone().enumerate() {
        for write in run.writes.iter().filter(|write| write.has_changed) {
            writers.insert((&write.uid, write.version.as_ref()), (index, write));
        }
    }
    let mut links = Vec::new();
    for (to, run) in runs.enumerate() {
        for cause in &run.causes {
            let Cause::Changed { change, version, uid, .. } = cause else { continue };
            let version = (*change != Change::Deleted).then_some(version);
            if let Some((from, write)) = writers.get(&(uid, version)) {
                links.push(Link { from: *from, to, write, cause });
            }
        }
    }
    links
}
