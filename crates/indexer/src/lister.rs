//! Reading a store as objects of one type: the lister, and the handles that it yields.
//!
//! Only this file is generic over the type of the objects. It asks the untyped store and gives the
//! answer its type.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::decoder::Decoder;
use crate::error::{DecodeError, IndexError, LayoutError, short_name};
use crate::head::Head;
use crate::index::{ByLabel, ByOwner, Index, LookUp};
use crate::key::{KeyRef, ObjectKey};
use crate::object::{Object, ObjectType};
use crate::reader::{Objects, Reader, Selection, Snapshot};
use crate::selector::Selector;
use crate::shared::Keep;
use crate::version::Uid;

/// Reads a store as objects of one type. It is cheap to clone.
///
/// A read by key decodes a version of an object at most once as long as the object stays in the hot
/// set. Lists yield handles and decode nothing. Reading a handle does not fill the hot set, because
/// a scan would evict what is read often. Objects are shared and immutable, so no copy is needed.
pub struct Lister<K> {
    /// One pointer, because every handle has a clone.
    view: Arc<View>,
    object: PhantomData<fn() -> K>,
}

/// A store, read as one type.
struct View {
    reader: Reader,
    decoder: Arc<Decoder>,
    /// What must live as long as somebody reads.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

/// A handle of one version of an object. The metadata is available at once, and
/// [`get`](Self::get) decodes the object.
pub struct Cached<K> {
    object: Arc<Object>,
    lister: Lister<K>,
}

/// Some objects at one moment, in the order of their keys.
pub struct List<K> {
    selection: Selection,
    lister: Lister<K>,
}

/// Iterates over the objects of a list.
pub struct Iter<'a, K> {
    objects: Objects<'a>,
    lister: &'a Lister<K>,
}

impl Reader {
    /// Reads the store as objects of one type.
    ///
    /// # Errors
    /// If the store is resident as another type.
    pub fn lister<K: ObjectType>(&self) -> Result<Lister<K>, LayoutError> {
        if let Some(resident) = &self.shared().resident
            && !resident.codec.is::<K>()
        {
            let (resident, wanted) = (resident.codec.name, short_name::<K>());
            return Err(LayoutError::Resident { resident, wanted });
        }
        Ok(Lister::new(self.clone(), self.shared().decoder::<K>(), None))
    }
}

impl<K: ObjectType> Lister<K> {
    /// Keeps `kept` alive as long as this lister, a clone of it or a handle from it lives. It may
    /// be what fills the store, for instance.
    #[must_use]
    pub fn keeping(self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        Self::new(self.view.reader.clone(), Arc::clone(&self.view.decoder), Some(kept))
    }

    /// The object with a key, decoded; `None` if there is none. A key is an `&ObjectKey`,
    /// `(namespace, name)` or `"namespace/name"`.
    ///
    /// # Errors
    /// If the object does not decode as `K`. This does not change until its next version.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Result<Option<Arc<K>>, DecodeError> {
        let Some(object) = self.view.reader.get(key) else { return Ok(None) };
        self.decode(&object, Keep::Yes).map(Some)
    }

    /// The handle of the object with a key. It decodes nothing.
    pub fn cached<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Cached<K>> {
        self.view.reader.get(key).map(|object| self.handle(object))
    }

    /// The handle of an object of this store, as events carry them.
    pub fn handle(&self, object: Arc<Object>) -> Cached<K> {
        Cached { object, lister: self.clone() }
    }

    /// An object of this store, decoded, as [`get`](Self::get) returns it. It may be from a
    /// [`Snapshot`] or an event.
    ///
    /// # Errors
    /// If the object does not decode as `K`.
    pub fn decoded(&self, object: &Arc<Object>) -> Result<Arc<K>, DecodeError> {
        self.decode(object, Keep::Yes)
    }

    /// Reads a selection of this store as objects of this type.
    pub fn typed(&self, selection: Selection) -> List<K> {
        List { selection, lister: self.clone() }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.view.reader.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.view.reader.is_empty()
    }

    /// The first object, in the order of keys, for which `predicate` returns true. It looks at one
    /// object after the other; for a value that is looked up often, add an [`Index`].
    pub fn find(&self, predicate: impl FnMut(&Cached<K>) -> bool) -> Option<Cached<K>> {
        self.list().iter().find(predicate)
    }

    /// All objects.
    pub fn list(&self) -> List<K> {
        self.now(Snapshot::all)
    }

    /// The objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> List<K> {
        self.now(|snapshot| snapshot.in_namespace(namespace))
    }

    /// The objects that a selector selects. For those of a namespace, use [`List::matching`].
    pub fn select(&self, selector: &Selector) -> List<K> {
        self.now(|snapshot| snapshot.select(selector))
    }

    /// The objects with a value in an index.
    ///
    /// # Errors
    /// If the store has no such index.
    pub fn by_index<I: Index>(
        &self,
        value: &(impl LookUp<I::Value> + ?Sized),
    ) -> Result<List<K>, IndexError> {
        Ok(self.typed(self.view.reader.snapshot().by_index::<I>(value)?))
    }

    /// The values that objects have in an index, as [texts](crate::IndexValue::index_text), in
    /// order and each once.
    ///
    /// # Errors
    /// If the store has no such index.
    pub fn index_values<I: Index>(&self) -> Result<Vec<Arc<str>>, IndexError> {
        self.view.reader.snapshot().index_values::<I>()
    }

    /// The objects with an owner, by the index [`ByOwner`].
    ///
    /// # Errors
    /// If the store has no such index.
    pub fn by_owner(&self, uid: &Uid) -> Result<List<K>, IndexError> {
        self.by_index::<ByOwner>(uid)
    }

    /// The objects with a label, by the index [`ByLabel`]. [`select`](Self::select) uses that index
    /// too, and works without it.
    ///
    /// # Errors
    /// If the store has no such index.
    pub fn by_label(&self, key: &str, value: &str) -> Result<List<K>, IndexError> {
        self.by_index::<ByLabel>(&(key.to_owned(), value.to_owned()))
    }

    /// The store without types.
    pub fn reader(&self) -> &Reader {
        &self.view.reader
    }

    fn new(
        reader: Reader,
        decoder: Arc<Decoder>,
        kept: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        Self { view: Arc::new(View { reader, decoder, kept }), object: PhantomData }
    }

    fn now(&self, select: impl FnOnce(&Snapshot) -> Selection) -> List<K> {
        self.typed(select(&self.view.reader.snapshot()))
    }

    fn decode(&self, object: &Arc<Object>, keep: Keep) -> Result<Arc<K>, DecodeError> {
        let View { reader, decoder, .. } = &*self.view;
        let decoded = reader.shared().decode(decoder, object, keep)?;
        Ok(decoded.downcast().expect("a decoder of K must return a K"))
    }
}

impl<K: ObjectType> Cached<K> {
    /// The object, decoded from the bytes of this version or taken from the hot set.
    ///
    /// # Errors
    /// If the object does not decode as `K`.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        self.lister.decode(&self.object, Keep::No)
    }
}

impl<K> Cached<K> {
    /// The metadata.
    pub fn head(&self) -> &Head {
        self.object.head()
    }

    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        self.object.head().key()
    }

    /// The object without its type.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }
}

impl<K> List<K> {
    /// Restricts the list to a namespace, also one by index. A second namespace replaces the first.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.selection = self.selection.in_namespace(namespace);
        self
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.selection.iter().next().is_none()
    }

    /// Restricts the list by labels. A second selector replaces the first.
    #[must_use]
    pub fn matching(mut self, selector: &Selector) -> Self {
        self.selection = self.selection.matching(selector);
        self
    }

    /// Iterates over the handles of the objects.
    pub fn iter(&self) -> Iter<'_, K> {
        Iter { objects: self.selection.iter(), lister: &self.lister }
    }

    /// Iterates over the heads only, without making handles.
    pub fn heads(&self) -> impl Iterator<Item = &Head> {
        self.selection.iter().map(|object| object.head())
    }
}

impl<K> Iterator for Iter<'_, K> {
    type Item = Cached<K>;

    fn next(&mut self) -> Option<Cached<K>> {
        let object = Arc::clone(self.objects.next()?);
        Some(Cached { object, lister: self.lister.clone() })
    }
}

impl<'a, K> IntoIterator for &'a List<K> {
    type Item = Cached<K>;
    type IntoIter = Iter<'a, K>;

    fn into_iter(self) -> Iter<'a, K> {
        self.iter()
    }
}

// `Clone` is not derived, because that would require `K: Clone`.

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { view: Arc::clone(&self.view), object: PhantomData }
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self { object: Arc::clone(&self.object), lister: self.lister.clone() }
    }
}

impl<K> Clone for List<K> {
    fn clone(&self) -> Self {
        Self { selection: self.selection.clone(), lister: self.lister.clone() }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = if self.view.kept.is_some() { ", keeping its source" } else { "" };
        write!(f, "Lister<{}{kept}>", self.view.decoder.codec.name)
    }
}

impl<K> fmt::Debug for Cached<K> {
    /// Shows the key only: the object may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cached<{}>({})", self.lister.view.decoder.codec.name, self.key())
    }
}

impl<K> fmt::Debug for List<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.heads().map(Head::key)).finish()
    }
}
