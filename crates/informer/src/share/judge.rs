//! Is this object news? Versions judged, by uid, before anything changes.
//!
//! Invariants: the version held for a uid never goes back within an epoch; an object of one uid never takes the
//! place of a newer one of another. Versions that are not decimal have no order, and count as newer unless they
//! are equal; without a version, everything does.

use std::cmp::Ordering;

use windlass_indexer::{Head, ResourceVersion};

use crate::decode::frames::Change;

/// What is to become of an object that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is news.
    Apply,
    /// It is what is held.
    Same,
    /// It is older than what is held, or than what is known to be gone.
    Stale,
    /// It contradicts what is known. That it can only be a restored cluster, a stale server or a lost event is
    /// told apart by the version of the whole list, which comes at its end.
    Contradiction,
}

/// Judges an item of a list, or an initial event. `high_water` is the highest version that was seen before.
pub(crate) fn item(
    held: Option<&Head>,
    arrived: &Head,
    high_water: Option<&ResourceVersion>,
) -> Verdict {
    match held {
        Some(held) if held.uid() == arrived.uid() => match order(held, arrived) {
            Some(Ordering::Equal) => Verdict::Same,
            Some(Ordering::Less) => Verdict::Contradiction,
            Some(Ordering::Greater) | None => Verdict::Apply,
        },
        // All that there was at the high-water mark is held, so it should be younger.
        Some(_) | None => match high_water.map(|mark| arrived.resource_version().partial_cmp(mark))
        {
            Some(Some(Ordering::Less | Ordering::Equal)) => Verdict::Contradiction,
            Some(Some(Ordering::Greater) | None) | None => Verdict::Apply,
        },
    }
}

/// Judges a change. Whether it is older than the whole watch was judged before, by the reflector.
pub(crate) fn change(change: Change, held: Option<&Head>, arrived: &Head) -> Verdict {
    let Some(held) = held else {
        return if change == Change::Deleted { Verdict::Same } else { Verdict::Apply };
    };
    let order = order(held, arrived);
    let is_same_object = held.uid() == arrived.uid();
    match (change, order) {
        // Some servers give the last version of the object with its deletion.
        (Change::Deleted, Some(Ordering::Equal)) if is_same_object => Verdict::Apply,
        (_, Some(Ordering::Less | Ordering::Equal)) => Verdict::Stale,
        (_, Some(Ordering::Greater) | None) => Verdict::Apply,
    }
}

/// Whether the version of an object went back, which only that of a restored cluster does.
pub(crate) fn goes_back(held: &Head, arrived: &Head) -> bool {
    held.uid() == arrived.uid() && order(held, arrived) == Some(Ordering::Less)
}

/// How the version of what arrived compares. An object without a version is neither older nor newer, nor the same.
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
            "metadata": {"name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version},
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
