//! Decides whether an object that arrived is newer than the cached one, by uid and version.
//!
//! Invariants: within an epoch, the cached version of a uid never goes back, and an object never
//! replaces a newer one of another uid. Versions that are not decimal have no order and count as
//! newer unless they are equal. An object without a version always counts as newer.

use std::cmp::Ordering;

use windlass_indexer::{Head, ResourceVersion};

use crate::decode::frames::Change;

/// What to do with an item of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemVerdict {
    /// It is newer.
    Apply,
    /// It equals the cached one.
    Same,
    /// It contradicts what is known: the cluster was restored, the server is stale, or an event was
    /// lost. The version of the whole list, which comes at its end, decides which.
    Contradiction,
}

/// Judges an item of a list. Everything up to the version `complete` is in the cache.
pub(crate) fn item(
    held: Option<&Head>,
    arrived: &Head,
    complete: Option<&ResourceVersion>,
) -> ItemVerdict {
    match held {
        Some(held) if held.uid() == arrived.uid() => match order(held, arrived) {
            Some(Ordering::Equal) => ItemVerdict::Same,
            Some(Ordering::Less) => ItemVerdict::Contradiction,
            Some(Ordering::Greater) | None => ItemVerdict::Apply,
        },
        // Of two objects with one name, the newer one has the higher version.
        Some(held) if order(held, arrived) == Some(Ordering::Less) => ItemVerdict::Contradiction,
        // An object that the cache does not have must be newer than everything that it has.
        Some(_) | None
            if complete.is_some_and(|complete| arrived.resource_version() <= complete) =>
        {
            ItemVerdict::Contradiction
        }
        Some(_) | None => ItemVerdict::Apply,
    }
}

/// Whether a change is not newer than the cached object. The reflector has already compared it with
/// the position of the watch.
pub(crate) fn is_stale(change: Change, held: &Head, arrived: &Head) -> bool {
    match order(held, arrived) {
        Some(Ordering::Less) => true,
        // Some servers send a deletion with the last version of the object.
        Some(Ordering::Equal) => change != Change::Deleted || held.uid() != arrived.uid(),
        Some(Ordering::Greater) | None => false,
    }
}

/// Whether the version of an object went back. This happens only in a restored cluster, or if the
/// server is stale.
pub(crate) fn goes_back(held: &Head, arrived: &Head) -> bool {
    held.uid() == arrived.uid() && order(held, arrived) == Some(Ordering::Less)
}

/// Compares the version that arrived with the held one. `None` if it has no version, or they have
/// no order.
fn order(held: &Head, arrived: &Head) -> Option<Ordering> {
    let (held, arrived) = (held.resource_version(), arrived.resource_version());
    if arrived.is_empty() { None } else { arrived.partial_cmp(held) }
}

#[cfg(test)]
mod tests {
    use windlass_indexer::{HeadParser, Interner};

    use super::*;

    fn head(uid: &str, version: &str) -> Head {
        let object = serde_json::json!({
            "metadata": {"name": "web", "uid": uid, "resourceVersion": version},
        });
        let parser = HeadParser::new(Interner::new());
        parser.parse(object.to_string().as_bytes()).expect("a head")
    }

    #[test]
    fn item_of_the_held_version_is_the_same() {
        assert_eq!(item(Some(&head("a", "5")), &head("a", "5"), None), ItemVerdict::Same);
        assert_eq!(item(Some(&head("a", "x")), &head("a", "x"), None), ItemVerdict::Same);
    }

    #[test]
    fn item_older_than_what_is_held_or_known_waits_for_the_list_to_tell() {
        let mark = ResourceVersion::new("9");
        assert_eq!(item(Some(&head("a", "5")), &head("a", "4"), None), ItemVerdict::Contradiction);
        assert_eq!(item(None, &head("a", "9"), Some(&mark)), ItemVerdict::Contradiction);
        assert_eq!(
            item(Some(&head("a", "5")), &head("b", "7"), Some(&mark)),
            ItemVerdict::Contradiction
        );
        assert_eq!(
            item(Some(&head("a", "12")), &head("b", "10"), Some(&mark)),
            ItemVerdict::Contradiction
        );
        assert_eq!(item(Some(&head("a", "10")), &head("b", "12"), Some(&mark)), ItemVerdict::Apply);
        assert_eq!(item(None, &head("a", "10"), Some(&mark)), ItemVerdict::Apply);
        assert_eq!(item(None, &head("a", "9"), None), ItemVerdict::Apply);
    }

    #[test]
    fn change_never_goes_back() {
        let held = head("a", "5");
        assert!(is_stale(Change::Modified, &held, &head("a", "4")));
        assert!(is_stale(Change::Modified, &held, &head("a", "5")));
        assert!(is_stale(Change::Added, &held, &head("b", "3")));
        assert!(is_stale(Change::Deleted, &held, &head("a", "4")));
        assert!(is_stale(Change::Deleted, &held, &head("b", "4")));
        assert!(is_stale(Change::Deleted, &held, &head("b", "5")));
        assert!(!is_stale(Change::Modified, &held, &head("a", "6")));
    }

    #[test]
    fn deletion_with_the_last_version_is_one() {
        assert!(!is_stale(Change::Deleted, &head("a", "5"), &head("a", "5")));
    }

    #[test]
    fn versions_without_an_order_count_as_newer() {
        assert!(!is_stale(Change::Modified, &head("a", "v2"), &head("a", "v1")));
        assert_eq!(
            item(None, &head("a", "v1"), Some(&ResourceVersion::new("9"))),
            ItemVerdict::Apply
        );
    }
}
