//! Typed faces of a store: the lister and the handle that it yields.
//!
//! Only this file is generic over the type of the objects, and it does little: it asks the erased store and
//! gives the answer its type.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::de::DeserializeOwned;

use crate::error::{DecodeError, IndexError};
use crate::face::Face;
use crate::head::Head;
use crate::index::{ByLabel, ByOwner, Index, LookUp};
use crate::key::{KeyRef, ObjectKey};
use crate::object::{Body, Object};
use crate::reader::{Objects, Reader, Selection, Snapshot};
use crate::selector::Selector;
use crate::table::{Found, Memo};
use crate::version::Uid;

/// Reads a store as objects of one type; cheap to clone.
///
/// A read by key decodes at most once for each version as long as the object stays in the hot set. Lists yield
/// handles and decode nothing; reading those does not fill the hot set, because a scan would push out what
/// is read often. Objects are shared and immutable, so there is no copy to make and no cache to corrupt.
pub struct Lister<K> {
    /// One pointer, because every handle has a clone.
    view: Arc<View>,
    object: PhantomData<fn() -> K>,
}

/// A store, read as one type.
struct View {
    reader: Reader,
    face: Arc<Face>,
    /// What must live as long as somebody reads.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

/// One version of an object: its head at once, the object when it is asked for.
pub struct Cached<K> {
    object: Arc<Object>,
    lister: Lister<K>,
}

/// Some objects at one moment, in the order of their keys.
pub struct List<K> {
    selection: Selection,
    lister: Lister<K>,
}

/// The objects of a list.
pub struct Iter<'a, K> {
    objects: Objects<'a>,
    lister: &'a Lister<K>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Lister<K> {
    pub(crate) fn new(reader: Reader, face: Arc<Face>) -> Self {
        Self { view: Arc::new(View { reader, face, kept: None }), object: PhantomData }
    }

    /// The same, and as long as it, a clone of it or a handle from it lives, so does `kept`: whoever fills the
    /// store, for instance.
    #[must_use]
    pub fn keeping(self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        let (reader, face) = (self.view.reader.clone(), Arc::clone(&self.view.face));
        Self { view: Arc::new(View { reader, face, kept: Some(kept) }), object: PhantomData }
    }

    /// The object of a key, decoded; `None` if it is not there. Keys are `&ObjectKey`, `(namespace, name)` or
    /// `"namespace/name"`.
    ///
    /// # Errors
    /// If the object is there but does not decode as `K`. That stays so until its next version.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Result<Option<Arc<K>>, DecodeError> {
        let table = &self.view.reader.shared().table;
        let object = match table.find(key.into(), &self.view.face) {
            Found::Nothing => return Ok(None),
            Found::Hot(memo) => return typed(memo).map(Some),
            Found::Cold(object) => object,
        };
        let (memo, weight) = self.decode(&object);
        table.keep(&object, &self.view.face, memo.clone(), weight);
        typed(memo).map(Some)
    }

    /// The handle of a key; decodes nothing.
    pub fn cached<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Cached<K>> {
        self.view.reader.get(key).map(|object| self.handle(object))
    }

    /// The handle of an object of this store, as events carry them.
    pub fn handle(&self, object: Arc<Object>) -> Cached<K> {
        Cached { object, lister: self.clone() }
    }

    /// All objects.
    pub fn list(&self) -> List<K> {
        self.at(Snapshot::all)
    }

    /// The objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> List<K> {
        self.at(|moment| moment.in_namespace(namespace))
    }

    /// The objects with certain labels. For those of a namespace, use [`List::matching`].
    pub fn select(&self, selector: &Selector) -> List<K> {
        self.at(|moment| moment.select(selector))
    }

    /// The objects with a value in an index.
    ///
    /// # Errors
    /// If the store has no such index.
    pub fn by_index<I: Index>(
        &self,
        value: &(impl LookUp<I::Value> + ?Sized),
    ) -> Result<List<K>, IndexError> {
        let selection = self.view.reader.snapshot().by_index::<I>(value)?;
        Ok(List { selection, lister: self.clone() })
    }

    /// The objects with an owner, by the index [`ByOwner`].
    ///
    /// # Errors
    /// If the store has no such index.
    pub fn by_owner(&self, uid: &Uid) -> Result<List<K>, IndexError> {
        self.by_index::<ByOwner>(uid)
    }

    /// The objects with a label, by the index [`ByLabel`]. [`select`](Self::select) uses that index as well,
    /// and does without where there is none.
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

    fn at(&self, select: impl FnOnce(&Snapshot) -> Selection) -> List<K> {
        List { selection: select(&self.view.reader.snapshot()), lister: self.clone() }
    }

    /// Decodes an object that is not hot.
    fn decode(&self, object: &Object) -> (Memo, usize) {
        self.view.face.misses.fetch_add(1, Ordering::Relaxed);
        let decoded = match object.body() {
            Body::Bytes(bytes) => self.view.face.decode(object.head(), bytes),
            Body::Resident(decoded, weight) if self.view.face.is_of(decoded) => {
                Ok((Arc::clone(decoded), *weight as usize))
            }
            // It comes from a store that is resident in another type.
            Body::Resident(..) => Err(self.view.face.without_bytes(object.head())),
            Body::Undecodable(error) => Err(error.clone()),
        };
        match decoded {
            Ok((decoded, weight)) => (Memo::Decoded(decoded), weight),
            Err(error) => (Memo::Failed(error), 0),
        }
    }
}

/// Gives a decoded object its type back.
fn typed<K: Any + Send + Sync>(memo: Memo) -> Result<Arc<K>, DecodeError> {
    match memo {
        Memo::Decoded(decoded) => {
            Ok(decoded.downcast().expect("what a face decodes must be of its type"))
        }
        Memo::Failed(error) => Err(error),
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Cached<K> {
    /// The object, decoded from this version's bytes, or as it is in the hot set.
    ///
    /// # Errors
    /// If it does not decode as `K`.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        let table = &self.lister.view.reader.shared().table;
        let (object, face) = (&self.object, &self.lister.view.face);
        if let Some(memo) = table.find_version(object, face) {
            return typed(memo);
        }
        let (memo, _) = self.lister.decode(object);
        if let Memo::Failed(_) = memo {
            // Known to the status from now on, and not tried again.
            table.keep(object, face, memo.clone(), 0);
        }
        typed(memo)
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
    /// Those of them with certain labels. A second selector takes the place of the first.
    #[must_use]
    pub fn matching(mut self, selector: &Selector) -> Self {
        self.selection = self.selection.matching(selector);
        self
    }

    /// Handles of the objects.
    pub fn iter(&self) -> Iter<'_, K> {
        Iter { objects: self.selection.iter(), lister: &self.lister }
    }

    /// The heads alone, which costs no handle.
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

// Not derived, because that would ask for the same of `K`.

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
        write!(f, "Lister<{}{kept}>", self.view.face.name())
    }
}

impl<K> fmt::Debug for Cached<K> {
    /// Shows the head only: the object may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cached<{}>({})", self.lister.view.face.name(), self.key())
    }
}

impl<K> fmt::Debug for List<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.heads().map(Head::key)).finish()
    }
}
