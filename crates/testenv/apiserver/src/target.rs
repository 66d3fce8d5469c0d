//! What the path of a request points at.

use std::sync::Arc;

use crate::kind::Version;
use crate::kinds::Registered;
use crate::object::Key;

/// What a path points at, once its kind is known.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) kind: Arc<Registered>,
    /// Index into the kind's versions.
    pub(crate) version: usize,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl Target {
    pub(crate) fn version(&self) -> &Version {
        &self.kind.versions[self.version]
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }
}
