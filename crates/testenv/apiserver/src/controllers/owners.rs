//! The index of owners and dependents that garbage collection needs, updated with every write.

use std::collections::BTreeSet;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use serde_json::{Map, Value};

use crate::fields::text;
use crate::kinds::KindId;
use crate::object::Key;

/// The identity of an object: its kind and key.
pub(crate) type ObjectId = (KindId, Key);

/// Objects by uid, and dependents by the uid of their owner. The iteration order of the hash maps
/// has no visible effect.
#[derive(Debug, Clone, Default)]
pub(crate) struct Owners {
    by_uid: HashMap<String, ObjectId, RandomState>,
    dependents: HashMap<String, BTreeSet<ObjectId>, RandomState>,
    by_dependent: HashMap<ObjectId, Vec<String>, RandomState>,
}

impl Owners {
    /// Updates the index with an object that was stored.
    pub(crate) fn note(&mut self, kind: KindId, key: &Key, object: &Map<String, Value>) {
        let place = (kind, key.clone());
        let uid = text(object, "uid");
        if !self.by_uid.contains_key(uid) {
            self.by_uid.insert(uid.to_owned(), place.clone());
        }
        let owners: Vec<String> = references(object)
            .filter_map(|owner| owner["uid"].as_str())
            .map(str::to_owned)
            .collect();
        if self.by_dependent.get(&place).map(Vec::as_slice).unwrap_or_default() == owners {
            return;
        }
        self.disown(&place);
        for owner in &owners {
            self.dependents.entry(owner.clone()).or_default().insert(place.clone());
        }
        self.by_dependent.insert(place, owners);
    }

    /// Updates the index after an object was removed. Returns the uids of its owners.
    pub(crate) fn forget(&mut self, kind: KindId, key: &Key, uid: &str) -> Vec<String> {
        self.by_uid.remove(uid);
        self.disown(&(kind, key.clone()))
    }

    pub(crate) fn find(&self, uid: &str) -> Option<&ObjectId> {
        self.by_uid.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<ObjectId> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn disown(&mut self, place: &ObjectId) -> Vec<String> {
        let owners = self.by_dependent.remove(place).unwrap_or_default();
        for owner in &owners {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(place);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        owners
    }
}

/// Returns `metadata.ownerReferences`.
pub(crate) fn references(object: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let list = object.get("metadata").and_then(|metadata| metadata.get("ownerReferences"));
    list.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    /// Clients choose the uids in owner references. If the hash seed were fixed, a client could
    /// choose many uids with colliding hashes.
    #[test]
    fn hash_seed_of_uids_is_random_per_server() {
        let hash = || Owners::default().dependents.hasher().hash_one("a uid");
        assert_ne!(hash(), hash());
    }
}
