//! Changes that are laid over a snapshot, and that the store and other snapshots do not have.
//!
//! The trees of a snapshot are persistent, so a change copies the nodes on its path and shares the
//! rest. Lists, look-ups by key and every index then agree, because all of them read the trees.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::key::KeyRef;
use crate::object::Object;
use crate::reader::{Reader, Snapshot};

impl Reader {
    /// Puts an object into a snapshot of this store, in the place of the one with the same key, and
    /// in the form in which the store would hold it.
    ///
    /// ```
    /// use windlass_indexer::{Object, Store};
    ///
    /// let store = Store::new();
    /// let (reader, bytes) = (store.reader(), br#"{"metadata":{"name":"web"}}"#);
    /// let mut snapshot = reader.snapshot();
    /// let head = reader.head_parser().parse(bytes)?;
    /// reader.put_into(&mut snapshot, Object::new(head, &bytes[..]));
    /// assert!(snapshot.get("web").is_some() && reader.is_empty());
    /// # Ok::<(), windlass_indexer::HeadError>(())
    /// ```
    ///
    /// An index that cannot read the object does not have it. The status does not list it.
    pub fn put_into(&self, snapshot: &mut Snapshot, object: Object) {
        let trees = &snapshot.trees;
        // Indexes are user code and may panic, so they run before anything changes. They read the
        // bytes before a resident layout drops them.
        let values: Vec<BTreeSet<String>> =
            trees.indexes.iter().map(|tree| tree.index.read(&object).unwrap_or_default()).collect();
        let held = trees.objects.get(object.head().key().as_ref());
        let old = held.map(|held| trees.postings_of(held)).unwrap_or_default();
        let object = self.shared().in_layout(Arc::new(object));
        let trees = Arc::make_mut(&mut snapshot.trees);
        let postings = trees.postings(&values);
        trees.put(&object, &postings, &old);
    }
}

impl Snapshot {
    /// Removes an object from this snapshot and returns it.
    pub fn remove<'k>(&mut self, key: impl Into<KeyRef<'k>>) -> Option<Arc<Object>> {
        let (key, trees) = (key.into(), &self.trees);
        let held = Arc::clone(trees.objects.get(key)?);
        let postings = trees.postings_of(&held);
        Arc::make_mut(&mut self.trees).delete(key, &postings);
        Some(held)
    }
}
