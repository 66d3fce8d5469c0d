//! The informers of a factory, by what identifies them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tokio_util::sync::DropGuard;

use crate::resource::Resource;
use crate::share::engine::Engine;
use crate::share::informer::KeepAlive;
use crate::share::options::Identity;
use crate::telemetry::status::InformerPhase;

/// The informers of a factory. Those without a user stay until the factory is started again.
#[derive(Default)]
pub(crate) struct Registry(BTreeMap<Identity, Entry>);

struct Entry {
    engine: Arc<Engine>,
    /// Shared by all users of the informer. It stops when the last of them is dropped.
    user: Weak<DropGuard>,
    is_started: bool,
}

impl Registry {
    pub(crate) fn insert(&mut self, identity: Identity, engine: &Arc<Engine>, user: &KeepAlive) {
        let engine = Arc::clone(engine);
        let user = Arc::downgrade(user);
        self.0.insert(identity, Entry { engine, user, is_started: false });
    }

    /// Finds an informer that has what is wanted. One that caches only metadata is changed to cache
    /// whole objects if these are wanted and it does not run yet.
    pub(crate) fn find(&mut self, wanted: &Identity) -> Option<(Arc<Engine>, KeepAlive)> {
        let whole = Identity { metadata_only: false, ..wanted.clone() };
        if let Some(found) = self.0.get(&whole).and_then(Entry::use_again) {
            // Whole objects include the metadata.
            return Some(found);
        }
        let partial = Identity { metadata_only: true, ..wanted.clone() };
        let found = self.0.get(&partial)?.use_again()?;
        if wanted.metadata_only {
            return Some(found);
        }
        if !found.0.want_whole_objects() {
            return None;
        }
        let entry = self.0.remove(&partial)?;
        self.0.insert(whole, entry);
        Some(found)
    }

    /// The informers that have a user.
    pub(crate) fn used(&self) -> Vec<Arc<Engine>> {
        let used = self.0.values().filter(|entry| entry.is_used());
        used.map(|entry| Arc::clone(&entry.engine)).collect()
    }

    /// The used informers that were not returned by this before, to be started. Forgets those
    /// without a user.
    pub(crate) fn take_new(&mut self) -> Vec<Arc<Engine>> {
        self.0.retain(|_, entry| entry.is_used());
        let new = self.0.values_mut().filter(|entry| !entry.is_started);
        new.map(|entry| {
            entry.is_started = true;
            Arc::clone(&entry.engine)
        })
        .collect()
    }

    /// An informer that was started neither by the factory nor by its user.
    pub(crate) fn never_started(&self) -> Option<Resource> {
        let is_idle =
            |entry: &&Entry| entry.is_used() && !entry.is_started && entry.engine.is_new();
        self.0.values().find(is_idle).map(|entry| entry.engine.resource.clone())
    }

    /// Removes an informer that has ended.
    pub(crate) fn remove(&mut self, engine: &Arc<Engine>) {
        // Not by its identity, which may have changed from metadata only to whole objects.
        self.0.retain(|_, entry| !Arc::ptr_eq(&entry.engine, engine));
    }
}

impl Entry {
    /// Whether it has users, and has not ended.
    fn is_used(&self) -> bool {
        self.user.strong_count() > 0 && *self.engine.phase.borrow() != InformerPhase::Stopped
    }

    /// What another user needs; `None` if the informer stops.
    fn use_again(&self) -> Option<(Arc<Engine>, KeepAlive)> {
        let user = self.user.upgrade()?;
        (!self.engine.stop.is_cancelled()).then(|| (Arc::clone(&self.engine), user))
    }
}
