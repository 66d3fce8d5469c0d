//! Decides which of the objects that arrive are new, by uid and version, and queues those.
//!
//! Invariants: within an epoch, the cached version of a uid never goes back, and a change never
//! replaces a newer object of another uid. The end of a complete list may replace one: then the
//! list is right, and the cache has missed an event ([`Judge::end_list`]). Versions that are not
//! decimal have no order and count as newer unless they are equal. An object without a version
//! always counts as newer.
//!
//! # Restored clusters
//!
//! If a cluster is restored from a backup, its versions go back. A stale server looks the same in a
//! single list. So a first contradiction refuses the list, and a second one in a row is a restore.
//! Two places apply this rule: `Versions::accept_list` of the reflector to the version of the whole
//! list, and [`Judge::end_list`] to the versions of its objects, because the version of the list
//! may be higher again by the time of the second one.

use std::cmp::Ordering;
use std::sync::Arc;

use windlass_indexer::{Head, Object, ObjectKey, Reader, ResourceVersion};

use crate::cache::delta_fifo::{Delta, DeltaFifo, FinalState};
use crate::cache::listing::Listing;
use crate::decode::frames::EventType;

/// An object from a feed.
#[derive(Debug)]
pub(crate) enum Received {
    /// An item of a list, streamed or not.
    Item(Object),
    /// A change.
    Change(EventType, Object),
    /// A deletion whose object cannot be read, except for its key.
    Gone(ObjectKey),
}

/// How a list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListOutcome {
    /// The cache equals the list.
    Applied {
        /// How many objects were deleted because the list did not have them.
        swept: u64,
        /// How many objects of the list were missing from the cache, or different there, although
        /// an earlier watch should have reported them.
        repaired: u64,
        /// The cluster was restored from a backup: versions went back, twice in a row.
        is_restored: bool,
    },
    /// The version of an object went back, for the first time. Nothing was deleted.
    WentBack,
}

/// Compares what arrives with what is cached or queued.
pub(crate) struct Judge<'a> {
    store: &'a Reader,
    /// What is new. The caller applies it to the store.
    pub(crate) fifo: DeltaFifo,
}

/// What to do with an item of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemVerdict {
    /// It is newer.
    Apply,
    /// It equals the cached one.
    Same,
    /// It contradicts what is known: the cluster was restored, the server is stale, or an event was
    /// lost. The version of the whole list, which comes at its end, decides which.
    Contradiction,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(store: &'a Reader) -> Self {
        Self { store, fifo: DeltaFifo::default() }
    }

    /// Queues an object if it is new. Returns whether it was older than the cached one.
    pub(crate) fn judge(&mut self, arrived: Received, listing: Option<&mut Listing>) -> bool {
        match arrived {
            Received::Item(object) => {
                self.item(object, listing.expect("an item must belong to a list"));
                false
            }
            Received::Change(change, object) => {
                // Within a list, other changes arrive as items.
                if change == EventType::Deleted
                    && let Some(listing) = listing
                {
                    listing.unmark(object.head().key());
                }
                self.change(change, object)
            }
            Received::Gone(key) => {
                if let Some(listing) = listing {
                    listing.unmark(&key);
                }
                if let Some(current) = self.stored_or_queued(&key) {
                    self.fifo.push(Delta::tombstone(current));
                }
                false
            }
        }
    }

    /// Ends a complete list: queues the items that contradicted the cache, and deletes the cached
    /// objects that the list lacks. With `is_restored`, the list replaces the cache even where the
    /// cache has higher versions.
    ///
    /// A restored cluster is also recognized by an object with a lower version than the cached one,
    /// if the list before was refused for that reason. The version of the list itself may be higher
    /// again by then.
    pub(crate) fn end_list(&mut self, listing: &mut Listing, is_restored: bool) -> ListOutcome {
        if listing.must_refuse {
            return ListOutcome::WentBack;
        }
        let undecided = std::mem::take(&mut listing.undecided);
        let any_goes_back = undecided.iter().any(|(key, object)| {
            self.store.get(key).is_some_and(|current| goes_back(current.head(), object.head()))
        });
        let is_restored = is_restored || any_goes_back;
        let mut repaired = 0;
        for object in undecided.into_values() {
            if !is_restored && self.is_resident_version(&object) {
                continue;
            }
            repaired += u64::from(!is_restored);
            self.fifo.push(Delta::Changed(object));
        }
        let gone = listing.gone(self.store);
        let swept = gone.len() as u64;
        for object in gone {
            self.fifo.push(Delta::tombstone(object));
        }
        ListOutcome::Applied { swept, repaired, is_restored }
    }

    /// The newest version of an object, queued or stored; `None` if there is none.
    fn stored_or_queued(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        match self.fifo.newest(key) {
            Some(delta) if delta.is_deleted() => None,
            Some(delta) => Some(Arc::clone(delta.object())),
            None => self.store.get(key),
        }
    }

    /// Whether this version of an object is cached without its bytes
    /// ([`InformerOptions::resident`](crate::InformerOptions::resident)). The contents cannot be
    /// compared then, so they count as the same, unless the cluster was restored.
    fn is_resident_version(&self, object: &Object) -> bool {
        self.store.get(object.head().key()).is_some_and(|current| {
            let old = current.head();
            let new = object.head();
            current.bytes().is_none()
                && old.uid() == new.uid()
                && old.resource_version() == new.resource_version()
        })
    }

    fn item(&mut self, object: Object, listing: &mut Listing) {
        let key = object.head().key();
        let current = self.stored_or_queued(key);
        let current_head = current.as_ref().map(|current| current.head());
        let current_bytes = current.as_ref().and_then(|current| current.bytes());
        let has_same_bytes = current_bytes.is_some() && current_bytes == object.bytes();
        let verdict = match judge_item(current_head, object.head(), listing.cached_up_to.as_ref()) {
            // Some servers set no resource versions. Then the bytes are compared.
            _ if object.head().resource_version().is_empty() && has_same_bytes => ItemVerdict::Same,
            // After a restore, the same version may belong to a different object.
            ItemVerdict::Same if listing.is_after_refused && !has_same_bytes => {
                ItemVerdict::Contradiction
            }
            verdict => verdict,
        };
        listing.undecided.remove(key);
        match verdict {
            ItemVerdict::Apply => {
                listing.mark(key);
                self.fifo.push(Delta::Changed(Arc::new(object)));
            }
            // With the key of the current object, so that the mark shares its text.
            ItemVerdict::Same => listing.mark(current_head.map_or(key, |head| head.key())),
            ItemVerdict::Contradiction
                if !listing.is_after_refused
                    && current_head.is_some_and(|current| goes_back(current, object.head())) =>
            {
                listing.must_refuse = true;
            }
            ItemVerdict::Contradiction => {
                listing.mark(key);
                listing.undecided.insert(key.clone(), Arc::new(object));
            }
        }
    }

    /// Queues a change if it is new. Returns whether it was older than the cached object.
    fn change(&mut self, change: EventType, object: Object) -> bool {
        let current = self.stored_or_queued(object.head().key());
        if current.as_ref().is_some_and(|current| is_stale(change, current.head(), object.head())) {
            return true;
        }
        let object = Arc::new(object);
        match change {
            EventType::Added | EventType::Modified => self.fifo.push(Delta::Changed(object)),
            EventType::Deleted if current.is_some() => {
                self.fifo.push(Delta::Deleted { object, state: FinalState::Final });
            }
            // Its deletion was reported before, for instance by a list.
            EventType::Deleted => {}
        }
        false
    }
}

/// Judges an item of a list. Everything up to the version `cached_up_to` is in the cache.
fn judge_item(
    current: Option<&Head>,
    arrived: &Head,
    cached_up_to: Option<&ResourceVersion>,
) -> ItemVerdict {
    match current {
        Some(current) if current.uid() == arrived.uid() => match order(current, arrived) {
            Some(Ordering::Equal) => ItemVerdict::Same,
            Some(Ordering::Less) => ItemVerdict::Contradiction,
            Some(Ordering::Greater) | None => ItemVerdict::Apply,
        },
        // Of two objects with one name, the newer one has the higher version.
        Some(current) if order(current, arrived) == Some(Ordering::Less) => {
            ItemVerdict::Contradiction
        }
        // An object that the cache does not have must be newer than everything that it has.
        Some(_) | None if cached_up_to.is_some_and(|known| arrived.resource_version() <= known) => {
            ItemVerdict::Contradiction
        }
        Some(_) | None => ItemVerdict::Apply,
    }
}

/// Whether a change is not newer than the cached object. The reflector has already compared it with
/// the position of the watch.
fn is_stale(change: EventType, current: &Head, arrived: &Head) -> bool {
    match order(current, arrived) {
        Some(Ordering::Less) => true,
        // Some servers send a deletion with the last version of the object.
        Some(Ordering::Equal) => change != EventType::Deleted || current.uid() != arrived.uid(),
        Some(Ordering::Greater) | None => false,
    }
}

/// Whether the version of an object went back. This happens only in a restored cluster, or if the
/// server is stale.
fn goes_back(current: &Head, arrived: &Head) -> bool {
    current.uid() == arrived.uid() && order(current, arrived) == Some(Ordering::Less)
}

/// Compares the version that arrived with the current one. `None` if it has no version, or if they
/// have no order.
fn order(current: &Head, arrived: &Head) -> Option<Ordering> {
    let current = current.resource_version();
    let arrived = arrived.resource_version();
    if arrived.is_empty() { None } else { arrived.partial_cmp(current) }
}

#[cfg(test)]
mod tests {
    use windlass_indexer::{HeadParser, Store};

    use super::*;

    fn head(uid: &str, version: &str) -> Head {
        let object = serde_json::json!({
            "metadata": {"name": "web", "uid": uid, "resourceVersion": version},
        });
        let parser = HeadParser::default();
        parser.parse(object.to_string().as_bytes()).expect("a head")
    }

    #[test]
    fn item_of_the_held_version_is_the_same() {
        assert_eq!(judge_item(Some(&head("a", "5")), &head("a", "5"), None), ItemVerdict::Same);
        assert_eq!(judge_item(Some(&head("a", "x")), &head("a", "x"), None), ItemVerdict::Same);
    }

    #[test]
    fn item_older_than_what_is_held_or_known_waits_for_the_list_to_tell() {
        let mark = ResourceVersion::new("9");
        assert_eq!(
            judge_item(Some(&head("a", "5")), &head("a", "4"), None),
            ItemVerdict::Contradiction
        );
        assert_eq!(judge_item(None, &head("a", "9"), Some(&mark)), ItemVerdict::Contradiction);
        assert_eq!(
            judge_item(Some(&head("a", "5")), &head("b", "7"), Some(&mark)),
            ItemVerdict::Contradiction
        );
        assert_eq!(
            judge_item(Some(&head("a", "12")), &head("b", "10"), Some(&mark)),
            ItemVerdict::Contradiction
        );
        assert_eq!(
            judge_item(Some(&head("a", "10")), &head("b", "12"), Some(&mark)),
            ItemVerdict::Apply
        );
        assert_eq!(judge_item(None, &head("a", "10"), Some(&mark)), ItemVerdict::Apply);
        assert_eq!(judge_item(None, &head("a", "9"), None), ItemVerdict::Apply);
    }

    #[test]
    fn change_never_goes_back() {
        let held = head("a", "5");
        assert!(is_stale(EventType::Modified, &held, &head("a", "4")));
        assert!(is_stale(EventType::Modified, &held, &head("a", "5")));
        assert!(is_stale(EventType::Added, &held, &head("b", "3")));
        assert!(is_stale(EventType::Deleted, &held, &head("a", "4")));
        assert!(is_stale(EventType::Deleted, &held, &head("b", "4")));
        assert!(is_stale(EventType::Deleted, &held, &head("b", "5")));
        assert!(!is_stale(EventType::Modified, &held, &head("a", "6")));
    }

    #[test]
    fn deletion_with_the_last_version_is_one() {
        assert!(!is_stale(EventType::Deleted, &head("a", "5"), &head("a", "5")));
    }

    #[test]
    fn versions_without_an_order_count_as_newer() {
        assert!(!is_stale(EventType::Modified, &head("a", "v2"), &head("a", "v1")));
        assert_eq!(
            judge_item(None, &head("a", "v1"), Some(&ResourceVersion::new("9"))),
            ItemVerdict::Apply
        );
    }

    fn object(name: &str) -> Object {
        let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"1"}}}}"#);
        let head = HeadParser::default().parse(json.as_bytes()).expect("a head");
        Object::new(head, json.into_bytes())
    }

    #[test]
    fn an_object_is_deleted_once_and_an_unknown_one_never() {
        let mut store = Store::new();
        store.put(object("a"));
        let cache = store.reader();
        let mut judge = Judge::new(&cache);
        for name in ["a", "a", "unknown"] {
            let deletion = Received::Change(EventType::Deleted, object(name));
            assert!(!judge.judge(deletion, None), "it does not count as stale");
        }
        assert!(!judge.judge(Received::Gone(ObjectKey::cluster("a")), None));
        assert_eq!(judge.fifo.pop().map(|deltas| deltas.len()), Some(1));
        assert!(judge.fifo.pop().is_none());
    }
}
