//! The target of a request.

use std::sync::Arc;

use crate::kind::Version;
use crate::kinds::Registered;
use crate::object::Key;

/// The resource or object of a path, with its kind.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) kind: Arc<Registered>,
    /// The index of the version in the kind's list of versions.
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
