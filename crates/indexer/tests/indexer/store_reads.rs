//! Reads by key, lists, the hot set, layouts and the status.

use std::sync::Arc;

use crate::common::{object, put};
use serde::Deserialize;
use serde_json::Value;
use windlass_indexer::{Cached, Layout, Lister, Object, ObjectKey, Reader, Store, TypeStatus};

fn names(lister: &Lister<Value>, namespace: &str) -> Vec<String> {
    lister.in_namespace(namespace).iter().map(|o| o.head().name().to_owned()).collect()
}

fn status(reader: &Reader) -> TypeStatus {
    reader.status().types[0].clone()
}

fn compact() -> (Store, Lister<Value>) {
    let store = Store::new();
    let lister = store.reader().lister().expect("compact");
    (store, lister)
}

#[test]
fn keys_are_taken_in_every_form() {
    let (mut store, lister) = compact();
    put(&mut store, "ns/a", 1, "", "1");
    put(&mut store, "node", 1, "", "2");
    let key = ObjectKey::namespaced("ns", "a");
    for found in [lister.get(&key), lister.get("ns/a"), lister.get(("ns", "a"))] {
        assert_eq!(found.expect("it decodes").expect("there")["value"], 1);
    }
    assert_eq!(lister.get("node").expect("it decodes").expect("there")["value"], 2);
    assert!(lister.get("ns/node").expect("no error").is_none());
    assert!(lister.get("a").expect("no error").is_none());
}

#[test]
fn lists_are_in_the_order_of_keys_and_namespaces_end_where_they_end() {
    let (mut store, lister) = compact();
    for key in ["b/1", "a-b/2", "a/2", "z", "a/1", "ab/1", "a/10"] {
        put(&mut store, key, 1, "", "0");
    }
    let all: Vec<_> = lister.list().iter().map(|o| o.key().to_string()).collect();
    assert_eq!(all, ["z", "a/1", "a/10", "a/2", "a-b/2", "ab/1", "b/1"]);
    assert_eq!(names(&lister, "a"), ["1", "10", "2"]);
    assert_eq!(names(&lister, "c"), [""; 0]);
}

#[test]
fn a_lister_counts_objects_and_finds_the_first_that_matches() {
    let (mut store, lister) = compact();
    assert!(lister.is_empty());
    for (key, value) in [("ns/a", "1"), ("ns/b", "2"), ("ns/c", "2")] {
        put(&mut store, key, 1, "", value);
    }
    assert_eq!((lister.len(), lister.is_empty()), (3, false));
    let by_head = lister.find(|object| object.head().name() == "c").expect("there");
    assert_eq!(by_head.key().to_string(), "ns/c");
    let is_two = |object: &Cached<Value>| object.get().expect("it decodes")["value"] == 2;
    assert_eq!(lister.find(is_two).expect("there").key().to_string(), "ns/b");
    assert!(lister.find(|object| object.head().name() == "d").is_none());
}

#[test]
fn a_list_does_not_change_while_the_store_does() {
    let (mut store, lister) = compact();
    for number in 0..1_000 {
        put(&mut store, &format!("ns/{number:04}"), 1, "", "1");
    }
    let list = lister.list();
    let mut half_way = list.iter().skip(500);
    for number in 0..1_000 {
        store.delete(("ns", &*format!("{number:04}")));
    }
    put(&mut store, "ns/new", 1, "", "2");
    assert_eq!(half_way.next().expect("still there").key().name(), "0500");
    assert_eq!(half_way.count(), 499);
    assert!(list.iter().all(|object| object.get().expect("it decodes")["value"] == 1));
    assert_eq!(lister.list().iter().count(), 1);
}

#[test]
fn put_returns_the_version_that_was_there() {
    let (mut store, _) = compact();
    assert!(put(&mut store, "ns/a", 1, "", "1").previous.is_none());
    let put = put(&mut store, "ns/a", 2, "", "1");
    assert_eq!(put.previous.expect("one was").head().resource_version().to_string(), "1");
    assert_eq!(put.current.head().resource_version().to_string(), "2");
    assert_eq!(store.delete("ns/a").expect("one is").head().resource_version().to_string(), "2");
    assert!(store.delete("ns/a").is_none());
}

#[test]
fn a_hot_object_is_decoded_once_for_each_version() {
    let (mut store, lister) = compact();
    put(&mut store, "ns/a", 1, "", "1");
    let get = || lister.get("ns/a").expect("it decodes").expect("there");
    let (one, two) = (get(), get());
    assert!(Arc::ptr_eq(&one, &two));
    put(&mut store, "ns/a", 2, "", "2");
    assert_eq!(get()["value"], 2);
    let status = status(lister.reader());
    assert_eq!((status.hits, status.misses, status.hot_entries), (1, 2, 1));
    store.delete("ns/a");
    let status = lister.reader().status().types[0].clone();
    assert_eq!((status.hits, status.hot_entries, status.hot_bytes), (1, 0, 0));
}

#[test]
fn scans_do_not_fill_the_hot_set_but_use_it() {
    let (mut store, lister) = compact();
    put(&mut store, "ns/a", 1, "", "1");
    put(&mut store, "ns/b", 1, "", "1");
    lister.get("ns/a").expect("it decodes");
    for object in &lister.list() {
        object.get().expect("it decodes");
    }
    let status = status(lister.reader());
    assert_eq!((status.hits, status.misses, status.hot_entries), (1, 2, 1));
}

#[test]
fn a_handle_keeps_its_version() {
    let (mut store, lister) = compact();
    put(&mut store, "ns/a", 1, "", "1");
    let old = lister.cached("ns/a").expect("there");
    put(&mut store, "ns/a", 2, "", "2");
    lister.get("ns/a").expect("it decodes");
    assert_eq!(old.get().expect("it decodes")["value"], 1);
    store.delete("ns/a");
    assert_eq!(old.get().expect("it decodes")["value"], 1);
}

#[test]
fn the_hot_set_stays_within_its_budget_and_keeps_what_is_read_often() {
    let budget = 100_000;
    let mut store = Store::builder().hot_set_bytes(budget).build();
    let lister: Lister<Value> = store.reader().lister().expect("compact");
    for number in 0..2_000 {
        put(&mut store, &format!("ns/{number}"), 1, "", "1");
    }
    for number in 0..2_000 {
        for name in ["0", "1", "2", &number.to_string()] {
            lister.get(("ns", name)).expect("it decodes").expect("there");
        }
        let hot = status(lister.reader()).hot_bytes;
        assert!(hot <= budget, "{hot} after {number}");
    }
    let status = status(lister.reader());
    assert!(status.hot_entries > 50, "{status:?}");
    // The three are never the least recently read, so they are decoded once.
    assert_eq!(status.misses, 2_000, "{status:?}");
    assert_eq!(status.hits + status.misses, 8_000);
}

#[test]
fn an_object_larger_than_the_hot_set_is_read_all_the_same() {
    let mut store = Store::builder().hot_set_bytes(0).build();
    let lister: Lister<Value> = store.reader().lister().expect("compact");
    put(&mut store, "ns/a", 1, "", "1");
    for _ in 0..2 {
        assert!(lister.get("ns/a").expect("it decodes").is_some());
    }
    let status = status(lister.reader());
    assert_eq!((status.misses, status.hot_bytes), (2, 0));
}

#[test]
fn types_that_share_a_compact_store_have_hot_sets_of_their_own() {
    #[derive(Deserialize)]
    struct Slim {
        value: u32,
    }

    let (mut store, values) = compact();
    let slims: Lister<Slim> = store.reader().lister().expect("compact");
    put(&mut store, "ns/a", 1, "", "7");
    for _ in 0..2 {
        assert_eq!(slims.get("ns/a").expect("it decodes").expect("there").value, 7);
        assert_eq!(values.get("ns/a").expect("it decodes").expect("there")["value"], 7);
    }
    let status = store.reader().status();
    let counts: Vec<_> = status.types.iter().map(|t| (t.hits, t.misses, t.hot_entries)).collect();
    assert_eq!(counts, [(1, 1, 1), (1, 1, 1)]);
    put(&mut store, "ns/a", 2, "", "8");
    assert_eq!(slims.get("ns/a").expect("it decodes").expect("there").value, 8);
    assert_eq!(values.get("ns/a").expect("it decodes").expect("there")["value"], 8);
}

#[test]
fn a_resident_store_keeps_typed_objects_and_no_bytes() {
    #[derive(Clone, Debug, Deserialize)]
    struct Slim {
        value: u32,
    }

    let layout = Layout::resident::<Slim>();
    let mut store = Store::builder().layout(layout).build();
    let lister: Lister<Slim> = store.reader().lister().expect("its type");
    let put_object = put(&mut store, "ns/a", 1, "", "7");
    assert!(put_object.current.bytes().is_none());
    let (one, two) = (lister.get("ns/a"), lister.get("ns/a"));
    let (one, two) = (one.expect("decoded").expect("there"), two.expect("decoded").expect("there"));
    assert!(Arc::ptr_eq(&one, &two) && one.value == 7);
    let from_list = lister.list().iter().next().expect("one").get().expect("decoded");
    assert!(Arc::ptr_eq(&one, &from_list), "also lists yield the one that is held");
    assert_eq!(
        store.reader().lister::<Value>().expect_err("another type").to_string(),
        "the store is resident as Slim and keeps no bytes, so it cannot be read as Value: \
         read it as Slim, or make it compact"
    );
    put(&mut store, "ns/a", 2, "", r#""no number""#);
    assert_eq!(lister.get("ns/a").expect_err("it does not decode").version().to_string(), "2");
    assert_eq!(status(lister.reader()).undecodable, 1);
    put(&mut store, "ns/a", 3, "", "8");
    assert_eq!(status(lister.reader()).undecodable, 0);
}

#[test]
fn an_object_of_a_resident_store_is_unreadable_elsewhere_not_a_panic() {
    let mut store = Store::builder().layout(Layout::resident::<Value>()).build();
    let object = put(&mut store, "ns/a", 1, "", "7").current;
    let mut same = Store::builder().layout(Layout::resident::<Value>()).build();
    same.put(Arc::clone(&object));
    let lister = same.reader().lister::<Value>().expect("its type");
    assert_eq!(lister.get("ns/a").expect("the same type").expect("there")["value"], 7);

    let mut other = Store::builder().layout(Layout::resident::<String>()).build();
    other.put(Arc::clone(&object));
    let lister = other.reader().lister::<String>().expect("its type");
    assert!(lister.get("ns/a").expect_err("no bytes").to_string().contains("resident store"));

    let (mut compact, lister) = compact();
    compact.put(object);
    assert_eq!(lister.get("ns/a").expect("the same type").expect("there")["value"], 7);
    let other = compact.reader().lister::<String>().expect("compact");
    assert!(other.get("ns/a").expect_err("no bytes").to_string().contains("resident store"));
    put(&mut compact, "ns/a", 2, "", "8");
    assert_eq!(lister.get("ns/a").expect("bytes again").expect("there")["value"], 8);
}

#[test]
fn object_bytes_follow_puts_changes_and_deletes() {
    let (mut store, lister) = compact();
    let reader = lister.reader();
    let one = put(&mut store, "ns/a", 1, "", "1").current;
    let two = put(&mut store, "ns/b", 1, "a=b", "1").current;
    let held = |object: &Object| {
        let json = object.bytes().expect("compact").len();
        assert!(object.allocated_bytes() > json + 100, "head and counts are counted as well");
        object.allocated_bytes()
    };
    assert_eq!(reader.status().object_bytes, held(&one) + held(&two));
    let two = put(&mut store, "ns/b", 2, "", r#""longer""#).current;
    assert_eq!(reader.status().object_bytes, held(&one) + held(&two));
    store.delete("ns/a");
    store.delete("ns/b");
    assert_eq!((reader.status().object_bytes, reader.len()), (0, 0));
}

#[test]
fn a_store_that_is_emptied_gives_its_structures_back() {
    let (mut store, lister) = compact();
    let structures = || lister.reader().status().structure_bytes;
    let empty = structures();
    for round in 0..3 {
        for number in 0..5_000 {
            put(&mut store, &format!("ns-{number}/{round}-{number}"), 1, "", "1");
        }
        assert!(structures() > 5_000 * 16);
        for number in 0..5_000 {
            store.delete((&*format!("ns-{number}"), &*format!("{round}-{number}")));
        }
        assert!(structures() < empty + 64_000, "{} are left", structures());
        assert!(lister.reader().status().interned_bytes < 2_000_000);
    }
}

#[test]
fn an_object_without_a_readable_head_changes_nothing() {
    let (mut store, lister) = compact();
    put(&mut store, "ns/a", 1, "", "1");
    let broken = object("ns/a", 2, "", "1").replace(r#""2""#, "2");
    let error = store.put_bytes(broken.as_bytes()).expect_err("a version is a string");
    assert_eq!(error.to_string(), "object ns/a: metadata.resourceVersion is not a string");
    assert_eq!(lister.cached("ns/a").expect("there").head().resource_version().to_string(), "1");
}
