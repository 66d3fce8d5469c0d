//! What the writer and the readers of a store share.
//!
//! Objects are in two structures. The map finds one object by its key. The trees hold all objects
//! in order, and each index. A reader of the trees clones their root and releases the lock. What it
//! iterates over then is one moment in time, costs no copy, and does not block the writer.
//!
//! # A list and a get agree
//!
//! The writer changes the map and the trees while it holds the lock of the trees. A `get` does not
//! take that lock, so it may see a change that the trees do not have yet. A list waits for the
//! lock. So each reader sees a change in this way:
//!
//! - If it saw a change by `get`, its next list contains the change, or a later one.
//! - If it saw a change in a list, its next `get` returns that version, or a later one.
//!
//! # Lock order
//!
//! Trees, then the map. Hot set of a type, then the map. The map's own locks are held only inside
//! its methods.

use std::any::TypeId;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::decoder::{TypeDecoder, TypeView};
use crate::error::{DecodeError, IndexError, short_name};
use crate::index::{
    ByLabel, Index, IndexEntry, IndexPosition, IndexedValue, Registered, label_key,
};
use crate::interner::Interner;
use crate::key::{KeyRef, ObjectKey};
use crate::map::ObjectMap;
use crate::object::{Body, Decoded, Object, ObjectType};
use crate::sync::Lock;
use crate::tree::{Entry, Tree};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) map: ObjectMap,
    pub(crate) trees: Lock<Arc<Trees>>,
    /// One for each type that the store is read as.
    pub(crate) views: Lock<Vec<Arc<TypeView>>>,
    /// In a resident store, the view of its type.
    pub(crate) resident: Option<Arc<TypeView>>,
    pub(crate) interner: Interner,
    pub(crate) hot_set_bytes: usize,
    /// What the objects take from the allocator.
    pub(crate) object_bytes: AtomicUsize,
}

/// All objects and indexes in order, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Trees {
    pub(crate) objects: Tree<Stored>,
    pub(crate) indexes: Vec<IndexTree>,
}

/// An object, and where it is in the indexes.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) object: Arc<Object>,
    pub(crate) indexed: Arc<[IndexedValue]>,
}

#[derive(Clone, Debug)]
pub(crate) struct IndexTree {
    pub(crate) index: Arc<Registered>,
    pub(crate) entries: Tree<IndexEntry>,
}

/// How an object is read, which decides whether it goes into the hot set when it is decoded.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ReadBy {
    /// It does: what is read by key is likely to be read again.
    Key,
    /// It does not: a scan would evict what is read often.
    Scan,
}

impl Shared {
    /// The view of a type, created when it is first needed.
    pub(crate) fn view<K: ObjectType>(&self) -> Arc<TypeView> {
        let mut views = self.views.write();
        if let Some(view) = views.iter().find(|view| view.decoder.is::<K>()) {
            return Arc::clone(view);
        }
        let view = Arc::new(TypeView::new(TypeDecoder::compact::<K>(), self.hot_set_bytes));
        views.push(Arc::clone(&view));
        view
    }

    /// Decodes an object, or finds it decoded.
    pub(crate) fn decode(
        &self,
        view: &TypeView,
        object: &Arc<Object>,
        read: ReadBy,
    ) -> Result<Decoded, DecodeError> {
        let bytes = match &object.body {
            Body::Bytes(bytes) => bytes,
            Body::Resident(held, _) => return view.decoder.resident_object(object.head(), held),
            Body::Undecodable(error) => return Err(error.clone()),
        };
        if let Some(known) = view.hot_set.write().get(object) {
            return known;
        }
        let result = view.decoder.decode(object.head(), bytes);
        if read == ReadBy::Key || result.is_err() {
            self.remember(view, object, bytes, &result);
        }
        result
    }

    /// The object in the form of the store's layout.
    pub(crate) fn in_layout(&self, object: Arc<Object>) -> Arc<Object> {
        let (Some(view), Body::Bytes(bytes)) = (&self.resident, &object.body) else {
            return object;
        };
        let body = view.decoder.resident_body(object.head(), bytes);
        let head =
            Arc::try_unwrap(object).map_or_else(|object| object.head.clone(), |object| object.head);
        Arc::new(Object { head, body })
    }

    /// Adds the result of decoding an object to the hot set, if the store still holds that version.
    ///
    /// The writer changes the map first and then removes the old version from the hot set. So an
    /// old version cannot get into the hot set after it was removed.
    fn remember(
        &self,
        view: &TypeView,
        object: &Arc<Object>,
        bytes: &[u8],
        result: &Result<Decoded, DecodeError>,
    ) {
        let mut hot_set = view.hot_set.write();
        if !self.map.holds(object) {
            return;
        }
        let evicted = match result {
            Ok(value) => hot_set.insert(object, Arc::clone(value), view.decoder.weight(bytes)),
            Err(error) => {
                hot_set.insert_undecodable(object, error.clone());
                Vec::new()
            }
        };
        // Dropping objects runs user code, which must not run under the lock.
        drop(hot_set);
        drop(evicted);
    }

    /// Removes a version that was replaced or deleted from the hot sets.
    pub(crate) fn forget(&self, object: &Arc<Object>) {
        let views = self.views.read().clone();
        for view in views {
            let removed = view.hot_set.write().remove(object);
            // The lock is released before this.
            drop(removed);
        }
    }
}

impl Trees {
    pub(crate) fn new() -> Self {
        Self { objects: Tree::new(), indexes: Vec::new() }
    }

    /// Puts an object in the place of the one with the same key. `values` are those that each index
    /// has of it.
    pub(crate) fn put(&mut self, object: &Arc<Object>, values: &[BTreeSet<String>]) {
        let numbered = self.indexes.iter().zip(values).enumerate();
        let indexed: Vec<_> = numbered
            .flat_map(|(number, (index, values))| index.indexed_values(number, values))
            .collect();
        for IndexedValue { index, value } in &indexed {
            let entry = IndexEntry { value: Arc::clone(value), object: Arc::clone(object) };
            self.indexes[*index].entries.insert(entry);
        }
        let replaced = self.objects.insert(Stored::new(object, indexed.clone()));
        let old = replaced.iter().flat_map(|replaced| &*replaced.indexed);
        let gone = old.filter(|entry| !indexed.contains(entry));
        self.remove_from_indexes(object.head().key().as_ref(), gone);
    }

    pub(crate) fn delete(&mut self, key: KeyRef<'_>) -> Option<Arc<Object>> {
        let Stored { object, indexed } = self.objects.remove(key)?;
        self.remove_from_indexes(key, &*indexed);
        Some(object)
    }

    /// Adds an index, with all objects.
    pub(crate) fn add_index(&mut self, index: Arc<Registered>) {
        let number = self.indexes.len();
        let mut added = IndexTree { index, entries: Tree::new() };
        for Stored { object, indexed } in self.objects.clone().iter() {
            let values = added.index.values(object);
            let new: Vec<_> = added.indexed_values(number, &values).collect();
            for entry in &new {
                let value = Arc::clone(&entry.value);
                added.entries.insert(IndexEntry { value, object: Arc::clone(object) });
            }
            let indexed = indexed.iter().cloned().chain(new).collect();
            self.objects.insert(Stored::new(object, indexed));
        }
        self.indexes.push(added);
    }

    /// Removes an object from indexes.
    fn remove_from_indexes<'p>(
        &mut self,
        key: KeyRef<'_>,
        indexed: impl IntoIterator<Item = &'p IndexedValue>,
    ) {
        for entry in indexed {
            let place = IndexPosition { value: &entry.value, key: Some(key) };
            self.indexes[entry.index].entries.remove(place);
        }
    }

    /// The number of an index of a type that has every object with the value `text`.
    pub(crate) fn index_number<I: Index>(&self, text: &str) -> Result<usize, IndexError> {
        let is_wanted = |tree: &IndexTree| tree.index.is::<I>() && tree.index.covers_value(text);
        let number = self.indexes.iter().position(is_wanted);
        let unknown = || {
            if TypeId::of::<I>() == TypeId::of::<ByLabel>() {
                format!("ByLabel::keys([{:?}])", label_key(text))
            } else {
                short_name::<I>().to_owned()
            }
        };
        number.ok_or_else(|| IndexError::Unknown { index: unknown() })
    }

    /// The indexes of a type, of which there is at least one.
    pub(crate) fn indexes_of<I: Index>(
        &self,
    ) -> Result<impl Iterator<Item = &IndexTree>, IndexError> {
        let mut found = self.indexes.iter().filter(|tree| tree.index.is::<I>()).peekable();
        if found.peek().is_none() {
            return Err(IndexError::Unknown { index: short_name::<I>().to_owned() });
        }
        Ok(found)
    }
}

impl Stored {
    fn new(object: &Arc<Object>, indexed: Vec<IndexedValue>) -> Self {
        // An empty list by default takes no memory.
        let indexed = if indexed.is_empty() { Arc::default() } else { indexed.into() };
        Self { object: Arc::clone(object), indexed }
    }
}

impl IndexTree {
    /// What is indexed of an object with these values in this index, whose number is given.
    fn indexed_values(
        &self,
        index: usize,
        values: &BTreeSet<String>,
    ) -> impl Iterator<Item = IndexedValue> {
        values.iter().map(move |value| IndexedValue { index, value: self.entries.share(value) })
    }
}

impl Entry for Stored {
    type Bound = ObjectKey;
    type SearchKey<'a> = KeyRef<'a>;

    fn bound(&self) -> ObjectKey {
        self.object.head().key().clone()
    }

    fn search_key(&self) -> KeyRef<'_> {
        self.object.head().key().as_ref()
    }

    fn compare(&self, sought: KeyRef<'_>) -> Ordering {
        self.search_key().cmp(&sought)
    }

    fn compare_bound(bound: &ObjectKey, sought: KeyRef<'_>) -> Ordering {
        bound.as_ref().cmp(&sought)
    }
}
