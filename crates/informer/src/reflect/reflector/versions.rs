//! Where a reflector is in the history of its resource, and which lists it believes.
//!
//! Invariants, within an epoch:
//! - neither the position nor the high-water mark goes back;
//! - there is a position only after a list with a version, and no change between that list and the
//!   position was missed;
//! - only decimals are older or newer than each other; any other version is only equal or not.

use std::cmp::Ordering;

use windlass_indexer::ResourceVersion;

use super::{Arrival, Listed};
use crate::decode::frames::Change;

/// The versions that a reflector remembers.
#[derive(Debug, Default)]
pub(super) struct Versions {
    position: Option<ResourceVersion>,
    high_water: Option<ResourceVersion>,
    /// The highest version among the items of a list that is not complete.
    items: Option<ResourceVersion>,
    /// The last list was refused, as it was lower than the high-water mark.
    suspicious: bool,
    epoch: u64,
    has_listed: bool,
}

impl Versions {
    pub(super) fn position(&self) -> Option<&ResourceVersion> {
        self.position.as_ref()
    }

    pub(super) fn high_water(&self) -> Option<&ResourceVersion> {
        self.high_water.as_ref()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn has_listed(&self) -> bool {
        self.has_listed
    }

    /// A list begins. If the one before was interrupted, its items were received all the same.
    pub(super) fn begin_list(&mut self) {
        if let Some(version) = self.items.take() {
            raise(&mut self.high_water, &version);
        }
    }

    /// An item of a list, or its page, has this version. It counts if the list is interrupted; the version of a
    /// complete list says more.
    pub(super) fn item(&mut self, version: &ResourceVersion) {
        raise(&mut self.items, version);
    }

    pub(super) fn is_suspicious(&self) -> bool {
        self.suspicious
    }

    pub(super) fn suspect(&mut self) {
        self.suspicious = true;
    }

    /// Judges a list that has arrived in full.
    pub(super) fn listed(&mut self, version: Option<&str>) -> Listed {
        let version = version.filter(|text| is_position(text)).map(ResourceVersion::new);
        let lower = version.as_ref().is_some_and(|version| self.is_behind(version));
        if lower && !self.suspicious {
            self.suspicious = true;
            return Listed::Refused;
        }
        if lower {
            self.epoch += 1;
            self.high_water.clone_from(&version);
        } else if let Some(version) = &version {
            raise(&mut self.high_water, version);
        }
        self.items = None;
        self.suspicious = false;
        self.has_listed = true;
        self.position = version;
        Listed::Complete { epoch_changed: lower }
    }

    /// Judges a change of a watch that has listed. Says whether it brought the position forward.
    pub(super) fn changed(
        &mut self,
        change: Change,
        version: Option<&ResourceVersion>,
    ) -> (Arrival, bool) {
        // Without a position the watch began with what is there, in any order: nothing in it is late.
        let (Some(version), Some(_)) = (version.filter(|v| !v.is_empty()), &self.position) else {
            return (Arrival::Live, false);
        };
        let advanced = self.advance(version);
        // A deletion may carry the version that the object had. Dropping it would leave a ghost.
        let live = advanced || change == Change::Deleted;
        (if live { Arrival::Live } else { Arrival::Stale }, advanced)
    }

    /// A bookmark: all changes up to this version were received. Returns whether the position
    /// moved.
    ///
    /// After a list without a version, a bookmark gives no position. Such a list and its watch
    /// leave a gap between them: what was deleted there is in neither, and a watch that resumes
    /// would never tell of it.
    pub(super) fn reached(&mut self, version: &str) -> bool {
        !version.is_empty()
            && self.position.is_some()
            && self.advance(&ResourceVersion::new(version))
    }

    fn advance(&mut self, version: &ResourceVersion) -> bool {
        let known = self.position.as_ref().is_some_and(|held| version <= held);
        if known || self.is_behind(version) {
            return false;
        }
        raise(&mut self.high_water, version);
        self.position = Some(version.clone());
        true
    }

    fn is_behind(&self, version: &ResourceVersion) -> bool {
        self.high_water.as_ref().is_some_and(|held| version < held)
    }
}

/// Whether a watch can go on from this version of a list. To a server, 0 means "whatever you have".
fn is_position(version: &str) -> bool {
    !matches!(version, "" | "0")
}

/// Keeps the higher of two versions. A decimal is worth more than what cannot be compared.
fn raise(mark: &mut Option<ResourceVersion>, version: &ResourceVersion) {
    let is_higher = match mark {
        _ if version.is_empty() => false,
        None => true,
        Some(held) => match version.partial_cmp(held) {
            Some(order) => order == Ordering::Greater,
            None => !held.is_decimal(),
        },
    };
    if is_higher {
        *mark = Some(version.clone());
    }
}
