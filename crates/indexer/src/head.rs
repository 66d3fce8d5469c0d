//! The metadata of an object, available without decoding the object.
//!
//! Handlers, predicates, selectors and mappers read heads, and most of them need no more. Every
//! object has a head, so a head is small: it shares namespace, kind, labels, owner references and
//! finalizers with other objects. [`HeadParser`](crate::HeadParser) makes heads.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::interner::Label;
use crate::key::ObjectKey;
use crate::owner::OwnersAndFinalizers;
use crate::version::{ResourceVersion, Uid};

/// The metadata of an object.
#[derive(Clone, Debug)]
pub struct Head {
    pub(crate) key: ObjectKey,
    pub(crate) uid: Uid,
    pub(crate) resource_version: ResourceVersion,
    pub(crate) api_version: Option<Arc<str>>,
    pub(crate) kind: Option<Arc<str>>,
    pub(crate) generation: Option<i64>,
    /// In whole seconds, which is the precision of metadata.
    pub(crate) creation_timestamp: Option<i64>,
    pub(crate) deletion_timestamp: Option<i64>,
    pub(crate) annotations_hash: u64,
    /// In the order of the keys, each key once.
    pub(crate) labels: Arc<[Label]>,
    pub(crate) owners_and_finalizers: Arc<OwnersAndFinalizers>,
}

/// The labels of an object, in the order of their keys.
#[derive(Clone, Copy)]
pub struct Labels<'a>(&'a [Label]);

/// One owner reference of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerRef<'a> {
    /// API version of the owner.
    pub api_version: &'a str,
    /// Kind of the owner.
    pub kind: &'a str,
    /// Name of the owner. The owner is in the object's namespace, or cluster-scoped.
    pub name: &'a str,
    /// Uid of the owner.
    pub uid: &'a Uid,
    /// Whether the owner is the one that manages the object.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits until the object is gone.
    pub block_owner_deletion: bool,
}

impl Head {
    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The namespace; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.key.namespace()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// The uid; empty if the server sent none.
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// The resource version; empty if the server sent none.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.resource_version
    }

    /// The API version, if the bytes contain it.
    pub fn api_version(&self) -> Option<&str> {
        self.api_version.as_deref()
    }

    /// The kind, if the bytes contain it.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// The generation. Not every kind has one.
    pub fn generation(&self) -> Option<i64> {
        self.generation
    }

    /// When the object was created, in whole seconds.
    pub fn creation_timestamp(&self) -> Option<Timestamp> {
        self.creation_timestamp.and_then(|seconds| Timestamp::from_second(seconds).ok())
    }

    /// When the object's grace period ends, in whole seconds; `None` unless the object is being
    /// deleted.
    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.deletion_timestamp.and_then(|seconds| Timestamp::from_second(seconds).ok())
    }

    /// A hash of the annotations, independent of their order.
    ///
    /// It shows whether they changed. It is valid within this process only: do not store it.
    pub fn annotations_hash(&self) -> u64 {
        self.annotations_hash
    }

    /// The labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels(&self.labels)
    }

    /// The owner references, in the object's order.
    pub fn owner_references(&self) -> impl ExactSizeIterator<Item = OwnerRef<'_>> {
        self.owners_and_finalizers.owners.iter().map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        })
    }

    /// The owner that manages the object, if it has one.
    pub fn controller(&self) -> Option<OwnerRef<'_>> {
        self.owner_references().find(|owner| owner.controller)
    }

    /// The finalizers, in the object's order.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.owners_and_finalizers.finalizers.iter().map(|text| &**text)
    }

    /// What the head takes from the allocator, beside its own size. The interner counts what
    /// heads share.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.key.allocated_bytes()
            + self.uid.allocated_bytes()
            + self.resource_version.allocated_bytes()
    }
}

impl<'a> Labels<'a> {
    /// The value of a label.
    pub fn get(self, key: &str) -> Option<&'a str> {
        // Objects have a handful of labels: a scan is faster than a binary search.
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Keys and values.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'a str, &'a str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The number of labels.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are no labels.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
