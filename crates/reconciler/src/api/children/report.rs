//! What was done about the children of an owner.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use windlass_indexer::{ObjectKey, Uid};
use windlass_informer::{Resource, StaticResource};

use super::kinds::is_same;
use crate::api::live::access::json_error;
use crate::api::live::apply::{AppliedObject, ApplyChange};
use crate::error::Error;

/// What [`Children::prune`](crate::Children::prune) did. It prints as one line, for logs and
/// events.
#[derive(Clone, Debug)]
pub struct ChildrenReport {
    pub(super) children: Vec<Child>,
    pub(super) deleted: Vec<DeletedChild>,
}

/// A child that was applied.
#[derive(Clone)]
#[non_exhaustive]
pub struct Child {
    /// What it is.
    pub resource: Resource,
    /// Its key.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Uid,
    /// What the apply did.
    pub change: ApplyChange,
    bytes: Bytes,
}

/// A child that was deleted. If it has finalizers, it is only marked for deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedChild {
    /// What it was.
    pub resource: Resource,
    /// Its key.
    pub key: ObjectKey,
}

impl ChildrenReport {
    /// All children that are wanted, in the order in which they were applied.
    pub fn children(&self) -> &[Child] {
        &self.children
    }

    /// The children that did not exist before.
    pub fn created(&self) -> impl Iterator<Item = &Child> {
        self.with(ApplyChange::Created)
    }

    /// The children that were there, but not as they should be.
    pub fn changed(&self) -> impl Iterator<Item = &Child> {
        self.with(ApplyChange::Changed)
    }

    /// The children that were as they should be.
    pub fn kept(&self) -> impl Iterator<Item = &Child> {
        self.with(ApplyChange::Kept)
    }

    /// The children that are not wanted any more, and were deleted.
    pub fn deleted(&self) -> &[DeletedChild] {
        &self.deleted
    }

    /// Whether anything was created, changed or deleted.
    pub fn has_changed(&self) -> bool {
        !self.deleted.is_empty()
            || self.children.iter().any(|child| child.change != ApplyChange::Kept)
    }

    /// The child of a type and a name, as the server or the cache has it now; `None` if it is not
    /// in the set.
    ///
    /// # Errors
    /// Returns an error if it does not decode as `T`.
    pub fn get<T: StaticResource + DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Error> {
        let resource = Resource::of::<T>();
        let is_match =
            |child: &&Child| is_same(&child.resource, &resource) && child.key.name() == name;
        self.children.iter().find(is_match).map(Child::decode).transpose()
    }

    fn with(&self, change: ApplyChange) -> impl Iterator<Item = &Child> {
        self.children.iter().filter(move |child| child.change == change)
    }
}

impl Child {
    pub(super) fn new(resource: &Resource, applied: AppliedObject, change: ApplyChange) -> Self {
        Self {
            resource: resource.clone(),
            key: applied.head.key().clone(),
            uid: applied.head.uid().clone(),
            change,
            bytes: applied.bytes,
        }
    }

    /// The object, as the server answered it, or as the cache has it if nothing had to be sent.
    ///
    /// # Errors
    /// Returns an error if it does not decode as `T`. The error does not show its content.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let what = || format!("the {} {} does not decode", self.resource.kind(), self.key);
        serde_json::from_slice(&self.bytes).map_err(|error| json_error(&what(), &error))
    }
}

impl fmt::Display for ChildrenReport {
    /// As in `created deployments.v1.apps shop/web; deleted services.v1 shop/old`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = self.children.iter().filter_map(|child| {
            let done = match child.change {
                ApplyChange::Created => "created",
                ApplyChange::Changed => "changed",
                ApplyChange::Kept => return None,
            };
            Some(format!("{done} {} {}", child.resource, child.key))
        });
        let deleted = self.deleted.iter().map(|child| format!("deleted {child}"));
        let all: Vec<_> = changes.chain(deleted).collect();
        if all.is_empty() { f.write_str("nothing changed") } else { f.write_str(&all.join("; ")) }
    }
}

impl fmt::Display for DeletedChild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource, self.key)
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Child({:?} {} {})", self.change, self.resource, self.key)
    }
}
