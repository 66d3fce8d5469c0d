//! Own creations and deletions of pods that the cache does not show yet.
//!
//! Pods have generated names, so nothing but counting keeps a replica set from making one twice, and a cache that is
//! behind counts wrong. What was written is remembered here until the cache shows it; while it does not, the server is
//! asked instead.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass::indexer::ObjectKey;

use crate::objects::Pod;
use crate::pod::is_active;

/// The writes of every replica set that are still to be seen. Runs of one key do not overlap, so those of one replica
/// set are never changed by two at once.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    sets: Mutex<HashMap<ObjectKey, Writes>>,
}

/// Uids of pods.
#[derive(Debug, Default)]
struct Writes {
    created: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

impl Unseen {
    pub(super) fn created(&self, set: &ObjectKey, pod: &Pod) {
        self.sets().entry(set.clone()).or_default().created.extend(pod.metadata.uid.clone());
    }

    pub(super) fn deleted(&self, set: &ObjectKey, pod: &Pod) {
        self.sets().entry(set.clone()).or_default().deleted.extend(pod.metadata.uid.clone());
    }

    /// Forgets what the cache shows by now. Whether something is left.
    pub(super) fn is_behind(&self, set: &ObjectKey, cached: &[Arc<Pod>]) -> bool {
        self.update(set, |writes| {
            writes.created.retain(|uid| !has(cached, uid, |_| true));
            writes.deleted.retain(|uid| has(cached, uid, is_active));
        })
    }

    /// Forgets created pods that are gone already, which the cache may never show.
    pub(super) fn look_at_live(&self, set: &ObjectKey, live: &[Arc<Pod>]) {
        self.update(set, |writes| writes.created.retain(|uid| has(live, uid, |_| true)));
    }

    /// The replica set is gone.
    pub(super) fn forget(&self, set: &ObjectKey) {
        self.sets().remove(set);
    }

    /// Whether something is left after the change.
    fn update(&self, set: &ObjectKey, change: impl FnOnce(&mut Writes)) -> bool {
        let mut sets = self.sets();
        let Some(writes) = sets.get_mut(set) else { return false };
        change(writes);
        let is_empty = writes.created.is_empty() && writes.deleted.is_empty();
        if is_empty {
            sets.remove(set);
        }
        !is_empty
    }

    fn sets(&self) -> MutexGuard<'_, HashMap<ObjectKey, Writes>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether there is such a pod among them.
fn has(pods: &[Arc<Pod>], uid: &str, passes: impl Fn(&Pod) -> bool) -> bool {
    pods.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid) && passes(pod))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str) -> Arc<Pod> {
        Arc::new(serde_json::from_value(json!({"metadata": {"uid": uid}})).expect("a pod"))
    }

    #[test]
    fn cache_is_behind_until_it_shows_what_was_made() {
        let (unseen, set) = (Unseen::default(), ObjectKey::namespaced("a", "web"));
        assert!(!unseen.is_behind(&set, &[]));
        unseen.created(&set, &pod("1"));
        assert!(unseen.is_behind(&set, &[]));
        // The live view has it, which does not help the cache.
        unseen.look_at_live(&set, &[pod("1")]);
        assert!(unseen.is_behind(&set, &[pod("2")]));
        assert!(!unseen.is_behind(&set, &[pod("1")]));
        assert!(!unseen.is_behind(&set, &[]));
    }

    #[test]
    fn created_pod_that_is_gone_is_not_waited_for() {
        let (unseen, set) = (Unseen::default(), ObjectKey::namespaced("a", "web"));
        unseen.created(&set, &pod("1"));
        unseen.look_at_live(&set, &[]);
        assert!(!unseen.is_behind(&set, &[]));
    }

    #[test]
    fn cache_is_behind_while_it_shows_what_was_deleted() {
        let (unseen, set) = (Unseen::default(), ObjectKey::namespaced("a", "web"));
        unseen.deleted(&set, &pod("1"));
        assert!(unseen.is_behind(&set, &[pod("1")]));
        assert!(!unseen.is_behind(&set, &[]));
    }
}
