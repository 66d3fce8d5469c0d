//! What a controller remembers of its writes, and needs for them, across runs.

use windlass_informer::Resource;

use crate::applied::Applied;
use crate::children::CheckedOwners;
use crate::server_warnings::ServerWarnings;

/// What all runs of a controller share to write with.
pub(crate) struct Writing {
    /// Whether the controller was given a name, instead of that of its kind.
    pub(crate) is_named: bool,
    /// The resource that the controller reconciles.
    pub(crate) primary: Resource,
    /// Kinds of children that the controller does not make any more.
    pub(crate) retired: Vec<Resource>,
    /// The owners for which the retired kinds were looked at.
    pub(crate) checked_owners: CheckedOwners,
    pub(crate) applied: Applied,
    pub(crate) warnings: ServerWarnings,
}

impl Writing {
    pub(crate) fn new(is_named: bool, primary: Resource, retired: Vec<Resource>) -> Self {
        Self {
            is_named,
            primary,
            retired,
            checked_owners: CheckedOwners::new(),
            applied: Applied::new(),
            warnings: ServerWarnings::new(),
        }
    }
}
