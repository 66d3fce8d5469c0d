//! The keys that do not run although something may be wrong with them: those whose object is
//! paused, those that were given up, and those with a terminal error.
//!
//! A key is listed from the run that made it inactive until its next run. A key whose object is
//! gone may have no further run, if a predicate ignores the deletion: it is not shown, and is
//! forgotten when there are many. So there are about as many as there are objects.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_indexer::{ObjectKey, Reader};

/// Why a key does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InactiveReason {
    /// Its object is [paused](crate::ControllerBuilder::paused_by). It runs when it is not.
    Paused,
    /// All of its [attempts](crate::ControllerBuilder::max_attempts) failed. It runs when something
    /// changes.
    GivenUp,
    /// Its last run ended with a [terminal](crate::Error::terminal) error. It runs when something
    /// changes.
    Terminal,
}

/// A key that does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InactiveKey {
    /// The key.
    pub key: ObjectKey,
    /// Why it does not run.
    pub reason: InactiveReason,
    /// Since when.
    pub since: Instant,
}

/// The keys of a controller that do not run, in their order.
pub(crate) struct InactiveKeys {
    objects: Reader,
    state: Mutex<State>,
}

struct State {
    keys: BTreeMap<ObjectKey, Inactive>,
    /// The number of keys at which those without an object are forgotten next.
    sweep_at: usize,
}

struct Inactive {
    reason: InactiveReason,
    since: Instant,
    /// Whether its last run has found its object paused. The hook for that may have failed, so that
    /// the reason is another one.
    was_paused: bool,
}

/// From this many keys on, those without an object are forgotten.
const SWEEP_MIN: usize = 1_024;

impl InactiveKeys {
    /// The inactive keys of a controller that reconciles these objects.
    pub(crate) fn new(objects: Reader) -> Self {
        let state = State { keys: BTreeMap::new(), sweep_at: SWEEP_MIN };
        Self { objects, state: Mutex::new(state) }
    }

    pub(crate) fn insert(&self, key: &ObjectKey, reason: InactiveReason, was_paused: bool) {
        let mut state = self.state.lock();
        let inactive = Inactive { reason, since: Instant::now(), was_paused };
        state.keys.insert(key.clone(), inactive);
        if state.keys.len() >= state.sweep_at {
            state.keys.retain(|key, _| self.has_object(key));
            state.sweep_at = SWEEP_MIN.max(2 * state.keys.len());
        }
    }

    /// The key runs again. Returns why it did not.
    pub(crate) fn remove(&self, key: &ObjectKey) -> Option<InactiveReason> {
        self.state.lock().keys.remove(key).map(|inactive| inactive.reason)
    }

    pub(crate) fn is_paused(&self, key: &ObjectKey) -> bool {
        self.has(key, |inactive| inactive.reason == InactiveReason::Paused)
    }

    /// Whether it does not run, and its last run has found its object paused.
    pub(crate) fn was_paused(&self, key: &ObjectKey) -> bool {
        self.has(key, |inactive| inactive.was_paused)
    }

    fn has(&self, key: &ObjectKey, what: impl FnOnce(&Inactive) -> bool) -> bool {
        self.state.lock().keys.get(key).is_some_and(what)
    }

    pub(crate) fn all(&self) -> Vec<InactiveKey> {
        let state = self.state.lock();
        let inactive = state.keys.iter().filter(|(key, _)| self.has_object(key));
        let inactive = inactive.map(|(key, &Inactive { reason, since, .. })| {
            let key = key.clone();
            InactiveKey { key, reason, since }
        });
        inactive.collect()
    }

    fn has_object(&self, key: &ObjectKey) -> bool {
        self.objects.get(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use windlass_indexer::Store;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn flood_of_keys_whose_objects_are_gone_is_bounded_and_the_others_stay() {
        let mut store = Store::new();
        let key = |name: &str| name.parse::<ObjectKey>().expect("a key");
        for number in 0..100 {
            let object = format!(r#"{{"metadata":{{"name":"there-{number}"}}}}"#);
            store.put_bytes(object.as_bytes()).expect("an object");
        }
        let inactive = InactiveKeys::new(store.reader());
        for number in 0..100 {
            inactive.insert(&key(&format!("there-{number}")), InactiveReason::Paused, true);
        }
        for number in 0..3 * SWEEP_MIN {
            inactive.insert(&key(&format!("gone-{number}")), InactiveReason::Terminal, false);
            assert!(inactive.state.lock().keys.len() <= SWEEP_MIN);
        }
        assert_eq!(inactive.all().len(), 100);
        assert!(inactive.was_paused(&key("there-99")));
    }

    /// As many as there are objects, however many that are.
    #[tokio::test(start_paused = true)]
    async fn keys_whose_objects_are_there_are_all_kept() {
        let (mut store, count) = (Store::new(), 2 * SWEEP_MIN);
        for number in 0..count {
            let object = format!(r#"{{"metadata":{{"name":"there-{number}"}}}}"#);
            store.put_bytes(object.as_bytes()).expect("an object");
        }
        let inactive = InactiveKeys::new(store.reader());
        for number in 0..count {
            let key = format!("there-{number}").parse().expect("a key");
            inactive.insert(&key, InactiveReason::GivenUp, false);
        }
        assert_eq!(inactive.all().len(), count);
    }
}
