//! A write of a run, as the server answered it.
//!
//! The journal keeps a [`Write`], which is small. Until the caches show the write, a
//! [`TrackedWrite`] also keeps the head of the object.

use std::fmt;

use http::StatusCode;
use serde_json::Value;
use tokio::time::Instant;
use windlass_indexer::{Head, HeadParser, ObjectKey, ResourceVersion, Uid};
use windlass_informer::client::RequestTarget;
use windlass_informer::{Resource, Written};
use windlass_nesting::read_object;

use crate::history::size::{key_bytes, text_bytes};
use crate::writes::authorship::{BeforeWrite, WriteEffect};

/// A successful write of a run. Two are equal if all of their fields are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Write {
    /// What was done.
    pub verb: Verb,
    /// The group; empty for the core group.
    pub group: String,
    /// The resource, as in `deployments`.
    pub plural: String,
    /// The subresource that was written, as in `status`; `None` for the object itself.
    pub subresource: Option<String>,
    /// Whether it changed the object.
    pub effect: WriteEffect,
    /// When the server answered.
    pub answered: Instant,
    /// The key of the object.
    pub key: ObjectKey,
    /// The uid of the object.
    pub uid: Uid,
    /// The version of the object in the answer; `None` if the object is gone.
    pub version: Option<ResourceVersion>,
}

/// A write, and what caches show once they have seen it.
#[derive(Clone)]
pub(crate) struct TrackedWrite {
    pub(crate) write: Write,
    pub(crate) written: Written,
}

/// What the journal keeps of a write when it is short of memory: what is needed to recognize an
/// event that it led to, and a run that writes the same again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MadeVersion {
    pub(crate) uid: Uid,
    pub(crate) version: Option<ResourceVersion>,
    pub(crate) answered: Instant,
    pub(crate) has_changed: bool,
    subresource: Option<Box<str>>,
}

/// The group, the plural and the key of an object.
pub(crate) type WrittenObject = (String, String, ObjectKey);

/// What was done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It was created.
    Create,
    /// It was replaced.
    Update,
    /// It was patched or applied.
    Patch,
    /// It was deleted, or marked for deletion.
    Delete,
}

impl TrackedWrite {
    /// The write that an answer is about; `None` if it is not about an object that a cache could
    /// show.
    pub(crate) fn of(
        verb: Verb,
        target: RequestTarget,
        before: &BeforeWrite,
        status: StatusCode,
        answer: &[u8],
    ) -> Option<Self> {
        let written = match HeadParser::default().parse(answer) {
            Ok(head) if is_gone(verb, &target, &head, answer) => {
                Written::Gone { key: head.key().clone(), uid: head.uid().clone() }
            }
            Ok(head) if head.resource_version().is_empty() => return None,
            Ok(head) => Written::Object(head),
            // The answer to a deletion that is complete is a Status and not an object.
            Err(_) if verb == Verb::Delete => {
                let status: Value = serde_json::from_slice(answer).ok()?;
                Written::Gone {
                    key: target.key()?,
                    uid: Uid::new(status["details"]["uid"].as_str()?),
                }
            }
            Err(_) => return None,
        };
        let (uid, version, effect) = match &written {
            Written::Object(head) => {
                let effect = before.effect(status, head, answer);
                (head.uid().clone(), Some(head.resource_version().clone()), effect)
            }
            Written::Gone { uid, .. } => (uid.clone(), None, WriteEffect::Changed),
        };
        let RequestTarget { group, plural, subresource, .. } = target;
        let key = written.key().clone();
        let write = Write {
            verb,
            group,
            plural,
            subresource,
            effect,
            answered: Instant::now(),
            key,
            uid,
            version,
        };
        Some(Self { write, written })
    }

    /// What was read of an object of this resource, for caches that do not show it yet. Nothing was
    /// written.
    pub(crate) fn of_read(resource: &Resource, read: Written) -> Self {
        let (uid, version) = match &read {
            Written::Object(head) => (head.uid().clone(), Some(head.resource_version().clone())),
            Written::Gone { uid, .. } => (uid.clone(), None),
        };
        let write = Write {
            verb: Verb::Update,
            group: resource.group().to_owned(),
            plural: resource.plural().to_owned(),
            subresource: None,
            effect: WriteEffect::Unchanged,
            answered: Instant::now(),
            key: read.key().clone(),
            uid,
            version,
        };
        Self { write, written: read }
    }

    /// Whether a cache that shows this write also shows the earlier one. For one object the later
    /// version is enough, if both have the same labels, so that a cache selects both or none.
    pub(crate) fn supersedes(&self, earlier: &Self) -> bool {
        match (&self.written, &earlier.written) {
            (Written::Object(head), Written::Object(before)) => {
                self.write.is_same_object(&earlier.write)
                    && head.resource_version() > before.resource_version()
                    && head.labels().iter().eq(before.labels().iter())
            }
            (Written::Object(_) | Written::Gone { .. }, _) => false,
        }
    }
}

impl Write {
    /// Whether the effect is [`WriteEffect::Changed`].
    pub fn has_changed(&self) -> bool {
        self.effect == WriteEffect::Changed
    }

    /// What it made, without the names.
    pub(crate) fn made(&self) -> MadeVersion {
        MadeVersion {
            uid: self.uid.clone(),
            version: self.version.clone(),
            answered: self.answered,
            has_changed: self.has_changed(),
            subresource: self.subresource.as_deref().map(Box::from),
        }
    }

    /// The bytes that its texts have allocated.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let texts = [Some(&self.group), Some(&self.plural), self.subresource.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::capacity).sum();
        let version = self.version.as_ref().map_or(0, text_bytes);
        texts + key_bytes(&self.key) + text_bytes(&self.uid) + version
    }

    /// Which object it wrote.
    pub(crate) fn object(&self) -> WrittenObject {
        (self.group.clone(), self.plural.clone(), self.key.clone())
    }

    /// Whether both wrote the same object and subresource.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        self.is_same_object(other) && self.subresource == other.subresource
    }

    /// Whether both wrote an object of the same name.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        self.key == other.key && self.group == other.group && self.plural == other.plural
    }

    /// Whether it wrote this resource, in any version of its group.
    pub(crate) fn is_of(&self, resource: &Resource) -> bool {
        self.group == resource.group() && self.plural == resource.plural()
    }
}

impl MadeVersion {
    /// Whether `write` wrote the same object and subresource.
    pub(crate) fn is_same_place(&self, write: &Write) -> bool {
        let is_same_object = !self.uid.is_empty() && self.uid == write.uid;
        is_same_object && self.subresource.as_deref() == write.subresource.as_deref()
    }

    /// The bytes that its texts have allocated.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let version = self.version.as_ref().map_or(0, text_bytes);
        let subresource = self.subresource.as_deref().map_or(0, str::len);
        text_bytes(&self.uid) + version + subresource
    }
}

/// Whether the object is gone, although the answer contains it.
///
/// A delete removes the object, or sets its deletion timestamp. Any other write removes an object
/// that has a deletion timestamp and no finalizers after the write. The answer then has the version
/// from before the write. Two things still keep the object: the grace period of a pod on a node,
/// and `spec.finalizers` of a namespace.
fn is_gone(verb: Verb, target: &RequestTarget, head: &Head, answer: &[u8]) -> bool {
    if head.deletion_timestamp().is_none() {
        return verb == Verb::Delete;
    }
    if head.finalizers().len() > 0 {
        return false;
    }
    read_object(answer, |object| {
        let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        // An answer with metadata alone does not show the finalizers in the spec.
        let is_namespace = target.group.is_empty() && target.plural == "namespaces";
        let in_spec = object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        let is_held = is_namespace && (in_spec || object["kind"] != "Namespace");
        grace == 0 && !is_held
    })
    .unwrap_or(false)
}

impl fmt::Display for Write {
    /// `patch deployments/status shop/web at 17`, and then `, no change` if it changed nothing, or
    /// `, perhaps no change` if that is not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.plural)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        write!(f, " {}", self.key)?;
        if let Some(version) = &self.version {
            write!(f, " at {version}")?;
        }
        f.write_str(match self.effect {
            WriteEffect::Changed => "",
            WriteEffect::Unchanged => ", no change",
            WriteEffect::Unknown => ", perhaps no change",
        })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What remains of an object after a write, according to the answer.
    fn left(verb: Verb, plural: &str, metadata: &Value, spec: &Value) -> String {
        let kind = if plural == "namespaces" { "Namespace" } else { "Other" };
        left_of(verb, plural, json!({"kind": kind, "metadata": metadata, "spec": spec}))
    }

    fn left_of(verb: Verb, plural: &str, mut object: Value) -> String {
        object["metadata"]["name"] = "one".into();
        object["metadata"]["resourceVersion"] = "7".into();
        object["metadata"]["uid"] = "a".into();
        let target = RequestTarget::of(&format!("/api/v1/{plural}/one")).expect("a target");
        let answer = object.to_string();
        let before = BeforeWrite::default();
        let write = TrackedWrite::of(verb, target, &before, StatusCode::OK, answer.as_bytes())
            .expect("a write");
        match write.written {
            Written::Object(head) => format!("version {}", head.resource_version()),
            Written::Gone { key, uid } => format!("{key} {uid} is gone"),
        }
    }

    #[test]
    fn effect_is_told_unless_the_object_was_changed() {
        let answer = br#"{"metadata": {"name": "one", "resourceVersion": "7", "uid": "a"}}"#;
        let told = |status, shown: Option<&str>| {
            let target = RequestTarget::of("/api/v1/nodes/one").expect("a target");
            let before = BeforeWrite::of(b"", None, shown.map(ResourceVersion::new));
            let tracked = TrackedWrite::of(Verb::Patch, target, &before, status, answer);
            tracked.expect("a write").write.to_string()
        };
        assert_eq!(told(StatusCode::CREATED, None), "patch nodes one at 7");
        assert_eq!(told(StatusCode::OK, Some("7")), "patch nodes one at 7, no change");
        assert_eq!(told(StatusCode::OK, Some("6")), "patch nodes one at 7, perhaps no change");
    }

    #[test]
    fn object_is_gone_if_nothing_holds_it() {
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let with = |field: &str, value: Value| {
            let mut metadata = deleted.clone();
            metadata[field] = value;
            metadata
        };
        let grace = |seconds: u64| with("deletionGracePeriodSeconds", seconds.into());
        let finalizers = with("finalizers", json!(["example.com/a"]));
        let (none, in_spec) = (json!({}), json!({"finalizers": ["kubernetes"]}));
        let (gone, there) = ("one a is gone", "version 7");
        let cases = [
            (Verb::Patch, "nodes", &deleted, &none, gone),
            (Verb::Update, "nodes", &grace(0), &none, gone),
            (Verb::Patch, "nodes", &none, &none, there),
            (Verb::Patch, "nodes", &finalizers, &none, there),
            (Verb::Patch, "pods", &grace(30), &none, there),
            (Verb::Patch, "namespaces", &deleted, &in_spec, there),
            (Verb::Update, "namespaces", &deleted, &none, gone),
            // Others may have a field of this name, which means nothing.
            (Verb::Patch, "nodes", &deleted, &in_spec, gone),
            (Verb::Delete, "serviceaccounts", &none, &none, gone),
            (Verb::Delete, "pods", &grace(0), &none, gone),
            (Verb::Delete, "pods", &grace(30), &none, there),
            (Verb::Delete, "nodes", &finalizers, &none, there),
        ];
        for (verb, plural, metadata, spec, expected) in cases {
            let left = left(verb, plural, metadata, spec);
            assert_eq!(left, expected, "{verb} {plural} {metadata} {spec}");
        }
        let partial = json!({"kind": "PartialObjectMetadata", "metadata": deleted});
        assert_eq!(left_of(Verb::Patch, "namespaces", partial), there, "its spec is not shown");
    }
}
