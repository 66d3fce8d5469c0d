//! Indexes: the scenarios of client-go's thread-safe store, and what else an index promises.

use crate::common::put;
use serde::Deserialize;
use serde_json::Value;
use windlass_indexer::{ByLabel, ByOwner, Head, Index, IndexError, Layout, Reader, Store, Uid};

/// An index by a field of the object: a string, or a list of strings.
#[derive(PartialEq)]
struct ByValue;

#[derive(Deserialize)]
struct View {
    value: OneOrMany,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Index for ByValue {
    type View = View;
    type Value = String;

    fn values(&self, _: &Head, view: View) -> impl IntoIterator<Item = String> {
        match view.value {
            OneOrMany::One(value) => vec![value],
            OneOrMany::Many(values) => values,
        }
    }
}

fn found(reader: &Reader, value: &str) -> Vec<String> {
    let found = reader.snapshot().by_index::<ByValue>(value).expect("indexed");
    found.iter().map(|object| object.head().key().to_string()).collect()
}

fn entries(reader: &Reader) -> usize {
    reader.status().indexes[0].entries
}

fn indexed() -> (Store, Reader) {
    let mut store = Store::new();
    store.add_index(ByValue).expect("the first");
    let reader = store.reader();
    (store, reader)
}

#[test]
fn delete_removes_empty_sets_from_the_index() {
    let (mut store, reader) = indexed();
    put(&mut store, "ns/a", 1, "", r#""x""#);
    assert_eq!(found(&reader, "x"), ["ns/a"]);
    assert!(store.delete("ns/a").is_some());
    assert_eq!(found(&reader, "x"), [""; 0]);
    assert_eq!(entries(&reader), 0, "nothing of the value is left");
}

#[test]
fn delete_keeps_the_others_of_a_set() {
    let (mut store, reader) = indexed();
    for key in ["ns/a", "ns/b", "other/a"] {
        put(&mut store, key, 1, "", r#""x""#);
    }
    store.delete("ns/a");
    assert_eq!(found(&reader, "x"), ["ns/b", "other/a"]);
}

#[test]
fn index_is_updated_on_change() {
    let (mut store, reader) = indexed();
    put(&mut store, "ns/a", 1, "", r#"["x","y"]"#);
    put(&mut store, "ns/a", 2, "", r#"["y","z"]"#);
    assert_eq!(found(&reader, "x"), [""; 0]);
    for value in ["y", "z"] {
        let objects = reader.snapshot().by_index::<ByValue>(value).expect("indexed");
        let versions: Vec<_> =
            objects.iter().map(|o| o.head().resource_version().to_string()).collect();
        assert_eq!(versions, ["2"], "also the value that stayed has the new version");
    }
    put(&mut store, "ns/a", 3, "", "[]");
    assert_eq!(entries(&reader), 0);
}

#[test]
fn a_value_given_twice_counts_once() {
    let (mut store, reader) = indexed();
    put(&mut store, "ns/a", 1, "", r#"["x","x"]"#);
    assert_eq!(found(&reader, "x"), ["ns/a"]);
}

#[test]
fn indexes_added_late_have_what_was_there_and_what_comes() {
    let mut store = Store::new();
    let reader = store.reader();
    for number in 0..100 {
        put(&mut store, &format!("ns/{number:03}"), 1, "", &format!(r#""{}""#, number % 10));
    }
    assert_eq!(
        reader.snapshot().by_index::<ByValue>("3").expect_err("not yet"),
        IndexError::Unknown { index: "ByValue".to_owned() }
    );
    store.add_index(ByValue).expect("the first");
    assert_eq!(found(&reader, "3").len(), 10);
    // An entry of a late index is removed like any other.
    put(&mut store, "ns/003", 2, "", r#""new""#);
    store.delete("ns/013");
    assert_eq!(found(&reader, "3").len(), 8);
    assert_eq!(found(&reader, "new"), ["ns/003"]);
}

#[test]
fn an_equal_index_is_added_once() {
    let (mut store, reader) = indexed();
    assert!(store.has_index::<ByValue>() && !store.has_index::<ByOwner>());
    store.add_index(ByValue).expect("the same again");
    assert_eq!(reader.status().indexes.len(), 1);
}

#[test]
fn an_index_with_other_settings_is_refused() {
    /// By the first bytes of the name.
    #[derive(PartialEq)]
    struct ByPrefix(usize);

    impl Index for ByPrefix {
        type View = ();
        type Value = String;

        fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = String> {
            head.name().get(..self.0).map(str::to_owned)
        }
    }

    let mut store = Store::new();
    store.add_index(ByPrefix(1)).expect("the first");
    store.add_index(ByPrefix(1)).expect("the same again");
    let error = store.add_index(ByPrefix(2)).expect_err("it would answer for the other one");
    assert_eq!(error, IndexError::Different { index: "ByPrefix" });
    assert_eq!(store.reader().status().indexes.len(), 1);
}

#[test]
fn labels_that_are_asked_for_later_are_indexed_as_well() {
    let mut store = Store::new();
    let indexes = |store: &Store| store.reader().status().indexes.len();
    store.add_index(ByLabel::keys(["app"])).expect("the first");
    put(&mut store, "ns/a", 1, "app=web,team=red,tier=front", "0");
    store.add_index(ByLabel::keys(["team"])).expect("another label");
    let lister = store.reader().lister::<Value>().expect("compact");
    let count = |key: &str, value: &str| lister.by_label(key, value).map(|l| l.iter().count());
    assert_eq!((count("app", "web"), count("team", "red")), (Ok(1), Ok(1)));
    assert_eq!(count("team", "blue"), Ok(0));
    assert_eq!(lister.index_values::<ByLabel>().expect("there are two").len(), 2);
    // What an index has already is not indexed again.
    store.add_index(ByLabel::keys(["team"])).expect("the same again");
    assert_eq!(indexes(&store), 2);
    assert!(count("tier", "front").is_err());
    store.add_index(ByLabel::all()).expect("all labels");
    store.add_index(ByLabel::keys(["tier"])).expect("it is among all");
    assert_eq!((indexes(&store), count("tier", "front")), (3, Ok(1)));
}

#[test]
fn a_label_that_is_not_indexed_is_an_error_that_names_the_line_to_add() {
    let mut store = Store::new();
    store.add_index(ByLabel::keys(["app"])).expect("the first");
    put(&mut store, "ns/a", 1, "app=web,team=red", "0");
    let reader = store.reader();
    let lister = reader.lister::<Value>().expect("compact");
    let pair = ("team".to_owned(), "red".to_owned());
    let missing = [
        lister.by_label("team", "red").expect_err("it is not indexed"),
        reader.snapshot().by_index::<ByLabel>(&pair).expect_err("as by hand"),
    ];
    for error in missing {
        let text = error.to_string();
        assert!(text.contains(r#".index(ByLabel::keys(["team"]))"#), "{text}");
    }
    // A key that is part of an indexed one, or longer than it.
    assert!(lister.by_label("ap", "pweb").is_err() && lister.by_label("appw", "eb").is_err());
    // A selector works without an index.
    let selector = "team=red".parse().expect("valid");
    assert_eq!(lister.select(&selector).iter().count(), 1);
}

#[test]
fn a_view_that_does_not_decode_is_in_the_status_until_the_next_version() {
    let (mut store, reader) = indexed();
    put(&mut store, "ns/a", 1, "", r#""x""#);
    put(&mut store, "ns/a", 2, "", "17");
    put(&mut store, "ns/b", 1, "", "18");
    let failed = || {
        let failed = reader.status().indexes[0].undecodable.clone();
        failed.iter().map(|e| format!("{}@{}", e.key(), e.version())).collect::<Vec<_>>()
    };
    assert_eq!(found(&reader, "x"), [""; 0], "the old version does not answer for the new one");
    assert_eq!(failed(), ["ns/a@2", "ns/b@1"]);
    assert!(reader.get("ns/a").is_some(), "the object itself is there");
    put(&mut store, "ns/a", 3, "", r#""x""#);
    store.delete("ns/b");
    assert_eq!(failed(), [""; 0]);
    assert_eq!(found(&reader, "x"), ["ns/a"]);
}

#[test]
fn a_late_index_lists_what_it_cannot_read() {
    let mut store = Store::new();
    put(&mut store, "ns/a", 1, "", "17");
    store.add_index(ByValue).expect("the first");
    assert_eq!(store.reader().status().indexes[0].undecodable.len(), 1);
}

#[test]
fn owners_and_labels_are_built_in() {
    let mut store = Store::new();
    store.add_index(ByOwner).expect("the first");
    store.add_index(ByLabel::keys(["app"])).expect("the first");
    let lister = store.reader().lister::<Value>().expect("compact");
    let json = br#"{"metadata":{"name":"p","namespace":"ns",
        "labels":{"app":"web","tier":"front"},"ownerReferences":[
        {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u1"},
        {"apiVersion":"v1","kind":"Node","name":"n","uid":"u2"}]}}"#;
    store.put_bytes(json).expect("valid");
    for uid in ["u1", "u2"] {
        assert_eq!(lister.by_owner(&Uid::new(uid)).expect("indexed").iter().count(), 1);
    }
    assert_eq!(lister.by_owner(&Uid::new("u3")).expect("indexed").iter().count(), 0);
    assert_eq!(lister.by_label("app", "web").expect("indexed").iter().count(), 1);
    assert!(lister.by_label("tier", "front").is_err(), "not asked for");
}

#[test]
fn selectors_find_the_same_with_and_without_a_label_index() {
    let (mut plain, mut labelled) = (Store::new(), Store::new());
    labelled.add_index(ByLabel::keys(["a", "b"])).expect("the first");
    for store in [&mut plain, &mut labelled] {
        put(store, "n/1", 1, "a=x,b=y", "0");
        put(store, "n/2", 1, "a=x", "0");
        put(store, "m/3", 1, "b=y,c=z", "0");
    }
    for text in ["", "a=x", "a=x,b=y", "a=x,b!=y", "c=z", "a in (x),c", "a in (x,y)", "!a", "a=q"] {
        let selector = text.parse().expect("valid");
        let select = |store: &Store| {
            let selected = store.reader().snapshot().all().matching(&selector);
            selected.iter().map(|o| o.head().name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(select(&plain), select(&labelled), "{text}");
    }
}

#[test]
fn a_resident_store_takes_views_only_from_its_beginning() {
    let resident = || Store::builder().layout(Layout::resident::<Value>()).build();
    let mut early = resident();
    early.add_index(ByValue).expect("nothing is there");
    put(&mut early, "ns/a", 1, "", r#""x""#);
    put(&mut early, "ns/a", 2, "", r#""y""#);
    assert_eq!(found(&early.reader(), "x"), [""; 0]);
    assert_eq!(found(&early.reader(), "y"), ["ns/a"]);

    let mut late = resident();
    put(&mut late, "ns/a", 1, "", r#""x""#);
    let error = late.add_index(ByValue).expect_err("the bytes are gone");
    assert!(error.to_string().contains("before the first object"), "{error}");
    late.add_index(ByLabel::all()).expect("heads are enough");
}
