//! What a controller has applied, so that the same again costs no request.
//!
//! For each object there is a hash of the last body, and the uid and the resulting version.
//! If a body is applied again, and a cache still shows that version, the server has nothing to do.
//! The number of objects is bounded: those that were applied longest ago are forgotten, and their
//! next apply is sent.

use foldhash::quality::RandomState;
use hashlink::LruCache;
use parking_lot::Mutex;
use std::hash::BuildHasher as _;
use windlass_indexer::{Head, ObjectKey, ResourceVersion, Uid};
use windlass_informer::Resource;

/// How many objects are remembered, about 200 bytes each.
const APPLIED_MAX: usize = 16_384;

/// What was applied.
pub(crate) struct Applied {
    entries: Mutex<LruCache<ApplyTarget, Entry>>,
    /// Seeded at random, so that nobody can choose two bodies with the same hash.
    hasher: RandomState,
}

/// An object, or a part of it, as one field manager applies it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ApplyTarget {
    pub(crate) resource: Resource,
    pub(crate) key: ObjectKey,
    pub(crate) subresource: Option<&'static str>,
    pub(crate) manager: String,
}

struct Entry {
    hash: u64,
    uid: Uid,
    version: ResourceVersion,
}

impl Applied {
    pub(crate) fn new() -> Self {
        Self { entries: Mutex::new(LruCache::new(APPLIED_MAX)), hasher: RandomState::default() }
    }

    /// The hash of a body, and of the query that it is sent with.
    pub(crate) fn hash(&self, query: &[(&str, &str)], body: &str) -> u64 {
        self.hasher.hash_one((query, body))
    }

    /// Whether this body was the last one, and `shown` is the resulting version.
    pub(crate) fn is_current(&self, target: &ApplyTarget, hash: u64, shown: &Head) -> bool {
        let mut entries = self.entries.lock();
        let is_match = |entry: &mut Entry| {
            entry.hash == hash
                && entry.uid == *shown.uid()
                && entry.version == *shown.resource_version()
        };
        entries.get_mut(target).is_some_and(is_match)
    }

    pub(crate) fn note(&self, target: ApplyTarget, hash: u64, head: &Head) {
        let (uid, version) = (head.uid().clone(), head.resource_version().clone());
        self.entries.lock().insert(target, Entry { hash, uid, version });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_indexer::HeadParser;

    use super::*;

    fn head(uid: &str, version: &str) -> Head {
        let object = json!({"metadata": {"name": "a", "uid": uid, "resourceVersion": version}});
        HeadParser::default().parse(object.to_string().as_bytes()).expect("a head")
    }

    fn target(name: &str, manager: &str) -> ApplyTarget {
        let resource = Resource::of::<k8s_openapi::api::core::v1::ConfigMap>();
        let (key, manager) = (ObjectKey::cluster(name), manager.to_owned());
        ApplyTarget { resource, key, subresource: None, manager }
    }

    #[test]
    fn only_the_same_body_at_the_same_version_is_current() {
        let applied = Applied::new();
        let hash = |body: &str| applied.hash(&[("force", "true")], body);
        applied.note(target("a", "us"), hash("one"), &head("u", "7"));
        let is_current = |name, manager, body: &str, head: Head| {
            applied.is_current(&target(name, manager), hash(body), &head)
        };
        assert!(is_current("a", "us", "one", head("u", "7")));
        assert!(!is_current("a", "us", "two", head("u", "7")));
        assert!(!is_current("a", "us", "one", head("u", "8")));
        assert!(!is_current("a", "us", "one", head("v", "7")));
        assert!(!is_current("b", "us", "one", head("u", "7")));
        assert!(!is_current("a", "them", "one", head("u", "7")));
        assert_ne!(applied.hash(&[], "one"), hash("one"), "the query counts");
    }

    #[test]
    fn objects_are_forgotten_beyond_the_bound() {
        let applied = Applied::new();
        for number in 0..=APPLIED_MAX {
            applied.note(target(&number.to_string(), "us"), 1, &head("u", "7"));
        }
        assert_eq!(applied.entries.lock().len(), APPLIED_MAX);
        assert!(!applied.is_current(&target("0", "us"), 1, &head("u", "7")));
        assert!(applied.is_current(&target(&APPLIED_MAX.to_string(), "us"), 1, &head("u", "7")));
    }
}
