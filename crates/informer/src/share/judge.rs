//! Decides whether an object that arrived is newer than the cached one, by uid and version.
//!
//! Invariants: within an epoch, the cached version of a uid never goes back, and an object never
//! replaces a newer one of another uid. Versions that are not decimal have no order and count as
//! newer unless they are equal. An object without a version always counts as newer.

use std::cmp::Ordering;

use windlass_indexer::{Head, ResourceVersion};

use crate::decode::frames::Change;

/// What to do with an object that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is newer.
    Apply,
    /// It equals the cached one.
    Same,
    /// It is a change that is not newer than the cached object.
    Stale,
    /// It contradicts what is known: the cluster was restored, the server is stale, or an event was
    /// lost. The version of the whole list, which comes at its end, decides which.
    Contradiction,
}

/// Judges an item of a list. Everything up to the version `complete` is in the cache.
pub(crate) fn item(
    held: Option<&Head>,
    arrived: &Head,
    complete: Option<&ResourceVersion>,
) -> Verdict {
    match held {
        Some(held) if held.uid() == arrived.uid() => match order(held, arrived) {
            Some(Ordering::Equal) => Verdict::Same,
            Some(Ordering::Less) => Verdict::Contradiction,
            Some(Ordering::Greater) | None => Verdict::Apply,
        },
        // Of two objects with one name, the newer one has the higher version.
        Some(held) if order(held, arrived) == Some(Ordering::Less) => Verdict::Contradiction,
        // An object that the cache does not have must be newer than everything that it has.
        Some(_) | None
            if complete.is_some_and(|complete| arrived.resource_version() <= complete) =>
        {
            Verdict::Contradiction
        }
        Some(_) | None => Verdict::Apply,
    }
}

/// Judges a change. The reflector has already compared it with the position of the watch.
pub(crate) fn change(change: Change, held: Option<&Head>, arrived: &Head) -> Verdict {
    let Some(held) = held else {
        return if change == Change::Deleted { Verdict::Same } else { Verdict::Apply };
    };
    let order = order(held, arrived);
    let is_same_object = held.uid() == arrived.uid();
    match (change, order) {
        // Some servers send a deletion with the last version of the object.
        (Change::Deleted, Some(Ordering::Equal)) if is_same_object => Verdict::Apply,
        (_, Some(Ordering::Less | Ordering::Equal)) => Verdict::Stale,
        (_, Some(Ordering::Greater) | None) => Verdict::Apply,
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
        assert_eq!(item(Some(&head("a", "5")), &head("a", "5"), None), Verdict::Same);
        assert_eq!(item(Some(&head("a", "x")), &head("a", "x"), None), Verdict::Same);
    }

    #[test]
    fn item_older_than_what_is_held_or_known_waits_for_the_list_to_tell() {
        let mark = ResourceVersion::new("9");
        assert_eq!(item(Some(&head("a", "5")), &head("a", "4"), None), Verdict::Contradiction);
        assert_eq!(item(None, &head("a", "9"), Some(&mark)), Verdict::Contradiction);
        assert_eq!(
            item(Some(&head("a", "5")), &head("b", "7"), Some(&mark)),
            Verdict::Contradiction
        );
        assert_eq!(
            item(Some(&head("a", "12")), &head("b", "10"), Some(&mark)),
            Verdict::Contradiction
        );
        assert_eq!(item(Some(&head("a", "10")), &head("b", "12"), Some(&mark)), Verdict::Apply);
        assert_eq!(item(None, &head("a", "10"), Some(&mark)), Verdict::Apply);
        assert_eq!(item(None, &head("a", "9"), None), Verdict::Apply);
    }

    #[test]
    fn change_never_goes_back() {
        let held = head("a", "5");
        assert_eq!(change(Change::Modified, Some(&held), &head("a", "4")), Verdict::Stale);
        assert_eq!(change(Change::Modified, Some(&held), &head("a", "5")), Verdict::Stale);
        assert_eq!(change(Change::Added, Some(&held), &head("b", "3")), Verdict::Stale);
        assert_eq!(change(Change::Deleted, Some(&held), &head("a", "4")), Verdict::Stale);
        assert_eq!(change(Change::Deleted, Some(&held), &head("b", "4")), Verdict::Stale);
    }

    #[test]
    fn deletion_with_the_last_version_is_one() {
        assert_eq!(change(Change::Deleted, Some(&head("a", "5")), &head("a", "5")), Verdict::Apply);
        assert_eq!(change(Change::Deleted, None, &head("a", "5")), Verdict::Same);
    }

    #[test]
    fn versions_without_an_order_count_as_newer() {
        assert_eq!(
            change(Change::Modified, Some(&head("a", "v2")), &head("a", "v1")),
            Verdict::Apply
        );
        assert_eq!(item(None, &head("a", "v1"), Some(&ResourceVersion::new("9"))), Verdict::Apply);
    }
}
