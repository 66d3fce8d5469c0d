//! What a controller remembers of its writes, and needs for them, across runs.

use windlass_informer::Resource;

use crate::applied::Applied;
use crate::children::Swept;
use crate::server_warnings::ServerWarnings;

/// What all runs of a controller share to write with.
pub(crate) struct Writing {
    /// The resource that the controller reconciles.
    pub(crate) primary: Resource,
    /// Kinds of children that the controller does not make any more.
    pub(crate) retired: Vec<Resource>,
    /// The owners for which the retired kinds were looked at.
    pub(crate) swept: Swept,
    pub(crate) applied: Applied,
    pub(crate) warnings: ServerWarnings,
}

impl Writing {
    pub(crate) fn new(primary: Resource, retired: Vec<Resource>) -> Self {
        Self {
            primary,
            retired,
            swept: Swept::new(),
            applied: Applied::new(),
            warnings: ServerWarnings::new(),
        }
    }
}
