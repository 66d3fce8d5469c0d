//! The mark that each request of a run carries.

use std::fmt;
use std::sync::{Arc, Weak};

use windlass_informer::Resource;

use crate::controller_core::ControllerCore;

/// Which controller sent a request: an extension of each request of a run, for layers of a
/// [`ClientStack`](windlass_informer::ClientStack). The environment of tests reads it to say which
/// controller needs which rights.
#[derive(Clone)]
pub struct SentBy {
    controller: Arc<str>,
    /// A request does not keep its controller alive.
    core: Weak<ControllerCore>,
}

impl SentBy {
    pub(crate) fn new(core: &Arc<ControllerCore>) -> Self {
        Self { controller: Arc::clone(&core.controller), core: Arc::downgrade(core) }
    }

    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// The resource of a kind, if the controller watches it.
    pub fn watched(&self, group: &str, kind: &str) -> Option<Resource> {
        let core = self.core.upgrade()?;
        core.sources.resource(|resource| resource.group() == group && resource.kind() == kind)
    }
}

impl fmt::Debug for SentBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentBy").field("controller", &self.controller).finish_non_exhaustive()
    }
}
