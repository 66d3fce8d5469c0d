//! Versions of owners that this run itself has replaced.
//!
//! Noting the kinds of its children at an owner gives the owner a new version, but the reconciler
//! still holds the old one. A later write with the old version would conflict with our own write.
//! So the run remembers which version replaced which, and sends the newer one instead. This is
//! safe: the note was written on condition of the old version, so nobody else wrote in between.

use parking_lot::Mutex;

/// The versions that a run has replaced.
#[derive(Default)]
pub(crate) struct OwnVersions {
    replaced: Mutex<Vec<Replaced>>,
}

struct Replaced {
    uid: String,
    old: String,
    new: String,
    /// The note that was written, which is all that differs.
    note: String,
}

/// How many are remembered. A run has few owners, and writes one or two notes at each.
const REPLACED_MAX: usize = 64;

impl OwnVersions {
    /// Remembers that writing `note` replaced the version `old` of an owner by `new`.
    pub(crate) fn add(&self, uid: &str, old: &str, new: &str, note: &str) {
        let mut replaced = self.replaced.lock();
        if replaced.len() < REPLACED_MAX && old != new {
            let [uid, old, new, note] = [uid, old, new, note].map(str::to_owned);
            replaced.push(Replaced { uid, old, new, note });
        }
    }

    /// The version to name instead of one that was read.
    pub(crate) fn latest(&self, uid: Option<&str>, version: &str) -> String {
        self.replacement_of(uid, version).map_or_else(|| version.to_owned(), |(version, _)| version)
    }

    /// The version that replaced this one, directly or in steps, and its note; `None` if this run
    /// has not replaced it.
    pub(crate) fn replacement_of(
        &self,
        uid: Option<&str>,
        version: &str,
    ) -> Option<(String, String)> {
        let replaced = self.replaced.lock();
        let mut last: Option<&Replaced> = None;
        for next in replaced.iter().filter(|next| Some(&*next.uid) == uid) {
            if next.old == last.map_or(version, |last| &last.new) {
                last = Some(next);
            }
        }
        last.map(|last| (last.new.clone(), last.note.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_followed_from_the_version_that_was_read() {
        let own_versions = OwnVersions::default();
        own_versions.add("a", "1", "2", "one");
        own_versions.add("b", "2", "9", "");
        own_versions.add("a", "2", "3", "two");
        assert_eq!(
            own_versions.replacement_of(Some("a"), "1"),
            Some(("3".to_owned(), "two".to_owned()))
        );
        assert_eq!(own_versions.latest(Some("a"), "1"), "3");
        assert_eq!(own_versions.latest(Some("a"), "2"), "3");
        assert_eq!(own_versions.latest(Some("a"), "0"), "0");
        assert_eq!(own_versions.latest(Some("b"), "1"), "1");
        assert_eq!(own_versions.latest(None, "1"), "1");
    }
}
