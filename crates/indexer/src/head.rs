//! What is known of an object without decoding it: its metadata, read once, when it arrives.
//!
//! Handlers, predicates, selectors and mappers read heads; most of them never need more. A head is made for
//! every object, so it is small, and what many objects have in common is shared: namespaces and kinds, but also
//! all labels and all owners, which are the same for the pods of a workload. [`HeadParser`] makes them.

mod cursor;
mod error;
mod packed;
mod parse;
mod ties;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

pub use error::{HeadError, HeadProblem};
pub use parse::HeadParser;
pub(crate) use ties::Ties;

use packed::Packed;

use crate::interner::Symbol;
use crate::key::ObjectKey;
use crate::version::{ResourceVersion, Uid};

/// The metadata of an object.
#[derive(Clone)]
pub struct Head {
    key: ObjectKey,
    uid: Uid,
    version: ResourceVersion,
    kind: Option<Kind>,
    /// [`NONE`] if there is none.
    generation: i64,
    created: Seconds,
    deleted: Seconds,
    annotations_hash: u64,
    /// Keys and values by turns, in the order of the keys, each key once.
    labels: Packed,
    /// Most kinds have neither owners nor finalizers.
    ties: Option<Arc<Ties>>,
}

/// API version and kind as one interned text, `apps/v1/Deployment`: half of two pointers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind(Symbol);

/// A time in whole seconds, which is what the API has in metadata, or [`NONE`].
#[derive(Clone, Copy, Debug)]
struct Seconds(i64);

/// No generation and no time. Both would take twice as much as an `Option`, for every object.
const NONE: i64 = i64::MIN;

/// The labels of an object, in the order of their keys.
#[derive(Clone, Copy)]
pub struct Labels<'a>(&'a Packed);

/// One owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerRef<'a> {
    /// API version of the owner.
    pub api_version: &'a str,
    /// Kind of the owner.
    pub kind: &'a str,
    /// Name of the owner, in the namespace of the object, or cluster-scoped.
    pub name: &'a str,
    /// Uid of the owner.
    pub uid: &'a Uid,
    /// Whether it is the one owner that manages the object.
    pub controller: bool,
    /// Whether the owner cannot be deleted in the foreground before the object is gone.
    pub block_owner_deletion: bool,
}

impl Head {
    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The namespace, if the object has one.
    pub fn namespace(&self) -> Option<&str> {
        self.key.namespace()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// The uid; empty if the server gave none.
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// The resource version; empty if the server gave none.
    pub fn version(&self) -> &ResourceVersion {
        &self.version
    }

    /// The API version, if the bytes said it.
    pub fn api_version(&self) -> Option<&str> {
        self.kind.as_ref().map(Kind::api_version).filter(|text| !text.is_empty())
    }

    /// The kind, if the bytes said it.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_ref().map(Kind::kind).filter(|text| !text.is_empty())
    }

    /// The generation, which not every kind has.
    pub fn generation(&self) -> Option<i64> {
        (self.generation != NONE).then_some(self.generation)
    }

    /// When it was created, to the second.
    pub fn created(&self) -> Option<Timestamp> {
        self.created.timestamp()
    }

    /// When its deletion was asked for, or will have passed its grace period; `None` if it was not.
    pub fn deleted(&self) -> Option<Timestamp> {
        self.deleted.timestamp()
    }

    /// A hash of the annotations that does not depend on their order. It tells whether they changed, within
    /// this process; it is not for storing.
    pub fn annotations_hash(&self) -> u64 {
        self.annotations_hash
    }

    /// The labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels(&self.labels)
    }

    /// The owners, in the object's order.
    pub fn owners(&self) -> impl ExactSizeIterator<Item = OwnerRef<'_>> {
        let owners = self.ties.as_ref().map_or(&[][..], |ties| &ties.owners);
        owners.iter().map(|owner| OwnerRef {
            api_version: owner.kind.api_version(),
            kind: owner.kind.kind(),
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller,
            block_owner_deletion: owner.block_deletion,
        })
    }

    /// The owner that manages the object, if it has one.
    pub fn controller(&self) -> Option<OwnerRef<'_>> {
        self.owners().find(|owner| owner.controller)
    }

    /// The finalizers, in the object's order.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.ties.as_ref().map(|ties| ties.finalizers.texts()).unwrap_or_default()
    }

    /// What it asked of the allocator, beside its own size. What is shared belongs to the interner.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.key.allocated_bytes() + self.uid.allocated_bytes() + self.version.allocated_bytes()
    }
}

impl Kind {
    /// What the texts are joined with. No kind has one, so the last one is where they meet.
    const SEPARATOR: char = '/';

    fn api_version(&self) -> &str {
        self.0.rsplit_once(Self::SEPARATOR).map_or("", |(api_version, _)| api_version)
    }

    fn kind(&self) -> &str {
        self.0.rsplit_once(Self::SEPARATOR).map_or("", |(_, kind)| kind)
    }
}

impl Seconds {
    fn timestamp(self) -> Option<Timestamp> {
        // A timestamp was the source of every value but `NONE`, which is out of its range.
        Timestamp::from_second(self.0).ok()
    }
}

impl<'a> Labels<'a> {
    /// The value of a label.
    pub fn get(self, key: &str) -> Option<&'a str> {
        // Objects have a handful of labels: walking over them is faster than a binary search.
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Keys and values.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'a str, &'a str)> {
        let mut texts = self.0.texts();
        // They come in pairs. A range knows its size, which an iterator made by a closure would not.
        let mut text = move || texts.next().unwrap_or_default();
        (0..self.len()).map(move |_| (text(), text()))
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.texts().len() / 2
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head")
            .field("key", &self.key)
            .field("uid", &self.uid)
            .field("version", &self.version)
            .field("api_version", &self.api_version())
            .field("kind", &self.kind())
            .field("generation", &self.generation())
            .field("created", &self.created())
            .field("deleted", &self.deleted())
            .field("labels", &self.labels())
            .field("owners", &self.owners().collect::<Vec<_>>())
            .field("finalizers", &self.finalizers().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
