//! Where a reflector is in the history of its resource, and which lists it accepts.
//!
//! A cluster that is restored from a backup has a new history, in which versions are lower again.
//! An epoch is the time from one restore to the next.
//!
//! Invariants, within an epoch:
//! - neither the position nor the high-water mark goes back;
//! - there is a position only after a list with a version, and no change between that list and the
//!   position was missed;
//! - only decimal versions are ordered; others can only be equal.

use std::cmp::Ordering;

use windlass_indexer::ResourceVersion;

use super::outcome::{ChangeKind, ListFault, Listed};
use crate::decode::frames::EventType;

/// The versions that a reflector remembers.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// Where a watch resumes.
    pub(super) position: Option<ResourceVersion>,
    /// The highest version of lists, changes and bookmarks, and of the items of interrupted lists.
    /// A list with a lower version is refused once.
    pub(super) high_water: Option<ResourceVersion>,
    /// The highest version among the items of a list that is not complete.
    items: Option<ResourceVersion>,
    /// The last list was refused, because it was older than what was received before.
    pub(super) is_last_list_refused: bool,
}

impl Versions {
    /// A list begins. If the previous one was interrupted, its items count as received.
    pub(super) fn begin_list(&mut self) {
        if let Some(version) = self.items.take() {
            raise(&mut self.high_water, &version);
        }
    }

    /// An item of a list, or a page, has this version. Used only if the list is interrupted.
    pub(super) fn note_item(&mut self, version: &ResourceVersion) {
        raise(&mut self.items, version);
    }

    /// Accepts or refuses a complete list.
    pub(super) fn accept_list(&mut self, version: Option<&str>) -> Listed {
        let version = version.filter(|text| is_position(text)).map(ResourceVersion::new);
        let is_lower = version.as_ref().is_some_and(|version| self.is_behind(version));
        if is_lower && !self.is_last_list_refused {
            self.is_last_list_refused = true;
            return Listed::Refused(ListFault::WentBack);
        }
        if is_lower {
            self.high_water.clone_from(&version);
        } else if let Some(version) = &version {
            raise(&mut self.high_water, version);
        }
        self.items = None;
        self.is_last_list_refused = false;
        self.position = version;
        Listed::Complete { is_restored: is_lower }
    }

    /// A change after a list: moves the position to it, unless it is stale. Also returns whether
    /// the position moved.
    pub(super) fn accept_change(
        &mut self,
        change: EventType,
        version: Option<&ResourceVersion>,
    ) -> (ChangeKind, bool) {
        // A watch without a position began with all objects, in any order, so no change is stale.
        let (Some(version), Some(_)) = (version.filter(|v| !v.is_empty()), &self.position) else {
            return (ChangeKind::Live, false);
        };
        let has_advanced = self.advance(version);
        // A deletion may carry the version that the object had. Without it the object would stay.
        let is_live = has_advanced || change == EventType::Deleted;
        (if is_live { ChangeKind::Live } else { ChangeKind::Stale }, has_advanced)
    }

    /// A bookmark: all changes up to this version were received. Returns whether the position
    /// moved.
    ///
    /// After a list without a version, a bookmark gives no position. Such a list and its watch
    /// leave a gap between them: what was deleted there is in neither, and a watch that resumes
    /// would never report it.
    pub(super) fn accept_bookmark(&mut self, version: &str) -> bool {
        !version.is_empty()
            && self.position.is_some()
            && self.advance(&ResourceVersion::new(version))
    }

    fn advance(&mut self, version: &ResourceVersion) -> bool {
        let is_not_newer = self.position.as_ref().is_some_and(|held| version <= held);
        if is_not_newer || self.is_behind(version) {
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

/// Whether a watch can resume from this version of a list. To a server, 0 means "any version".
fn is_position(version: &str) -> bool {
    !matches!(version, "" | "0")
}

/// Keeps the higher of two versions. A decimal replaces a version that cannot be compared.
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
