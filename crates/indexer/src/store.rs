//! The writer of a store. There is one, and any number of readers.
//!
//! `shared.rs` says how the two structures of a store change together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::decoder::{TypeDecoder, TypeView};
use crate::error::IndexError;
use crate::index::{Index, Registered, Relation};
use crate::interner::Interner;
use crate::key::KeyRef;
use crate::map::ObjectMap;
use crate::object::{Body, Object, ObjectType};
use crate::parser::{HeadError, HeadParser};
use crate::reader::Reader;
use crate::shared::{Shared, Trees};
use crate::sync::Lock;

/// The default size of the hot set of each type: about two thousand decoded pods.
pub const HOT_SET_BYTES: usize = 64 << 20;

/// After this many deletes, the map may give unused memory back.
const SHRINK_AFTER: usize = 256;

/// The only writer of a store. After it is dropped, readers keep what is there.
///
/// ```
/// use windlass_indexer::Store;
///
/// let mut store = Store::new();
/// let reader = store.reader();
/// store.put_bytes(br#"{"metadata":{"name":"web","namespace":"a","resourceVersion":"1"}}"#)?;
/// let web = reader.get("a/web").expect("the object was put");
/// assert_eq!(web.head().resource_version().to_string(), "1");
/// store.delete("a/web");
/// assert!(reader.is_empty());
/// # Ok::<(), windlass_indexer::HeadError>(())
/// ```
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    parser: HeadParser,
    indexes: Vec<Arc<Registered>>,
    /// The number of deletes.
    deletes: usize,
}

/// Settings of a store.
#[derive(Debug)]
#[must_use]
pub struct StoreBuilder {
    layout: Layout,
    hot_set_bytes: usize,
}

/// The form in which a store holds its objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// `None` in a compact store.
    resident: Option<TypeDecoder>,
}

/// The result of a put.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Put {
    /// The object as the store holds it now.
    pub current: Arc<Object>,
    /// The version that it replaced.
    pub previous: Option<Arc<Object>>,
}

impl Store {
    /// Creates a compact store.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Settings for a new store.
    pub fn builder() -> StoreBuilder {
        StoreBuilder { layout: Layout::compact(), hot_set_bytes: HOT_SET_BYTES }
    }

    /// A handle for reading. There can be any number.
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }

    /// Puts an object, given as JSON.
    ///
    /// # Errors
    /// If the head cannot be read. The store is unchanged then.
    pub fn put_bytes(&mut self, bytes: &[u8]) -> Result<Put, HeadError> {
        let head = self.parser.parse(bytes)?;
        Ok(self.put(Object::new(head, bytes)))
    }

    /// Puts an object in the place of the one with the same key, whatever their versions. The
    /// caller decides which version is newer.
    ///
    /// An object of a resident store has no JSON. Reading it as another type, or by an index with a
    /// view, returns a [`DecodeError`](crate::DecodeError). Putting it into its own store again
    /// changes nothing.
    pub fn put(&mut self, object: impl Into<Arc<Object>>) -> Put {
        let object: Arc<Object> = object.into();
        // Without the bytes, indexes could not read it again.
        if object.bytes().is_none() && self.shared.map.holds(&object) {
            return Put { current: Arc::clone(&object), previous: Some(object) };
        }
        // Indexes read the bytes before a resident layout drops them.
        let values: Vec<_> = self.indexes.iter().map(|index| index.values(&object)).collect();
        let object = self.shared.in_layout(object);
        let removed = {
            let mut trees = self.shared.trees.write();
            Arc::make_mut(&mut trees).put(&object, &values);
            self.shared.map.insert(Arc::clone(&object))
        };
        self.shared.object_bytes.fetch_add(object.allocated_bytes(), Ordering::Relaxed);
        let previous = removed.map(|removed| self.forget(removed));
        if let (Body::Undecodable(error), Some(view)) = (&object.body, &self.shared.resident) {
            view.hot_set.write().insert_undecodable(&object, error.clone());
        }
        Put { current: object, previous }
    }

    /// Deletes an object and returns it.
    pub fn delete<'k>(&mut self, key: impl Into<KeyRef<'k>>) -> Option<Arc<Object>> {
        let key = key.into();
        let removed = {
            let mut trees = self.shared.trees.write();
            let removed = self.shared.map.remove(key)?;
            Arc::make_mut(&mut trees).delete(key);
            removed
        };
        for index in &self.indexes {
            index.forget(removed.head().key());
        }
        self.deletes += 1;
        if self.deletes.is_multiple_of(SHRINK_AFTER) {
            self.shared.map.shrink();
        }
        Some(self.forget(removed))
    }

    /// Adds an index, unless an equal one is there. It contains all objects when this returns.
    /// Readers see the complete index or none.
    ///
    /// # Errors
    /// If there is an index of this type with other settings, or if the index needs bytes that a
    /// resident store has dropped.
    pub fn add_index<I: Index>(&mut self, index: I) -> Result<(), IndexError> {
        for known in &self.indexes {
            match known.compare(&index) {
                Relation::Covers => return Ok(()),
                Relation::Differs => return Err(IndexError::Different { index: known.name }),
                Relation::Unrelated => {}
            }
        }
        let index = Registered::new(index);
        let mut trees = Trees::clone(&self.shared.trees.read());
        if let Some(view) = &self.shared.resident
            && index.needs_bytes
            && trees.objects.len() > 0
        {
            return Err(IndexError::NoBytes { index: index.name, resident: view.decoder.name });
        }
        // The index is user code and may panic, so nothing changes until it has seen all objects.
        let index = Arc::new(index);
        trees.add_index(Arc::clone(&index));
        let old = std::mem::replace(&mut *self.shared.trees.write(), Arc::new(trees));
        // Unlocked, because it may be large.
        drop(old);
        self.indexes.push(index);
        Ok(())
    }

    /// Whether there is an index of this type.
    pub fn has_index<I: Index>(&self) -> bool {
        self.indexes.iter().any(|known| known.is::<I>())
    }

    /// Removes what readers and counters know of a version that has left the store.
    fn forget(&self, object: Arc<Object>) -> Arc<Object> {
        self.shared.forget(&object);
        self.shared.object_bytes.fetch_sub(object.allocated_bytes(), Ordering::Relaxed);
        self.shared.interner.object_left();
        object
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreBuilder {
    /// The form in which objects are held. Default: [`Layout::compact`].
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// What decoded objects may take, for each type that a compact store is read as. Default: 64
    /// MiB. With 0, every read decodes.
    pub fn hot_set_bytes(mut self, bytes: usize) -> Self {
        self.hot_set_bytes = bytes;
        self
    }

    /// Builds the store.
    pub fn build(self) -> Store {
        // Nothing goes into the hot set of a resident type.
        let resident = self.layout.resident.map(|decoder| Arc::new(TypeView::new(decoder, 0)));
        let interner = Interner::default();
        let shared = Shared {
            map: ObjectMap::new(),
            trees: Lock::new(Arc::new(Trees::new())),
            views: Lock::new(resident.iter().cloned().collect()),
            resident,
            interner: interner.clone(),
            hot_set_bytes: self.hot_set_bytes,
            object_bytes: AtomicUsize::new(0),
        };
        Store {
            shared: Arc::new(shared),
            parser: HeadParser::new(interner),
            indexes: Vec::new(),
            deletes: 0,
        }
    }
}

impl Layout {
    /// Heads and bytes. Objects are decoded when they are read, and a hot set keeps the decoded
    /// ones. For large types and types with many objects.
    pub fn compact() -> Self {
        Self { resident: None }
    }

    /// Heads and objects of one type, decoded once. The bytes are dropped. For small types that are
    /// read often, and for types of your own with only the fields that you need.
    ///
    /// The store holds a clone of the decoded object, because the lists of a clone have no spare
    /// capacity.
    ///
    /// The weight of an object in the status is an estimate from its size and the length of its
    /// JSON.
    pub fn resident<K: ObjectType + Clone>() -> Self {
        Self { resident: Some(TypeDecoder::resident::<K>()) }
    }

    /// The name of the resident type; `None` if the layout is compact.
    pub fn resident_type(&self) -> Option<&'static str> {
        self.resident.map(|decoder| decoder.name)
    }
}
