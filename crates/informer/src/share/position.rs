//! How far a feed is. Callers that wait until the cache shows what they wrote decide by it.

use std::sync::Mutex;

use tokio::time::Instant;
use windlass_indexer::ResourceVersion;

use crate::lock::lock;

/// How far one feed is. The feed writes it, and callers that wait for their writes read it.
pub(crate) struct FeedPosition {
    /// The namespace that the feed watches; `None` for all.
    namespace: Option<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Everything up to this version is in the cache.
    reached: Option<ResourceVersion>,
    /// When the last list began that showed that the cluster was restored. It is complete.
    restored_at_list: Option<Instant>,
}

impl FeedPosition {
    pub(crate) fn new(namespace: Option<String>) -> Self {
        Self { namespace, state: Mutex::default() }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether the feed watches the objects of a namespace; `None` for objects without one.
    pub(crate) fn covers(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace() == namespace
    }

    /// Everything up to this version is in the cache now.
    pub(crate) fn set_reached(&self, version: Option<&ResourceVersion>) {
        lock(&self.state).reached = version.cloned();
    }

    /// A completed list showed that the cluster was restored; `list_began` is when it began.
    pub(crate) fn set_restored(&self, list_began: Instant) {
        lock(&self.state).restored_at_list = Some(list_began);
    }

    /// Whether everything up to a version is in the cache.
    pub(crate) fn has_reached(&self, version: &ResourceVersion) -> bool {
        lock(&self.state).reached.as_ref().is_some_and(|reached| reached >= version)
    }

    /// Whether a completed list that began after `then` showed that the cluster was restored.
    pub(crate) fn is_restored_since(&self, then: Instant) -> bool {
        lock(&self.state).restored_at_list.is_some_and(|restored| restored > then)
    }
}
