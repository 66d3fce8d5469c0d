//! A write that a run has made, as the server answered it.

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
    /// What it led to.
    pub written: Written,
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

impl Write {
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
        let Target { group, plural, subresource, .. } = target;
        Some(Self { verb, group, plural, subresource, written })
    }

    /// Which object was written.
    pub fn key(&self) -> &ObjectKey {
        self.written.key()
    }

    /// The version that it led to; `None` if the object is gone.
    pub fn version(&self) -> Option<&ResourceVersion> {
        match &self.written {
            Written::Object(head) => Some(head.version()),
            Written::Gone { .. } => None,
        }
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
        self.key() == other.key()
            && self.group == other.group
            && self.plural == other.plural
            && self.subresource == other.subresource
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
