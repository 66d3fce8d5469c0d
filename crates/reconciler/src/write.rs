//! A write that a run has made, as the server answered it.
//!
//! The journal keeps a [`Write`], which is small. Until the caches show the write, more of it is
//! needed: a [`Recorded`] has the head of the object as well.

use std::fmt;

use serde::Deserialize;
use windlass_indexer::{HeadParser, Interner, ObjectKey, ResourceVersion, Uid};
use windlass_informer::{Resource, Written};

use crate::cause::Change;
use crate::target::Target;

/// Something that a run wrote, and the server took.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Write {
    /// What was done.
    pub verb: Verb,
    /// The group; empty for the core group.
    pub group: String,
    /// The resource, as in `deployments`.
    pub plural: String,
    /// The part of the object that was written, as in `status`; `None` for the object itself.
    pub subresource: Option<String>,
    /// Which object was written.
    key: ObjectKey,
    /// `None` if the object is gone.
    version: Option<ResourceVersion>,
}

/// A write, and what it left behind for caches to show.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) write: Write,
    pub(crate) written: Written,
}

/// What was done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It was made.
    Create,
    /// It was replaced.
    Update,
    /// It was changed in part.
    Patch,
    /// It was deleted, or is to be.
    Delete,
}

/// What there is of a Status that says which object was deleted.
#[derive(Deserialize)]
struct Deleted {
    details: Details,
}

#[derive(Deserialize)]
struct Details {
    uid: String,
}

impl Recorded {
    /// What an answer tells about a write; `None` if it is about no object that a cache could show.
    pub(crate) fn of(verb: Verb, target: Target, answer: &[u8]) -> Option<Self> {
        let written = match HeadParser::new(Interner::new()).parse(answer) {
            Ok(head) if head.version().is_empty() => return None,
            Ok(head) => Written::Object(head),
            // Not an object: an object that is gone is told by a Status.
            Err(_) if verb == Verb::Delete => {
                let deleted: Deleted = serde_json::from_slice(answer).ok()?;
                Written::Gone { key: target.key()?, uid: Uid::new(&deleted.details.uid) }
            }
            Err(_) => return None,
        };
        let version = match &written {
            Written::Object(head) => Some(head.version().clone()),
            Written::Gone { .. } => None,
        };
        let Target { group, plural, subresource, .. } = target;
        let key = written.key().clone();
        Some(Self { write: Write { verb, group, plural, subresource, key, version }, written })
    }

    /// Whether a cache that shows this write shows the earlier one as well. Of one object the later
    /// version is enough, if caches select both alike: one that is not held tells nothing else.
    pub(crate) fn supersedes(&self, earlier: &Self) -> bool {
        match (&self.written, &earlier.written) {
            (Written::Object(head), Written::Object(before)) => {
                self.write.is_same_object(&earlier.write)
                    && head.version() > before.version()
                    && head.labels().iter().eq(before.labels().iter())
            }
            (Written::Object(_) | Written::Gone { .. }, _) => false,
        }
    }
}

impl Write {
    /// Which object was written.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The version that it led to; `None` if the object is gone.
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.version.as_ref()
    }

    /// Whether it led to this change of its object. A deletion that is done leads to a version that its answer does
    /// not tell.
    pub(crate) fn led_to(&self, change: Change, version: &ResourceVersion) -> bool {
        match self.version() {
            Some(of) => of == version,
            None => change == Change::Deleted,
        }
    }

    /// Whether both wrote the same part of the same object.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        self.is_same_object(other) && self.subresource == other.subresource
    }

    /// Whether both wrote the same object, or others of its name.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        self.key == other.key && self.group == other.group && self.plural == other.plural
    }

    /// Whether it is of this resource, in whatever version of its group.
    pub(crate) fn is_of(&self, resource: &Resource) -> bool {
        self.group == resource.group() && self.plural == resource.plural()
    }
}

impl fmt::Display for Write {
    /// `patch deployments/status shop/web at 17`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.plural)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        write!(f, " {}", self.key())?;
        match self.version() {
            Some(version) => write!(f, " at {version}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        })
    }
}
