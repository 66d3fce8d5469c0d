//! Reading a store as objects of one type: the lister, and the handles that it yields.
//!
//! Only this file is generic over the type of the objects. It asks the untyped store and gives the
//! answer its type.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::decoder::TypeView;
use crate::error::{DecodeError, IndexError, LayoutError, short_name};
use crate::head::Head;
use crate::index::{ByLabel, ByOwner, Index, LookUp};
use crate::key::{KeyRef, ObjectKey};
use crate::object::{Object, ObjectType};
use crate::reader::{Reader, Selection};
use crate::selector::Selector;
use crate::shared::ReadBy;
use crate::version::Uid;

/// Reads a store as objects of one type. It is cheap to clone.
///
/// A read by key decodes a version of an object at most once as long as the object stays in the hot
/// set. Lists yield handles and decode nothing. Reading a handle does not fill the hot set, because
/// a scan would evict what is read often. Objects are shared and immutable, so no copy is needed.
pub struct Lister<K> {
    /// One pointer, because every handle has a clone.
    inner: Arc<Inner>,
    object: PhantomData<fn() -> K>,
}

/// A store, and how it is read as one type.
struct Inner {
    reader: Reader,
    view: Arc<TypeView>,
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

impl Reader {
    /// Reads the store as objects of one type.
    ///
    /// # Errors
    /// If the store is resident as another type.
    pub fn lister<K: ObjectType>(&self) -> Result<Lister<K>, LayoutError> {
        if let Some(resident) = &self.shared().resident
            && !resident.decoder.is::<K>()
        {
            let (resident, wanted) = (resident.decoder.name, short_name::<K>());
            return Err(LayoutError { resident, wanted });
        }
        Ok(Lister::new(self.clone(), self.shared().view::<K>(), None))
    }
}

impl<K: ObjectType> Lister<K> {
    /// Keeps `kept` alive as long as this lister, a clone of it or a handle from it lives. It may
    /// be what fills the store, for instance.
    #[must_use]
    pub fn keeping(self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        Self::new(self.inner.reader.clone(), Arc::clone(&self.inner.view), Some(kept))
    }

    /// The object with a key, decoded; `None` if there is none. A key is an `&ObjectKey`,
    /// `(namespace, name)` or `"namespace/name"`.
    ///
    /// # Errors
    /// If the object does not decode as `K`. This does not change until its next version.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Result<Option<Arc<K>>, DecodeError> {
        let Some(object) = self.inner.reader.get(key) else { return Ok(None) };
        self.decode(&object, ReadBy::Key).map(Some)
    }

    /// The handle of the object with a key. It decodes nothing.
    pub fn cached<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Cached<K>> {
        self.inner.reader.get(key).map(|object| self.handle(object))
    }

    /// The handle of an object of this store, as events carry them.
    pub fn handle(&self, object: Arc<Object>) -> Cached<K> {
        Cached { object, lister: self.clone() }
    }

    /// An object of this store, decoded, as [`get`](Self::get) returns it. It may be from a
    /// [`Snapshot`](crate::Snapshot) or an event.
    ///
    /// # Errors
    /// If the object does not decode as `K`.
    pub fn decoded(&self, object: &Arc<Object>) -> Result<Arc<K>, DecodeError> {
        self.decode(object, ReadBy::Key)
    }

    /// Reads a selection of this store as objects of this type.
    pub fn typed(&self, selection: Selection) -> List<K> {
        List { selection, lister: self.clone() }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.inner.reader.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.inner.reader.is_empty()
    }

    /// The first object, in the order of keys, for which `predicate` returns true. It looks at one
    /// object after the other; for a value that is looked up often, add an [`Index`].
    pub fn find(&self, predicate: impl FnMut(&Cached<K>) -> bool) -> Option<Cached<K>> {
        self.list().iter().find(predicate)
    }

    /// All objects.
    pub fn list(&self) -> List<K> {
        self.typed(self.inner.reader.snapshot().all())
    }

    /// The objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> List<K> {
        self.list().in_namespace(namespace)
    }

    /// The objects that a selector selects. For those of a namespace, use [`List::matching`].
    pub fn select(&self, selector: &Selector) -> List<K> {
        self.list().matching(selector)
    }

    /// The objects with a value in an index.
    ///
    /// # Errors
    /// If the store has no such index.
    pub fn by_index<I: Index>(
        &self,
        value: &(impl LookUp<I::Value> + ?Sized),
    ) -> Result<List<K>, IndexError> {
        Ok(self.typed(self.inner.reader.snapshot().by_index::<I>(value)?))
    }

    /// The values that objects have in an index, as [texts](crate::IndexValue::index_text), in
    /// order and each once.
    ///
    /// # Errors
    /// If the store has no such index.
    pub fn index_values<I: Index>(&self) -> Result<Vec<Arc<str>>, IndexError> {
        self.inner.reader.snapshot().index_values::<I>()
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
    /// If the store has no such index that has this label.
    pub fn by_label(&self, key: &str, value: &str) -> Result<List<K>, IndexError> {
        self.by_index::<ByLabel>(&(key.to_owned(), value.to_owned()))
    }

    /// The store without types.
    pub fn reader(&self) -> &Reader {
        &self.inner.reader
    }

    fn new(reader: Reader, view: Arc<TypeView>, kept: Option<Arc<dyn Any + Send + Sync>>) -> Self {
        Self { inner: Arc::new(Inner { reader, view, kept }), object: PhantomData }
    }

    fn decode(&self, object: &Arc<Object>, read: ReadBy) -> Result<Arc<K>, DecodeError> {
        let Inner { reader, view, .. } = &*self.inner;
        let decoded = reader.shared().decode(view, object, read)?;
        Ok(decoded.downcast().expect("a view as K must return a K"))
    }
}

impl<K: ObjectType> Cached<K> {
    /// The object, decoded from the bytes of this version or taken from the hot set.
    ///
    /// # Errors
    /// If the object does not decode as `K`.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        self.lister.decode(&self.object, ReadBy::Scan)
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
    pub fn iter(&self) -> impl Iterator<Item = Cached<K>> {
        let objects = self.selection.iter().cloned();
        objects.map(|object| Cached { object, lister: self.lister.clone() })
    }

    /// Iterates over the heads only, without making handles.
    pub fn heads(&self) -> impl Iterator<Item = &Head> {
        self.selection.iter().map(|object| object.head())
    }
}

impl<'a, K> IntoIterator for &'a List<K> {
    type Item = Cached<K>;
    type IntoIter = Box<dyn Iterator<Item = Cached<K>> + Send + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

// `Clone` is not derived, because that would require `K: Clone`.

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), object: PhantomData }
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self { object: Arc::clone(&self.object), lister: self.lister.clone() }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = if self.inner.kept.is_some() { ", keeping its source" } else { "" };
        write!(f, "Lister<{}{kept}>", self.inner.view.decoder.name)
    }
}

impl<K> fmt::Debug for Cached<K> {
    /// Shows the key only: the object may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cached<{}>({})", self.lister.inner.view.decoder.name, self.key())
    }
}

impl<K> fmt::Debug for List<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.heads().map(Head::key)).finish()
    }
}
