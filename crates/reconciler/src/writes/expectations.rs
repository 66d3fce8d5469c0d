//! Writes that caches may not show yet, by the key whose runs made them.
//!
//! Whether the caches show them is checked when the key is about to run again, and when there are
//! many keys, or many writes of one key. Those that the caches show are forgotten.
//!
//! Their number is bounded by what the caches do not show yet: as many writes as a controller makes
//! within the delay of its watches, and mostly the last one of each object. There is no other
//! limit. It would not be enough to wait for the newest version of a resource: caches select by
//! labels and names, and a cache that does not select the newest write may select earlier ones. And
//! a completed deletion has no version to wait for.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_indexer::ObjectKey;

use crate::writes::write::{TrackedWrite, WrittenObject};

/// From this many writes of a key on, those that need not be waited for are dropped.
const WRITES_MIN: usize = 64;

/// From this many keys on, those whose writes have all been seen are dropped.
const SWEEP_MIN: usize = 1_024;

pub(crate) struct Expectations {
    state: Mutex<State>,
}

struct State {
    /// Shared with a worker that waits for them.
    keys: HashMap<ObjectKey, Arc<PendingWrites>, RandomState>,
    /// The number of keys at which the next sweep happens.
    sweep_at: usize,
}

/// What the runs of a key have written.
#[derive(Clone)]
pub(crate) struct PendingWrites {
    /// In the order in which they were made.
    pub(crate) writes: Vec<TrackedWrite>,
    /// Whether the next run reports `cache_behind`, even if the caches show all of `writes`:
    /// because an answer was lost, because a cache may never show a write, or because the run that
    /// should have reported it did not begin.
    pub(crate) reports_behind: bool,
    /// When the run that made the last of them ended.
    pub(crate) since: Instant,
    /// The number of writes at which seen ones are dropped next.
    forget_at: usize,
}

impl Expectations {
    pub(crate) fn new() -> Self {
        let state = State { keys: HashMap::default(), sweep_at: SWEEP_MIN };
        Self { state: Mutex::new(state) }
    }

    /// Adds what a run of `key` has written. `is_seen` says whether a write need not be waited for.
    pub(crate) fn put(
        &self,
        key: &ObjectKey,
        pending: PendingWrites,
        is_seen: impl Fn(&TrackedWrite) -> bool,
    ) {
        if pending.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let held = Arc::make_mut(state.keys.entry(key.clone()).or_default());
        held.append(pending, &is_seen);
        held.since = Instant::now();
        if state.keys.len() >= state.sweep_at {
            let is_awaited = |pending: &PendingWrites| {
                pending.reports_behind || !pending.writes.iter().all(&is_seen)
            };
            state.keys.retain(|_, pending| is_awaited(pending));
            state.sweep_at = SWEEP_MIN.max(2 * state.keys.len());
        }
    }

    /// Puts back what was taken, and is still not seen.
    pub(crate) fn put_back(&self, key: &ObjectKey, mut pending: PendingWrites) {
        if pending.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        // Somebody may have written meanwhile with the client of an earlier run.
        if let Some(later) = state.keys.remove(key) {
            pending.since = later.since;
            pending.append(Arc::unwrap_or_clone(later), |_| false);
        }
        state.keys.insert(key.clone(), Arc::new(pending));
    }

    /// What the runs of a key have written, and the caches may not show yet.
    pub(crate) fn pending(&self, key: &ObjectKey) -> Option<Arc<PendingWrites>> {
        self.state.lock().keys.get(key).cloned()
    }

    /// Takes what the runs of a key have written since the last call.
    pub(crate) fn take(&self, key: &ObjectKey) -> Option<PendingWrites> {
        let taken = self.state.lock().keys.remove(key);
        taken.map(Arc::unwrap_or_clone)
    }
}

impl PendingWrites {
    /// Adds a write.
    pub(crate) fn add(&mut self, tracked: TrackedWrite, is_seen: impl Fn(&TrackedWrite) -> bool) {
        self.writes.push(tracked);
        if self.writes.len() >= self.forget_at {
            self.forget_seen(is_seen);
            self.forget_at = WRITES_MIN.max(2 * self.writes.len());
        }
    }

    fn append(&mut self, later: PendingWrites, is_seen: impl Fn(&TrackedWrite) -> bool) {
        self.reports_behind |= later.reports_behind;
        for tracked in later.writes {
            self.add(tracked, &is_seen);
        }
    }

    /// Forgets writes that need not be waited for: those that were seen, and those that a later one
    /// supersedes.
    ///
    /// A completed deletion counts as seen while the cache does not have the object. That is also
    /// the case before the cache has shown its creation. So a seen write is kept while an earlier
    /// write to the same object is kept.
    pub(crate) fn forget_seen(&mut self, is_seen: impl Fn(&TrackedWrite) -> bool) {
        let mut kept: Vec<TrackedWrite> = Vec::new();
        // The index of the last write to each object.
        let mut last: HashMap<WrittenObject, usize, RandomState> = HashMap::default();
        for tracked in self.writes.drain(..) {
            let object = tracked.write.object();
            match last.get(&object) {
                Some(&index) if tracked.supersedes(&kept[index]) => kept[index] = tracked,
                None if is_seen(&tracked) => {}
                Some(_) | None => {
                    last.insert(object, kept.len());
                    kept.push(tracked);
                }
            }
        }
        self.writes = kept;
    }

    fn is_empty(&self) -> bool {
        self.writes.is_empty() && !self.reports_behind
    }
}

impl Default for PendingWrites {
    fn default() -> Self {
        let since = Instant::now();
        Self { writes: Vec::new(), reports_behind: false, since, forget_at: WRITES_MIN }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;
    use crate::writes::authorship::BeforeWrite;
    use crate::writes::write::Verb;
    use windlass_informer::client::RequestTarget;

    fn target(plural: &str, name: &str) -> RequestTarget {
        let path = format!("/api/v1/namespaces/shop/{plural}/{name}");
        RequestTarget::of(&path).expect("a target")
    }

    fn tracked(verb: Verb, target: RequestTarget, answer: &[u8]) -> TrackedWrite {
        let before = BeforeWrite::default();
        TrackedWrite::of(verb, target, &before, StatusCode::CREATED, answer).expect("a write")
    }

    fn put(plural: &str, name: &str, version: usize, app: &str) -> TrackedWrite {
        let answer = json!({"metadata": {
            "name": name, "namespace": "shop", "uid": name, "labels": {"app": app},
            "resourceVersion": version.to_string(),
        }});
        let answer = answer.to_string();
        tracked(Verb::Patch, target(plural, name), answer.as_bytes())
    }

    fn delete(name: &str) -> TrackedWrite {
        let answer = json!({"kind": "Status", "details": {"uid": name}}).to_string();
        tracked(Verb::Delete, target("pods", name), answer.as_bytes())
    }

    fn told(pending: &PendingWrites) -> Vec<String> {
        pending.writes.iter().map(|tracked| tracked.write.to_string()).collect()
    }

    #[test]
    fn writes_that_were_seen_do_not_pile_up() {
        let mut pending = PendingWrites::default();
        for number in 1..=10_000 {
            pending.add(put("pods", &format!("pod-{number}"), number, "web"), |_| true);
            assert!(pending.writes.len() < WRITES_MIN);
        }
    }

    #[test]
    fn writes_to_one_object_do_not_pile_up_though_none_is_seen() {
        let mut pending = PendingWrites::default();
        for number in 1..=10_000 {
            // Two kinds, whose objects have the same name.
            pending.add(put("pods", "web", 2 * number, "web"), |_| false);
            pending.add(put("services", "web", 2 * number + 1, "web"), |_| false);
            assert!(pending.writes.len() < WRITES_MIN);
        }
        pending.forget_seen(|_| false);
        let last = ["patch pods shop/web at 20000", "patch services shop/web at 20001"];
        assert_eq!(told(&pending), last);
    }

    #[test]
    fn writes_to_many_objects_that_no_cache_shows_are_all_waited_for() {
        let mut pending = PendingWrites::default();
        for number in 1..=1_000 {
            pending.add(put("pods", &format!("pod-{number}"), number, "web"), |_| false);
        }
        assert_eq!(pending.writes.len(), 1_000);
    }

    /// A cache that selects by labels shows one of them, and takes the other away.
    #[test]
    fn write_with_other_labels_does_not_stand_for_those_before() {
        let mut pending = PendingWrites::default();
        for (version, app) in [(1, "web"), (2, "web"), (3, "other")] {
            pending.add(put("pods", "web", version, app), |_| false);
        }
        pending.forget_seen(|_| false);
        assert_eq!(told(&pending), ["patch pods shop/web at 2", "patch pods shop/web at 3"]);
    }

    /// The deletion counts as seen, since the cache does not hold the object, yet.
    #[test]
    fn deletion_is_kept_with_a_creation_that_is_not_seen() {
        let mut pending = PendingWrites::default();
        let is_seen = |tracked: &TrackedWrite| tracked.write.version.is_none();
        pending.add(put("pods", "brief", 1, "web"), is_seen);
        pending.add(delete("brief"), is_seen);
        pending.add(delete("other"), is_seen);
        pending.forget_seen(is_seen);
        assert_eq!(told(&pending), ["patch pods shop/brief at 1", "delete pods shop/brief"]);
    }
}
