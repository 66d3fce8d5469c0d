//! From an object to the one that owns it.

use windlass_indexer::{Head, ObjectKey, Reader};
use windlass_informer::Resource;

/// Finds the controller owner of objects, if it is of one resource.
#[derive(Clone, Debug)]
pub(crate) struct OwnerMapper {
    owner: Resource,
    /// What there is of that resource.
    owners: Reader,
}

impl OwnerMapper {
    pub(crate) fn new(owner: Resource, owners: Reader) -> Self {
        Self { owner, owners }
    }

    /// The key of the owner. An owner of the same name, but another uid, is not meant: it came after.
    pub(crate) fn key(&self, head: &Head) -> Option<ObjectKey> {
        let reference = head.controller()?;
        let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        if group != self.owner.group() || reference.kind != self.owner.kind() {
            return None;
        }
        let namespace = self.owner.is_namespaced().then(|| head.namespace()).flatten();
        let key = match namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, reference.name),
            None => ObjectKey::cluster(reference.name),
        };
        match self.owners.get(&key) {
            Some(present) if present.head().uid() != reference.uid => None,
            _ => Some(key),
        }
    }
}
