//! Indexes. An index is a type that declares which view of an object it needs and which values it
//! yields.
//!
//! Values are computed when an object arrives, from the head and the view only. The entry that a
//! reader finds holds the same version that the values were computed from, so a read by index never
//! returns an object that does not match. An object whose view does not decode has no entry. The
//! index's status lists it.

use std::any::{Any, TypeId};
use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;

use crate::error::{DecodeError, short_name};
use crate::head::Head;
use crate::key::{KeyRef, ObjectKey};
use crate::object::Object;
use crate::tree::{Entry, Tree};
use crate::version::Uid;

/// An index over the objects of a store.
///
/// A store has one index of a type, and adding an equal one again changes nothing. One that has
/// other settings is refused, because a look-up names the type alone: give it a type of its own.
/// Of [`ByLabel`] there may be several, and a look-up uses one that has the label.
///
/// The view is any type that decodes from an object. It should have only the few fields that the
/// index reads, because it is decoded for every object that arrives. With the view `()`, an index
/// reads only the head and decodes nothing.
///
/// ```
/// use serde::Deserialize;
/// use windlass_indexer::{Head, Index, Store};
///
/// /// Pods by their node.
/// #[derive(PartialEq)]
/// struct ByNode;
///
/// #[derive(Deserialize)]
/// struct Assigned { spec: Spec }
///
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: Option<String> }
///
/// impl Index for ByNode {
///     type View = Assigned;
///     type Value = String;
///
///     fn values(&self, _: &Head, view: Assigned) -> impl IntoIterator<Item = String> {
///         view.spec.node_name
///     }
/// }
///
/// let mut store = Store::new();
/// let pod = br#"{"metadata":{"name":"web","namespace":"a"},"spec":{"nodeName":"node-1"}}"#;
/// store.put_bytes(pod)?;
/// store.add_index(ByNode)?;
/// let on_node = store.reader().snapshot().by_index::<ByNode>("node-1")?;
/// assert_eq!(on_node.iter().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Index: PartialEq + Send + Sync + 'static {
    /// What is decoded of an object for this index; `()` for nothing.
    type View: DeserializeOwned + 'static;
    /// The type of the values that objects are found by.
    type Value: IndexValue;

    /// The values of one object: none, one or more. Duplicates count once.
    fn values(&self, head: &Head, view: Self::View) -> impl IntoIterator<Item = Self::Value>;
}

/// A value of an index. Different values must have different texts.
pub trait IndexValue {
    /// The value as a text.
    fn index_text(&self) -> Cow<'_, str>;
}

/// What can be looked up in an index with values `V`: a `V`, or what it borrows as, such as a `str`
/// for a `String`, or a [`KeyRef`] for an [`ObjectKey`].
pub trait LookUp<V>: IndexValue {}

impl<V: Borrow<Q>, Q: IndexValue + ?Sized> LookUp<V> for Q {}

impl LookUp<ObjectKey> for KeyRef<'_> {}

/// The built-in index by the uids of an object's owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByOwner;

/// The built-in index by the uid of the controller of an object: the one owner that manages it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByController;

/// The built-in index by labels: by all of them, or by those with certain keys.
///
/// A store may have several, so all users of an informer get the labels that they ask for. One
/// whose labels another one has is not added. A look-up of a label that none of them has is an
/// error. Label selectors use them where they can, and look at the head of every object otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByLabel {
    /// `None` for all labels.
    keys: Option<BTreeSet<String>>,
}

/// What an index holds, and which objects it could not read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexStatus {
    /// The type of the index.
    pub name: &'static str,
    /// The number of entries: one for each pair of object and value.
    pub entries: usize,
    /// Objects that are not in the index because their view does not decode, in the order of their
    /// keys. An object leaves this list with its next version.
    pub undecodable: Vec<DecodeError>,
}

/// An index without its type parameters.
pub(crate) struct Registered {
    pub(crate) type_id: TypeId,
    pub(crate) name: &'static str,
    pub(crate) needs_bytes: bool,
    values: Box<Values>,
    /// The index itself.
    index: Arc<dyn Any + Send + Sync>,
    failed: Mutex<BTreeMap<ObjectKey, DecodeError>>,
}

/// What adding an index means to one that is there.
pub(crate) enum Relation {
    /// It answers every look-up of the other one.
    Covers,
    /// It is of the same type and has other settings. A look-up could not tell them apart.
    Differs,
    /// They can both be there.
    Unrelated,
}

type Values = dyn Fn(&Head, &[u8]) -> Result<BTreeSet<String>, serde_json::Error> + Send + Sync;

/// One object under one of its values.
#[derive(Clone, Debug)]
pub(crate) struct IndexEntry {
    pub(crate) value: Arc<str>,
    pub(crate) object: Arc<Object>,
}

/// One value of an object in an index.
#[derive(Clone, PartialEq)]
pub(crate) struct IndexedValue {
    /// The number of the index.
    pub(crate) index: usize,
    pub(crate) value: Arc<str>,
}

/// A position in an index: before all entries of a value, or at one of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexPosition<'a> {
    pub(crate) value: &'a str,
    pub(crate) key: Option<KeyRef<'a>>,
}

impl Registered {
    pub(crate) fn new<I: Index>(index: I) -> Self {
        let needs_bytes = TypeId::of::<I::View>() != TypeId::of::<()>();
        let index = Arc::new(index);
        let reads = Arc::clone(&index);
        let values = move |head: &Head, bytes: &[u8]| {
            // The unit type decodes from `null`.
            let view = serde_json::from_slice(if needs_bytes { bytes } else { b"null" })?;
            let values = reads.values(head, view).into_iter();
            Ok(values.map(|value| value.index_text().into_owned()).collect())
        };
        Self {
            type_id: TypeId::of::<I>(),
            name: short_name::<I>(),
            needs_bytes,
            values: Box::new(values),
            index,
            failed: Mutex::default(),
        }
    }

    /// The values of an object. If its view does not decode, there are none, and the failure is
    /// noted until the next version or [`Registered::forget`].
    pub(crate) fn values(&self, object: &Object) -> BTreeSet<String> {
        let key = object.head().key();
        match self.read(object) {
            Ok(values) => {
                self.forget(key);
                values
            }
            Err(error) => {
                self.failed().insert(key.clone(), error);
                BTreeSet::new()
            }
        }
    }

    /// The values of an object. Nothing is noted.
    pub(crate) fn read(&self, object: &Object) -> Result<BTreeSet<String>, DecodeError> {
        let values = (self.values)(object.head(), object.bytes().unwrap_or_default());
        values.map_err(|error| DecodeError::new(object.head(), self.name, &error))
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.failed().remove(key);
    }

    pub(crate) fn undecodable(&self) -> Vec<DecodeError> {
        self.failed().values().cloned().collect()
    }

    /// Whether it is an index of this type.
    pub(crate) fn is<I: Index>(&self) -> bool {
        self.type_id == TypeId::of::<I>()
    }

    /// What adding `other` means to it.
    pub(crate) fn compare<I: Index>(&self, other: &I) -> Relation {
        let labels = (other as &dyn Any).downcast_ref::<ByLabel>();
        match (self.index.downcast_ref::<I>(), self.labels().zip(labels)) {
            (Some(_), Some((held, wanted))) if held.covers_all(wanted) => Relation::Covers,
            (Some(held), None) if held == other => Relation::Covers,
            (Some(_), None) => Relation::Differs,
            (None, _) | (Some(_), Some(_)) => Relation::Unrelated,
        }
    }

    /// Whether it contains every object that has the label `key`.
    pub(crate) fn covers_label(&self, key: &str) -> bool {
        self.labels().is_some_and(|labels| labels.covers(key))
    }

    /// Whether every object with the value `text` is in it.
    pub(crate) fn covers_value(&self, text: &str) -> bool {
        self.labels().is_none_or(|labels| labels.covers(label_key(text)))
    }

    fn labels(&self) -> Option<&ByLabel> {
        self.index.downcast_ref()
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, DecodeError>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tree<IndexEntry> {
    /// The shared copy of a value, if an entry has it already, or a new one.
    pub(crate) fn share(&self, value: &str) -> Arc<str> {
        let first = self.from(IndexPosition { value, key: None }).next();
        let known = first.filter(|entry| *entry.value == *value);
        known.map_or_else(|| value.into(), |entry| Arc::clone(&entry.value))
    }
}

impl Entry for IndexEntry {
    type Bound = (Arc<str>, ObjectKey);
    type SearchKey<'a> = IndexPosition<'a>;

    fn bound(&self) -> Self::Bound {
        (Arc::clone(&self.value), self.object.head().key().clone())
    }

    fn search_key(&self) -> IndexPosition<'_> {
        IndexPosition { value: &self.value, key: Some(self.object.head().key().as_ref()) }
    }

    fn compare(&self, sought: IndexPosition<'_>) -> Ordering {
        self.search_key().cmp(&sought)
    }

    fn compare_bound((value, key): &Self::Bound, sought: IndexPosition<'_>) -> Ordering {
        IndexPosition { value, key: Some(key.as_ref()) }.cmp(&sought)
    }
}

impl Index for ByOwner {
    type View = ();
    type Value = Uid;

    fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = Uid> {
        head.owner_references().map(|owner| owner.uid.clone())
    }
}

impl Index for ByController {
    type View = ();
    type Value = Uid;

    fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = Uid> {
        head.controller().map(|owner| owner.uid.clone())
    }
}

impl ByLabel {
    /// Indexes only the labels with these keys.
    pub fn keys<T: Into<String>>(keys: impl IntoIterator<Item = T>) -> Self {
        Self { keys: Some(keys.into_iter().map(Into::into).collect()) }
    }

    /// Indexes all labels.
    pub fn all() -> Self {
        Self::default()
    }

    fn covers_all(&self, other: &Self) -> bool {
        match (&self.keys, &other.keys) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(keys), Some(other)) => keys.is_superset(other),
        }
    }

    fn covers(&self, key: &str) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.contains(key))
    }
}

impl Index for ByLabel {
    type View = ();
    type Value = (String, String);

    fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = (String, String)> {
        let labels = head.labels().iter().filter(|(key, _)| self.covers(key));
        labels.map(|(key, value)| (key.to_owned(), value.to_owned()))
    }
}

impl IndexValue for str {
    fn index_text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl IndexValue for String {
    fn index_text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl<T: IndexValue + ?Sized> IndexValue for &T {
    fn index_text(&self) -> Cow<'_, str> {
        (**self).index_text()
    }
}

impl<A: IndexValue, B: IndexValue> IndexValue for (A, B) {
    fn index_text(&self) -> Cow<'_, str> {
        let (one, two) = (self.0.index_text(), self.1.index_text());
        // The length distinguishes ("a", "bc") from ("ab", "c").
        Cow::Owned(format!("{}:{one}{two}", one.len()))
    }
}

/// The first part of a pair from its text: the key of a label.
pub(crate) fn label_key(text: &str) -> &str {
    let parts = text.split_once(':').and_then(|(length, pair)| pair.get(..length.parse().ok()?));
    parts.unwrap_or_default()
}

macro_rules! displayed {
    ($($value:ty),*) => {$(
        impl IndexValue for $value {
            fn index_text(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        }
    )*};
}

displayed!(bool, i8, i16, i32, i64, u8, u16, u32, u64, usize, KeyRef<'_>, ObjectKey, Uid);
