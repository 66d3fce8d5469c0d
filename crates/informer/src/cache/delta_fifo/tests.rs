//! The delta fifo: what client-go's tests pin of theirs, and what differs here on purpose.

mod model;

use std::hash::BuildHasher as _;
use std::sync::Arc;

use windlass_indexer::{HeadParser, Object, ObjectKey, Reader, Store};

use super::{Delta, DeltaFifo, FinalState};
use crate::cache::judge::{Judge, ListOutcome, Received};
use crate::cache::listing::Listing;

impl DeltaFifo {
    fn change(&mut self, object: Arc<Object>) {
        self.push(Delta::Changed(object));
    }

    fn delete(&mut self, object: Arc<Object>) {
        self.push(Delta::Deleted { object, state: FinalState::Final });
    }
}

fn object_of(key: &str, uid: &str, version: u64) -> Arc<Object> {
    let (namespace, name) = key.split_once('/').expect("a namespace and a name");
    let metadata = serde_json::json!({
        "name": name, "namespace": namespace, "uid": uid, "resourceVersion": version.to_string(),
    });
    let json = serde_json::json!({ "metadata": metadata }).to_string();
    let head = HeadParser::default().parse(json.as_bytes()).expect("a head");
    Arc::new(Object::new(head, json.into_bytes()))
}

fn key_of(key: &str) -> ObjectKey {
    key.parse().expect("a key")
}

fn object(key: &str, version: u64) -> Arc<Object> {
    object_of(key, "u", version)
}

/// A list of a namespace, or of all.
fn begin(known: &Reader, namespace: Option<&str>) -> Listing {
    Listing::begin(known, namespace, None, false)
}

/// A cache with these objects.
fn cache(objects: &[(&str, u64)]) -> Store {
    let mut store = Store::new();
    for &(key, version) in objects {
        store.put(object(key, version));
    }
    store
}

fn word(delta: &Delta) -> &'static str {
    match delta {
        Delta::Changed(_) => "changed",
        Delta::Deleted { state: FinalState::Final, .. } => "deleted",
        Delta::Deleted { state: FinalState::LastKnown, .. } => "tombstone",
    }
}

/// Deltas as `shop/web: changed 5, deleted 6`, with versions.
fn text(deltas: &[Delta]) -> String {
    let words = deltas
        .iter()
        .map(|delta| format!("{} {}", word(delta), delta.object().head().resource_version()));
    format!("{}: {}", deltas[0].object().head().key(), words.collect::<Vec<_>>().join(", "))
}

fn pop(fifo: &mut DeltaFifo) -> String {
    text(&fifo.pop().expect("something must be queued"))
}

fn pop_all(fifo: &mut DeltaFifo) -> Vec<String> {
    let all = std::iter::from_fn(|| fifo.pop()).map(|deltas| text(&deltas)).collect();
    assert!(fifo.queue.is_empty() && fifo.items.is_empty());
    all
}

/// A list has this object.
fn list_item(judge: &mut Judge<'_>, list: &mut Listing, object: Arc<Object>) {
    let object = Arc::into_inner(object).expect("nobody else has it");
    judge.judge(Received::Item(object), Some(list));
}

/// Ends a list. Returns how many tombstones it queued.
fn end_list(judge: &mut Judge<'_>, mut list: Listing) -> u64 {
    match judge.end_list(&mut list, false) {
        ListOutcome::Applied { swept, .. } => swept,
        ListOutcome::WentBack => panic!("no version went back"),
    }
}

/// A complete list of everything.
fn list_all(judge: &mut Judge<'_>, cache: &Reader, objects: Vec<Arc<Object>>) -> u64 {
    let mut list = begin(cache, None);
    for object in objects {
        list_item(judge, &mut list, object);
    }
    end_list(judge, list)
}

/// What the cache does with what it pops, as `added shop/web 5`.
fn apply(store: &mut Store, deltas: Vec<Delta>) -> Vec<String> {
    let mut events = Vec::new();
    for delta in deltas {
        let key = delta.object().head().key().clone();
        let version = delta.object().head().resource_version().to_string();
        let event = match delta {
            Delta::Deleted { .. } => store.delete(&key).map(|_| "deleted"),
            Delta::Changed(object) => {
                let is_new = store.put(object).previous.is_none();
                Some(if is_new { "added" } else { "updated" })
            }
        };
        events.extend(event.map(|event| format!("{event} {key} {version}")));
    }
    events
}

fn apply_all(fifo: &mut DeltaFifo, store: &mut Store) -> Vec<String> {
    std::iter::from_fn(|| fifo.pop()).flat_map(|deltas| apply(store, deltas)).collect()
}

#[test]
fn keys_come_out_in_the_order_of_their_first_change_with_all_that_happened() {
    let mut fifo = DeltaFifo::default();
    fifo.change(object("shop/a", 1));
    fifo.change(object("shop/b", 2));
    fifo.change(object("shop/a", 3));
    fifo.change(object("bank/a", 4));
    fifo.delete(object("shop/a", 5));
    assert_eq!(fifo.queue.len(), 3);
    assert_eq!(
        pop_all(&mut fifo),
        ["shop/a: changed 1, changed 3, deleted 5", "shop/b: changed 2", "bank/a: changed 4"]
    );
}

#[test]
fn a_key_that_was_popped_queues_behind_the_others_again() {
    let mut fifo = DeltaFifo::default();
    fifo.change(object("shop/a", 1));
    fifo.change(object("shop/b", 2));
    assert_eq!(pop(&mut fifo), "shop/a: changed 1");
    fifo.change(object("shop/a", 3));
    fifo.change(object("shop/c", 4));
    fifo.change(object("shop/a", 5));
    assert_eq!(
        pop_all(&mut fifo),
        ["shop/b: changed 2", "shop/a: changed 3, changed 5", "shop/c: changed 4"]
    );
}

#[test]
fn the_newest_queued_change_of_a_key_can_be_read() {
    let mut fifo = DeltaFifo::default();
    fifo.change(object("shop/a", 1));
    fifo.change(object("shop/b", 2));
    fifo.change(object("shop/a", 3));
    let newest = |fifo: &DeltaFifo, key: &str| fifo.newest(&key_of(key)).map(word);
    assert_eq!(newest(&fifo, "shop/a"), Some("changed"));
    assert!(newest(&fifo, "shop/c").is_none() && newest(&fifo, "bank/a").is_none());
    assert_eq!(pop(&mut fifo), "shop/a: changed 1, changed 3");
    assert!(newest(&fifo, "shop/a").is_none());
    assert_eq!(newest(&fifo, "shop/b"), Some("changed"));
}

#[test]
fn deltas_come_one_by_one_oldest_first() {
    let mut fifo = DeltaFifo::default();
    fifo.change(object("shop/a", 1));
    fifo.change(object("shop/a", 2));
    fifo.change(object("shop/b", 3));
    let words = |deltas: Vec<Delta>| deltas.iter().map(word).collect::<Vec<_>>();
    assert_eq!(fifo.pop().map(words), Some(vec!["changed", "changed"]));
    assert_eq!(fifo.pop().map(words), Some(vec!["changed"]));
}

#[test]
fn a_list_that_has_an_object_whose_delete_is_queued_brings_it_back() {
    let known = cache(&[("shop/a", 1)]).reader();
    let mut judge = Judge::new(&known);
    let mut list = begin(&known, None);
    judge.fifo.delete(object("shop/a", 1));
    list_item(&mut judge, &mut list, object_of("shop/a", "next", 2));
    assert_eq!(end_list(&mut judge, list), 0);
    assert_eq!(pop_all(&mut judge.fifo), ["shop/a: deleted 1, changed 2"]);
}

#[test]
fn tombstones_come_in_the_order_of_keys() {
    let known = cache(&[("shop/c", 3), ("shop/a", 1), ("bank/z", 4), ("shop/b", 2)]).reader();
    let mut judge = Judge::new(&known);
    assert_eq!(list_all(&mut judge, &known, vec![]), 4);
    let tombstones = [
        "bank/z: tombstone 4",
        "shop/a: tombstone 1",
        "shop/b: tombstone 2",
        "shop/c: tombstone 3",
    ];
    assert_eq!(pop_all(&mut judge.fifo), tombstones);
}

/// client-go queues every object of a list, changed or not.
#[test]
fn an_object_that_is_listed_as_it_is_held_queues_nothing_and_stays() {
    let known = cache(&[("shop/a", 1), ("shop/b", 2), ("shop/c", 3)]).reader();
    let mut judge = Judge::new(&known);
    let listed = vec![object("shop/a", 1), object("shop/b", 9)];
    assert_eq!(list_all(&mut judge, &known, listed), 1);
    assert_eq!(pop_all(&mut judge.fifo), ["shop/b: changed 9", "shop/c: tombstone 3"]);
}

#[test]
fn an_interrupted_list_sweeps_nothing_and_the_next_one_sweeps_what_it_brought() {
    let mut store = cache(&[]);
    let known = store.reader();
    let mut judge = Judge::new(&known);
    let mut list = begin(&known, None);
    list_item(&mut judge, &mut list, object("shop/applied", 1));
    apply_all(&mut judge.fifo, &mut store);
    drop(list);

    assert_eq!(list_all(&mut judge, &known, vec![object("shop/new", 3)]), 1);
    assert_eq!(pop_all(&mut judge.fifo), ["shop/new: changed 3", "shop/applied: tombstone 1"]);
}

#[test]
fn a_list_that_found_nothing_sweeps_nothing_of_what_came_while_it_was_read() {
    let mut store = cache(&[]);
    let known = store.reader();
    let mut judge = Judge::new(&known);
    let mut list = begin(&known, None);
    list_item(&mut judge, &mut list, object("shop/a", 1));
    list_item(&mut judge, &mut list, object("shop/b", 2));
    apply_all(&mut judge.fifo, &mut store);
    // A streamed list can report changes before it is complete.
    judge.fifo.delete(object("shop/b", 3));
    list_item(&mut judge, &mut list, object("shop/a", 4));
    assert_eq!(end_list(&mut judge, list), 0);
    assert_eq!(apply_all(&mut judge.fifo, &mut store), ["deleted shop/b 3", "updated shop/a 4"]);
}

#[test]
fn lists_of_several_namespaces_at_once_sweep_only_their_own() {
    let mut store = cache(&[("bank/a", 1), ("shop/a", 2), ("shop/b", 3), ("other/a", 4)]);
    let known = store.reader();
    let mut judge = Judge::new(&known);
    let mut shop = begin(&known, Some("shop"));
    let bank = begin(&known, Some("bank"));
    list_item(&mut judge, &mut shop, object("shop/b", 7));

    assert_eq!(end_list(&mut judge, bank), 1);
    assert_eq!(apply_all(&mut judge.fifo, &mut store), ["updated shop/b 7", "deleted bank/a 1"]);

    assert_eq!(end_list(&mut judge, shop), 1);
    assert_eq!(apply_all(&mut judge.fifo, &mut store), ["deleted shop/a 2"]);
    assert_eq!(known.len(), 2);
}

#[test]
fn a_key_that_a_list_has_twice_counts_once() {
    let known = cache(&[]).reader();
    let mut judge = Judge::new(&known);
    list_all(&mut judge, &known, vec![object("shop/a", 1), object("shop/a", 2)]);
    assert_eq!(pop(&mut judge.fifo), "shop/a: changed 1, changed 2");
}

/// In client-go's newest queue a list is one item, which is applied as a whole. Here it never
/// exists as a whole: this is the price of a list that takes no memory.
#[test]
fn a_list_does_not_come_out_as_one() {
    let mut store = cache(&[("shop/a", 1), ("shop/b", 2)]);
    let known = store.reader();
    let mut judge = Judge::new(&known);
    let mut list = begin(&known, None);
    list_item(&mut judge, &mut list, object("shop/a", 10));
    assert_eq!(apply_all(&mut judge.fifo, &mut store), ["updated shop/a 10"]);
    let seen: Vec<_> = known
        .snapshot()
        .all()
        .iter()
        .map(|held| held.head().resource_version().to_string())
        .collect();
    assert_eq!(seen, ["10", "2"], "one as the list has it, the other as it was");

    assert_eq!(end_list(&mut judge, list), 1);
    assert_eq!(apply_all(&mut judge.fifo, &mut store), ["deleted shop/b 2"]);
}

#[test]
fn a_list_ends_in_the_same_events_as_the_changes_one_by_one() {
    let before = [("shop/a", 1), ("shop/b", 2), ("shop/c", 3)];
    let mut one_by_one = (cache(&before), DeltaFifo::default());
    let store = &mut one_by_one.0;
    let fifo = &mut one_by_one.1;
    fifo.change(object("shop/a", 4));
    fifo.change(object("shop/b", 5));
    fifo.change(object("shop/d", 6));
    fifo.delete(object("shop/c", 3));
    let events = apply_all(fifo, store);

    let mut listed = cache(&before);
    let known = listed.reader();
    let mut judge = Judge::new(&known);
    let objects = vec![object("shop/a", 4), object("shop/b", 5), object("shop/d", 6)];
    list_all(&mut judge, &known, objects);
    assert_eq!(apply_all(&mut judge.fifo, &mut listed), events);
    assert_eq!(
        events,
        ["updated shop/a 4", "updated shop/b 5", "added shop/d 6", "deleted shop/c 3"]
    );
    let held = |store: &Store| {
        let moment = store.reader().snapshot().all();
        moment.iter().map(|object| object.head().resource_version().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(held(store), held(&listed));
}

#[test]
fn the_cache_is_as_far_as_what_was_popped() {
    let mut store = cache(&[]);
    let known = store.reader();
    let mut fifo = DeltaFifo::default();
    fifo.change(object("shop/a", 1));
    fifo.change(object("shop/b", 2));
    fifo.change(object("shop/a", 3));
    assert!(known.is_empty());
    for (versions, key) in [(["3"].as_slice(), "shop/a"), (&["3", "2"], "shop/b")] {
        let deltas = fifo.pop().expect("queued");
        assert_eq!(deltas[0].object().head().key().to_string(), key);
        apply(&mut store, deltas);
        let moment = known.snapshot().all();
        let held: Vec<_> =
            moment.iter().map(|held| held.head().resource_version().to_string()).collect();
        assert_eq!(held, versions);
    }
}

#[test]
fn a_great_many_keys_come_out_in_order() {
    let mut fifo = DeltaFifo::default();
    for round in 0..3 {
        for number in 0..5000 {
            fifo.change(object(&format!("shop/{number}"), round));
        }
        for number in 0..5000 {
            assert_eq!(pop(&mut fifo), format!("shop/{number}: changed {round}"));
        }
    }
    assert!(fifo.queue.is_empty() && fifo.items.is_empty());
}

/// Tenants choose the names of objects. With a fixed seed they could choose many whose hashes
/// collide.
#[test]
fn no_two_fifos_hash_names_alike() {
    let hash = || DeltaFifo::default().items.hasher().hash_one("default/web-0");
    assert_ne!(hash(), hash());
}
