//! From the bytes of an object to an object: the transform is applied, the head is read, and the
//! type is added if it is missing. An object whose head cannot be read is quarantined, and the
//! others are unaffected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use windlass_indexer::{HeadError, HeadParser, Object, ObjectKey};

use crate::decode::transform::Transform;
use crate::lock::lock;
use crate::resource::Resource;

/// Makes objects. Each feed has one.
#[derive(Debug)]
pub(crate) struct Ingest {
    parser: HeadParser,
    transform: Option<Transform>,
    api_version: String,
    kind: String,
}

/// Objects that have no readable head.
#[derive(Debug, Default)]
pub(crate) struct Quarantine(Mutex<Quarantined>);

#[derive(Debug, Default)]
struct Quarantined {
    by_key: BTreeMap<ObjectKey, HeadError>,
    /// The last one whose key could not be read.
    nameless: Option<HeadError>,
    /// How many have arrived.
    total: u64,
}

/// How many objects are kept by key. These are enough to see what is wrong.
const NAMED_MAX: usize = 100;

impl Ingest {
    pub(crate) fn new(
        parser: HeadParser,
        resource: &Resource,
        transform: Option<Transform>,
    ) -> Self {
        let api_version = resource.api_version();
        let kind = resource.kind().to_owned();
        Self { parser, transform, api_version, kind }
    }

    /// The object in `bytes`.
    pub(crate) fn object(&mut self, bytes: Box<[u8]>) -> Result<Object, HeadError> {
        let bytes = match self.transform.as_ref().map(|transform| transform.apply(&bytes)) {
            None => bytes,
            Some(Ok(changed)) => changed,
            Some(Err(reason)) => return Err(self.untransformable(&bytes, reason)),
        };
        let mut head = self.parser.parse(&bytes)?;
        if head.kind().is_some() || head.api_version().is_some() {
            return Ok(Object::new(head, bytes));
        }
        // The items of a list do not contain their type. It is added in the order of a watch.
        let Self { api_version, kind, .. } = self;
        self.parser.set_type(&mut head, api_version, kind);
        let type_meta = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","#);
        Ok(Object::new(head, [type_meta.as_bytes(), &bytes[1..]].concat()))
    }

    fn untransformable(&mut self, bytes: &[u8], reason: &'static str) -> HeadError {
        match self.parser.parse(bytes) {
            Err(error) => error,
            Ok(head) => HeadError::rejected(Some(head.key().clone()), reason),
        }
    }
}

impl Quarantine {
    pub(crate) fn add(&self, error: HeadError) {
        let mut held = lock(&self.0);
        held.total += 1;
        match error.key().cloned() {
            Some(key) if held.by_key.len() < NAMED_MAX || held.by_key.contains_key(&key) => {
                held.by_key.insert(key, error);
            }
            Some(_) => {}
            None => held.nameless = Some(error),
        }
    }

    /// Removes an object, because a readable version has arrived or because it was deleted.
    pub(crate) fn release(&self, key: &ObjectKey) {
        lock(&self.0).by_key.remove(key);
    }

    /// Removes what a complete list of a namespace, or of all, did not contain. `unreadable` are
    /// the keys that it contained.
    pub(crate) fn sweep(&self, namespace: Option<&str>, unreadable: &BTreeSet<ObjectKey>) {
        let is_listed = |key: &ObjectKey| namespace.is_none() || namespace == key.namespace();
        lock(&self.0).by_key.retain(|key, _| unreadable.contains(key) || !is_listed(key));
    }

    /// How many objects without a readable head have arrived.
    pub(crate) fn total(&self) -> u64 {
        lock(&self.0).total
    }

    /// The objects whose current version is not in the cache.
    pub(crate) fn list(&self) -> Vec<HeadError> {
        let held = lock(&self.0);
        held.by_key.values().chain(&held.nameless).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_of_unreadable_objects_is_bounded_and_counted() {
        let quarantine = Quarantine::default();
        let error = |number: usize| {
            let key = ObjectKey::namespaced("default", &format!("bad-{number}"));
            HeadError::rejected(Some(key), "it is broken")
        };
        for number in 0..10_000 {
            quarantine.add(error(number));
            quarantine.add(HeadError::rejected(None, "it has no name"));
        }
        // The first ones by key, the last one without, and all of them in the total.
        assert_eq!((quarantine.list().len(), quarantine.total()), (NAMED_MAX + 1, 20_000));
        let named = |number: usize| {
            let key = error(number).key().cloned();
            quarantine.list().iter().any(|error| error.key() == key.as_ref())
        };
        assert!(named(0) && named(NAMED_MAX - 1) && !named(NAMED_MAX));
        // One that is known is still replaced, and one that goes makes room.
        quarantine.add(error(0));
        assert_eq!(quarantine.list().len(), NAMED_MAX + 1);
        quarantine.release(&ObjectKey::namespaced("default", "bad-0"));
        quarantine.add(error(9_999));
        assert!(named(9_999) && !named(0));
    }
}
