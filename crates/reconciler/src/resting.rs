//! The keys that do not run although something may be wrong with them: those whose object is paused,
//! and those that were given up.
//!
//! A key is in here from the run that found it so until its next run. So there are at most as many
//! as there are objects.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use windlass_indexer::ObjectKey;

/// Why a key does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest {
    /// Its object is [paused](crate::ControllerBuilder::paused_by). It runs when it is not.
    Paused,
    /// All of its [attempts](crate::ControllerBuilder::max_attempts) failed. It runs when something
    /// changes.
    GivenUp,
}

/// A key that does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestingKey {
    /// The key.
    pub key: ObjectKey,
    /// Why it does not run.
    pub why: Rest,
    /// Since when.
    pub since: Instant,
}

/// The keys of a controller that do not run, in their order.
#[derive(Debug, Default)]
pub(crate) struct Resting(Mutex<BTreeMap<ObjectKey, (Rest, Instant)>>);

impl Resting {
    pub(crate) fn insert(&self, key: &ObjectKey, why: Rest) {
        self.lock().insert(key.clone(), (why, Instant::now()));
    }

    /// The key runs again. Returns why it did not.
    pub(crate) fn remove(&self, key: &ObjectKey) -> Option<Rest> {
        self.lock().remove(key).map(|(why, _)| why)
    }

    pub(crate) fn is_paused(&self, key: &ObjectKey) -> bool {
        self.lock().get(key).is_some_and(|(why, _)| *why == Rest::Paused)
    }

    /// How many keys rest for this reason.
    pub(crate) fn count(&self, why: Rest) -> usize {
        self.lock().values().filter(|(of, _)| *of == why).count()
    }

    pub(crate) fn all(&self) -> Vec<RestingKey> {
        let keys = self.lock();
        let resting = keys.iter();
        resting
            .map(|(key, (why, since))| RestingKey { key: key.clone(), why: *why, since: *since })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (Rest, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
