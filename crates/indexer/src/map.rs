//! The map from keys to objects, which answers `get`.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use dashmap::DashMap;
use foldhash::fast::RandomState;

use crate::key::{KeyRef, ObjectKey};
use crate::object::Object;
use crate::sync::switch_point;

/// All objects by key. The hasher is randomly seeded, so that nobody can choose names that collide.
/// The map's order is never visible: lists come from the tree.
pub(crate) struct ObjectMap(DashMap<ObjectKey, Arc<Object>, RandomState>);

impl ObjectMap {
    pub(crate) fn new() -> Self {
        Self(DashMap::default())
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<Arc<Object>> {
        switch_point();
        self.0.get(&key as &dyn AnyKey).map(|entry| Arc::clone(&entry))
    }

    /// Whether the map holds this version of an object.
    pub(crate) fn holds(&self, object: &Arc<Object>) -> bool {
        self.get(object.head().key().as_ref()).is_some_and(|held| Arc::ptr_eq(&held, object))
    }

    /// Puts an object and returns the version that was there.
    pub(crate) fn insert(&self, object: Arc<Object>) -> Option<Arc<Object>> {
        switch_point();
        let removed = self.0.insert(object.head().key().clone(), object);
        switch_point();
        removed
    }

    pub(crate) fn remove(&self, key: KeyRef<'_>) -> Option<Arc<Object>> {
        switch_point();
        let removed = self.0.remove(&key as &dyn AnyKey);
        switch_point();
        removed.map(|(_, object)| object)
    }

    /// Gives memory back if most of it is unused.
    pub(crate) fn shrink(&self) {
        if self.0.capacity() > 4 * self.0.len() {
            self.0.shrink_to_fit();
        }
    }

    /// What the map itself takes from the allocator, without the objects.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.0.capacity() * (size_of::<(ObjectKey, Arc<Object>)>() + 1)
    }
}

impl fmt::Debug for ObjectMap {
    /// Shows no object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectMap").finish_non_exhaustive()
    }
}

/// An owned or a borrowed key. `Borrow` must return a reference, so the map can look up a
/// [`KeyRef`] only as a trait object that both kinds of keys implement.
trait AnyKey {
    fn key_ref(&self) -> KeyRef<'_>;
}

impl AnyKey for ObjectKey {
    fn key_ref(&self) -> KeyRef<'_> {
        self.as_ref()
    }
}

impl AnyKey for KeyRef<'_> {
    fn key_ref(&self) -> KeyRef<'_> {
        *self
    }
}

impl<'a> Borrow<dyn AnyKey + 'a> for ObjectKey {
    fn borrow(&self) -> &(dyn AnyKey + 'a) {
        self
    }
}

impl Hash for dyn AnyKey + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key_ref().hash(state);
    }
}

impl PartialEq for dyn AnyKey + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.key_ref() == other.key_ref()
    }
}

impl Eq for dyn AnyKey + '_ {}
