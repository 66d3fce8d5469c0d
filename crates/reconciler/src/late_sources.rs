//! Sources that are added to a controller after it was built.

use std::sync::Arc;

use windlass_informer::InformerError;

use crate::source::{Source, SourceId};
use crate::tools::Tools;
use crate::wiring::Wiring;

/// Adds and removes the sources of a controller that may already run.
pub(crate) struct LateSources {
    pub(crate) wiring: Wiring,
    pub(crate) tools: Arc<Tools>,
}

/// A [handle](crate::ControllerHandle) cannot add a source to its controller.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddSourceError {
    /// There is no controller.
    #[error(
        "there is no controller to add a source to: it is not built yet, or it was dropped; add \
         sources while it runs, or use the methods of its builder"
    )]
    NoController,
    /// The informer cannot be created.
    #[error(transparent)]
    Informer(#[from] InformerError),
}

impl LateSources {
    /// Adds a source, and starts its informer.
    pub(crate) fn add(&self, source: Source) -> SourceId {
        let id = self.tools.sources.add(source.late());
        self.wiring.factory.start();
        id
    }

    /// Removes a source. Returns whether it was there.
    pub(crate) fn remove(&self, source: SourceId) -> bool {
        self.tools.sources.remove(source)
    }
}
