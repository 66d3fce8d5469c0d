//! The hot set of one type: decoded objects that were read by key, up to a number of bytes.
//!
//! It is an LRU cache: when it is over its budget, the object that was not read for the longest
//! time goes. An entry counts only for the version that it was decoded from.
//!
//! Beside it stand the objects that do not decode as this type. They are not tried again, and the
//! status names them. They take little and are never evicted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashlink::LruCache;

use crate::error::DecodeError;
use crate::key::ObjectKey;
use crate::object::{Decoded, Object};

pub(crate) struct HotSet {
    /// Unbounded for the crate, which counts entries and not bytes.
    entries: LruCache<ObjectKey, Hot, RandomState>,
    pub(crate) bytes: usize,
    bytes_max: usize,
    undecodable: BTreeMap<ObjectKey, (Arc<Object>, DecodeError)>,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// A decoded object.
pub(crate) struct Hot {
    object: Arc<Object>,
    decoded: Decoded,
    weight: usize,
}

impl HotSet {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            entries: LruCache::with_hasher(usize::MAX, RandomState::default()),
            bytes: 0,
            bytes_max,
            undecodable: BTreeMap::new(),
            hits: 0,
            misses: 0,
        }
    }

    /// What decoding this version of an object gave before. Counts a hit or a miss.
    pub(crate) fn get(&mut self, object: &Arc<Object>) -> Option<Result<Decoded, DecodeError>> {
        let known = self.find(object);
        self.hits += u64::from(known.is_some());
        self.misses += u64::from(known.is_none());
        known
    }

    fn find(&mut self, object: &Arc<Object>) -> Option<Result<Decoded, DecodeError>> {
        let key = object.head().key();
        if let Some(hot) = self.entries.get(key).filter(|hot| Arc::ptr_eq(&hot.object, object)) {
            return Some(Ok(Arc::clone(&hot.decoded)));
        }
        let failed = self.undecodable.get(key).filter(|(known, _)| Arc::ptr_eq(known, object));
        failed.map(|(_, error)| Err(error.clone()))
    }

    /// Adds a decoded object, unless it alone is over the budget.
    ///
    /// Returns the entries that had to go. The caller drops them after it has released the lock,
    /// because dropping a decoded object takes time and runs user code.
    pub(crate) fn insert(
        &mut self,
        object: &Arc<Object>,
        decoded: Decoded,
        weight: usize,
    ) -> Vec<Hot> {
        if weight > self.bytes_max {
            return Vec::new();
        }
        let hot = Hot { object: Arc::clone(object), decoded, weight };
        let replaced = self.entries.insert(object.head().key().clone(), hot);
        self.bytes += weight;
        let mut gone: Vec<_> = replaced.into_iter().collect();
        self.bytes -= gone.iter().map(|hot| hot.weight).sum::<usize>();
        while self.bytes > self.bytes_max
            && let Some((_, hot)) = self.entries.remove_lru()
        {
            self.bytes -= hot.weight;
            gone.push(hot);
        }
        gone
    }

    /// Notes that an object does not decode.
    pub(crate) fn insert_undecodable(&mut self, object: &Arc<Object>, error: DecodeError) {
        self.undecodable.insert(object.head().key().clone(), (Arc::clone(object), error));
    }

    /// Forgets a version of an object. Returns the entry, to be dropped without the lock.
    pub(crate) fn remove(&mut self, object: &Arc<Object>) -> Option<Hot> {
        let key = object.head().key();
        if self.undecodable.get(key).is_some_and(|(known, _)| Arc::ptr_eq(known, object)) {
            self.undecodable.remove(key);
        }
        self.entries.peek(key).filter(|hot| Arc::ptr_eq(&hot.object, object))?;
        let removed = self.entries.remove(key)?;
        self.bytes -= removed.weight;
        Some(removed)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The objects that do not decode, in the order of their keys.
    pub(crate) fn undecodable(&self) -> impl ExactSizeIterator<Item = &DecodeError> {
        self.undecodable.values().map(|(_, error)| error)
    }
}

impl fmt::Debug for HotSet {
    /// Shows no object: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotSet").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
