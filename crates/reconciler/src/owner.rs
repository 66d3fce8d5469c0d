//! From an object to the one that owns it.

use windlass_indexer::{Head, ObjectKey, Reader, Uid};
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
        let (key, uid) = self.named(head)?;
        match self.owners.get(&key) {
            Some(present) if present.head().uid() != uid => None,
            _ => Some(key),
        }
    }

    /// The key of the owner of something that is gone. An owner of the same name that came after is meant, too: what
    /// was in its way is not there any more.
    pub(crate) fn key_of_gone(&self, head: &Head) -> Option<ObjectKey> {
        self.named(head).map(|(key, _)| key)
    }

    /// The owner, by its key and its uid.
    fn named<'h>(&self, head: &'h Head) -> Option<(ObjectKey, &'h Uid)> {
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
        Some((key, reference.uid))
    }
}
