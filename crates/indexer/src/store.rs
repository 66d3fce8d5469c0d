//! The store: one writer, any number of readers.
//!
//! Objects are in two structures. The table finds one by its key, in the time of a `DashMap`; the trees hold all
//! of them in order, and each index. A reader of the trees takes their root and is done with the lock: what it
//! then walks over is one moment in time, however long it takes, and costs no copy. The alternatives were a
//! lock held while a list is read (a slow reader stops the writer), a copy for each list (50,000 pointers and
//! their counts), and one persistent map for everything (three times slower to find one key).
//!
//! Lock order: trees, then a shard of the table. The writer changes both while it holds the trees, so no
//! reader lists an object and then fails to get it, or the other way round.

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::de::DeserializeOwned;

use crate::error::{DecodeError, IndexError};
use crate::face::{Face, Weigh, estimate, short_name};
use crate::head::{HeadError, HeadParser};
use crate::index::{Index, IndexEntry, Place, Registered};
use crate::interner::Interner;
use crate::key::KeyRef;
use crate::object::{Body, Object};
use crate::reader::Reader;
use crate::sync::Lock;
use crate::table::{Memo, Posting, Removed, Table};
use crate::tree::{Trail, Tree};

/// The hot set of each type, unless the builder says otherwise: some two thousand decoded pods.
pub const HOT_SET_BYTES: usize = 64 << 20;

/// The only one who writes to a store. Dropping it leaves readers with what is there.
///
/// ```
/// use windlass_indexer::Store;
///
/// let mut store = Store::new();
/// let reader = store.reader();
/// store.put_bytes(br#"{"metadata":{"name":"web","namespace":"default","resourceVersion":"1"}}"#)?;
/// assert_eq!(reader.get("default/web").expect("there").head().version().to_string(), "1");
/// store.delete("default/web");
/// assert!(reader.is_empty());
/// # Ok::<(), windlass_indexer::HeadError>(())
/// ```
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    parser: HeadParser,
    indexes: Vec<Arc<Registered>>,
}

/// Settings of a store.
#[derive(Debug)]
#[must_use]
pub struct StoreBuilder {
    interner: Interner,
    layout: Layout,
    hot_set_bytes: usize,
}

/// In which form a store holds its objects.
#[derive(Debug)]
pub struct Layout(Option<Face>);

/// What a put did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Put {
    /// The object as the store holds it now.
    pub current: Arc<Object>,
    /// The version that was there.
    pub previous: Option<Arc<Object>>,
}

/// What the writer and the readers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) table: Table,
    pub(crate) trees: Lock<Arc<Trees>>,
    /// The types that the store is read as, each once.
    pub(crate) faces: Lock<Vec<Arc<Face>>>,
    pub(crate) resident: Option<Arc<Face>>,
    pub(crate) interner: Interner,
    pub(crate) hot_set_bytes: usize,
    /// What the objects asked of the allocator.
    pub(crate) object_bytes: AtomicUsize,
}

/// Everything in order, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Trees {
    pub(crate) objects: Tree<Arc<Object>>,
    pub(crate) indexes: Vec<IndexTree>,
}

#[derive(Clone, Debug)]
pub(crate) struct IndexTree {
    pub(crate) index: Arc<Registered>,
    pub(crate) entries: Tree<IndexEntry>,
}

impl Store {
    /// A compact store with an interner of its own.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Settings first.
    pub fn builder() -> StoreBuilder {
        StoreBuilder {
            interner: Interner::new(),
            layout: Layout::compact(),
            hot_set_bytes: HOT_SET_BYTES,
        }
    }

    /// A handle for reading; there can be any number.
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }

    /// Puts the object that `bytes` are the JSON of.
    ///
    /// # Errors
    /// If its head cannot be read; the store is unchanged then.
    pub fn put_bytes(&mut self, bytes: &[u8]) -> Result<Put, HeadError> {
        let head = self.parser.parse(bytes)?;
        Ok(self.put(Object::new(head, bytes)))
    }

    /// Puts an object in the place of the one with its key, whatever their versions: which one is newer is for
    /// the caller to judge.
    ///
    /// An object that was taken out of a resident store has no bytes; unless this store is resident in the same
    /// type, reading it is a [`DecodeError`].
    pub fn put(&mut self, object: impl Into<Arc<Object>>) -> Put {
        let object: Arc<Object> = object.into();
        if let Some(held) = self.holds_without_bytes(&object) {
            return Put { current: Arc::clone(&held), previous: Some(held) };
        }
        // Indexes look at the bytes before a resident layout drops them.
        let values: Vec<_> = self.indexes.iter().map(|index| index.values(&object)).collect();
        let object = self.reside(object);
        let removed = {
            let mut trees = self.shared.trees.write();
            let trees = Arc::make_mut(&mut *trees);
            let postings = trees.postings(values);
            let table = &self.shared.table;
            let removed = table.replace(Arc::clone(&object), postings.clone());
            let old = removed.as_ref().map_or(&[][..], |removed| &removed.postings);
            trees.post(&object, &postings, old);
            if let Some(removed) = &removed {
                if let Some(trail) = trees.replace(&object, removed) {
                    table.moved(object.head().key(), trail);
                }
            } else {
                let trail = trees.objects.insert(Arc::clone(&object));
                table.insert(Arc::clone(&object), postings, trail);
            }
            removed
        };
        self.shared.object_bytes.fetch_add(object.allocated_bytes(), Ordering::Relaxed);
        if let (Body::Undecodable(error), Some(face)) = (object.body(), &self.shared.resident) {
            self.shared.table.keep(&object, face, Memo::Failed(error.clone()), 0);
        }
        Put { current: object, previous: self.account(removed) }
    }

    /// The object that is held, if `object` is the same version of it and neither has bytes: indexes could not
    /// look at it again, and there is nothing new to see.
    fn holds_without_bytes(&self, object: &Object) -> Option<Arc<Object>> {
        if object.bytes().is_some() {
            return None;
        }
        let present = self.reader().get(object.head().key())?;
        let (new, old) = (object.head(), present.head());
        let is_same = new.uid() == old.uid() && new.version() == old.version();
        (is_same && present.bytes().is_none()).then_some(present)
    }

    /// Takes an object out; returns what was there.
    pub fn delete<'k>(&mut self, key: impl Into<KeyRef<'k>>) -> Option<Arc<Object>> {
        let key = key.into();
        let removed = {
            let mut trees = self.shared.trees.write();
            let removed = self.shared.table.remove(key)?;
            Arc::make_mut(&mut *trees).delete(key, &removed.postings);
            removed
        };
        for index in &self.indexes {
            index.forget(removed.object.head().key());
        }
        self.account(Some(removed))
    }

    /// Adds an index; the objects that are there are taken in before this returns. Readers see it complete or
    /// not at all.
    ///
    /// # Errors
    /// If there is one of this type already, or if it needs bytes that a resident store has dropped.
    pub fn add_index<I: Index>(&mut self, index: I) -> Result<(), IndexError> {
        let index = Registered::new(index);
        if self.indexes.iter().any(|known| known.type_id == TypeId::of::<I>()) {
            return Err(IndexError::Duplicate { index: index.name });
        }
        let moment = Arc::clone(&*self.shared.trees.read());
        if let Some(face) = &self.shared.resident
            && index.needs_bytes
            && moment.objects.len() > 0
        {
            return Err(IndexError::NoBytes { index: index.name, resident: face.name() });
        }
        let number = self.indexes.len();
        let mut entries = Tree::new();
        // The index is the user's code and may panic: until it has seen every object, the store knows nothing.
        let mut found = Vec::new();
        for object in moment.objects.iter() {
            let postings: Vec<_> = index
                .values(object)
                .into_iter()
                .map(|value| Posting { index: number, value: entries.share(value) })
                .collect();
            for posting in &postings {
                let value = Arc::clone(&posting.value);
                entries.insert(IndexEntry { value, object: Arc::clone(object) });
            }
            if !postings.is_empty() {
                found.push((Arc::clone(object), postings));
            }
        }
        for (object, postings) in found {
            self.shared.table.add_postings(object.head().key(), postings);
        }
        drop(moment);
        let index = Arc::new(index);
        self.indexes.push(Arc::clone(&index));
        Arc::make_mut(&mut *self.shared.trees.write()).indexes.push(IndexTree { index, entries });
        Ok(())
    }

    /// Whether there is an index of this type.
    pub fn has_index<I: Index>(&self) -> bool {
        self.indexes.iter().any(|known| known.type_id == TypeId::of::<I>())
    }

    /// A parser whose heads share their texts with this store's.
    pub fn head_parser(&self) -> HeadParser {
        HeadParser::new(self.shared.interner.clone())
    }

    /// The object in the form that the layout holds it.
    fn reside(&self, object: Arc<Object>) -> Arc<Object> {
        let body = match (&self.shared.resident, object.body()) {
            (Some(face), _) => face.reside(&object),
            (None, Body::Bytes(_)) => return object,
            (None, _) => Body::Undecodable(DecodeError::without_bytes(object.head(), "JSON")),
        };
        // Nobody else holds an object that was just made from bytes, and then its head moves.
        let head =
            Arc::try_unwrap(object).map_or_else(|object| object.head().clone(), Object::into_head);
        Arc::new(Object::with_body(head, body))
    }

    /// Takes what was removed off the books.
    fn account(&self, removed: Option<Removed>) -> Option<Arc<Object>> {
        let object = removed?.object;
        self.shared.object_bytes.fetch_sub(object.allocated_bytes(), Ordering::Relaxed);
        self.shared.interner.object_left();
        Some(object)
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreBuilder {
    /// Shares texts with other stores. Default: an interner of its own.
    pub fn interner(mut self, interner: Interner) -> Self {
        self.interner = interner;
        self
    }

    /// How objects are held. Default: [`Layout::compact`].
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// What decoded objects may take, for each type that a compact store is read as. Default: 64 MiB. With 0,
    /// every read decodes.
    pub fn hot_set_bytes(mut self, bytes: usize) -> Self {
        self.hot_set_bytes = bytes;
        self
    }

    /// The store.
    pub fn build(self) -> Store {
        let resident = self.layout.0.map(Arc::new);
        let shared = Shared {
            table: Table::new(),
            trees: Lock::new(Arc::new(Trees { objects: Tree::new(), indexes: Vec::new() })),
            faces: Lock::new(resident.iter().cloned().collect()),
            resident,
            interner: self.interner.clone(),
            hot_set_bytes: self.hot_set_bytes,
            object_bytes: AtomicUsize::new(0),
        };
        let parser = HeadParser::new(self.interner);
        Store { shared: Arc::new(shared), parser, indexes: Vec::new() }
    }
}

impl Layout {
    /// Heads and bytes; decoded when somebody reads, with a hot set. For everything that is large or many.
    pub fn compact() -> Self {
        Self(None)
    }

    /// Heads and objects of one type, decoded once; the bytes are dropped. For small types that are read all
    /// the time, and for types of your own with the few fields that you need.
    ///
    /// What is held is a clone of what was decoded, because that has no spare room: of a pod the lists that serde
    /// has grown are a quarter larger than they need to be.
    ///
    /// What an object takes is estimated for the accounts, by its size and that of its bytes.
    pub fn resident<K: DeserializeOwned + Clone + Send + Sync + 'static>() -> Self {
        Self::resident_weighed::<K>(estimate)
    }

    /// As [`resident`](Self::resident), with accounts by `weigh`: what an object takes in memory, given it and
    /// the length of its JSON.
    pub fn resident_weighed<K>(weigh: fn(object: &K, json: usize) -> usize) -> Self
    where
        K: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let weigh: Weigh<K> = weigh;
        Self(Some(Face::resident(weigh)))
    }

    /// The type that is resident, if one is.
    pub fn resident_type(&self) -> Option<&'static str> {
        self.0.as_ref().map(Face::name)
    }
}

impl Shared {
    /// The face of a type, made when it is first asked for.
    pub(crate) fn face<K>(&self) -> Arc<Face>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let mut faces = self.faces.write();
        if let Some(face) = faces.iter().find(|face| face.is::<K>()) {
            return Arc::clone(face);
        }
        let face = Arc::new(Face::new::<K>(self.hot_set_bytes, estimate));
        faces.push(Arc::clone(&face));
        face
    }
}

impl Trees {
    /// The postings of an object whose values are given for each index in turn.
    fn postings(&self, values: Vec<std::collections::BTreeSet<String>>) -> Box<[Posting]> {
        if self.indexes.is_empty() {
            return Box::default();
        }
        let indexes = self.indexes.iter().zip(values).enumerate();
        let postings = indexes.flat_map(|(index, (tree, values))| {
            let posting = move |value| Posting { index, value: tree.entries.share(value) };
            values.into_iter().map(posting)
        });
        postings.collect()
    }

    /// Puts the next version of an object into the place of `removed`. Returns the trail to it if that has changed.
    fn replace(&mut self, object: &Arc<Object>, removed: &Removed) -> Option<Trail> {
        let is_removed = |entry: &Arc<Object>| Arc::ptr_eq(entry, &removed.object);
        let replaced = self.objects.replace(removed.trail, is_removed, Arc::clone(object));
        replaced.err().map(|object| self.objects.insert(object))
    }

    /// Puts an object into the indexes.
    fn post(&mut self, object: &Arc<Object>, postings: &[Posting], old: &[Posting]) {
        let key = object.head().key().as_ref();
        let is_kept = |old: &Posting| {
            postings.iter().any(|new| new.index == old.index && new.value == old.value)
        };
        for gone in old.iter().filter(|old| !is_kept(old)) {
            let place = Place { value: &gone.value, key: Some(key) };
            self.indexes[gone.index].entries.remove(place);
        }
        for posting in postings {
            let value = Arc::clone(&posting.value);
            let entry = IndexEntry { value, object: Arc::clone(object) };
            self.indexes[posting.index].entries.insert(entry);
        }
    }

    fn delete(&mut self, key: KeyRef<'_>, postings: &[Posting]) {
        for gone in postings {
            let place = Place { value: &gone.value, key: Some(key) };
            self.indexes[gone.index].entries.remove(place);
        }
        self.objects.remove(key);
    }

    /// The number of the index of a type.
    pub(crate) fn index_number<I: Index>(&self) -> Result<usize, IndexError> {
        let is_wanted = |tree: &IndexTree| tree.index.type_id == TypeId::of::<I>();
        let number = self.indexes.iter().position(is_wanted);
        number.ok_or(IndexError::Unknown { index: short_name::<I>() })
    }
}

impl Tree<IndexEntry> {
    /// The copy of a value that its entries share.
    fn share(&self, value: String) -> Arc<str> {
        self.shared_value(&value).unwrap_or_else(|| value.into())
    }
}
