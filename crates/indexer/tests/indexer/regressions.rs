//! One test for each fault of the past.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Deserialize;
use windlass_indexer::{ByLabel, Head, Index, Layout, ObjectKey, Selector, Store};

fn object(name: &str, version: u64, labels: &str) -> Vec<u8> {
    let metadata = format!(
        r#"{{"name":"{name}","namespace":"n","resourceVersion":"{version}","labels":{labels}}}"#
    );
    format!(r#"{{"metadata":{metadata},"data":{{"k":"hunter2"}}}}"#).into_bytes()
}

/// An API server takes objects of 10,000 levels. A type with the open field cannot be handed to
/// code that has the stack of an ordinary thread; a type without it can.
#[test]
fn deep_object_is_an_error_only_for_types_that_have_its_deep_field() {
    #[derive(Deserialize)]
    struct WithSize {
        size: u8,
    }

    #[derive(PartialEq)]
    struct BySize;

    impl Index for BySize {
        type View = WithSize;
        type Value = u8;

        fn values(&self, _: &Head, view: WithSize) -> impl IntoIterator<Item = u8> {
            Some(view.size)
        }
    }

    let mut store = Store::new();
    store.add_index(BySize).expect("a new index");
    for (name, levels) in [("flat", 1), ("deep", 10_000)] {
        let free = "[".repeat(levels) + &"]".repeat(levels);
        let json = format!(r#"{{"metadata":{{"name":"{name}"}},"free":{free},"size":7}}"#);
        store.put_bytes(json.as_bytes()).expect("the metadata can be read");
    }
    let reader = store.reader();
    let sized = reader.lister::<WithSize>().expect("compact");
    assert_eq!(sized.get("deep").expect("it decodes").expect("it is there").size, 7);
    assert_eq!(sized.by_index::<BySize>(&7).expect("indexed").iter().count(), 2);
    let whole = reader.lister::<serde_json::Value>().expect("compact");
    let error = whole.get("deep").expect_err("it would be too deep").to_string();
    assert!(error.contains("nested deeper than 127 levels"), "{error}");
    assert!(whole.get("flat").expect("it decodes").is_some());
}

#[test]
fn second_selector_replaces_the_first_with_and_without_an_index() {
    let selected = |with_index: bool| {
        let mut store = Store::new();
        if with_index {
            store.add_index(ByLabel::all()).expect("a new index");
        }
        store.put_bytes(&object("a", 1, r#"{"app":"web"}"#)).expect("an object");
        store.put_bytes(&object("b", 1, r#"{"app":"api"}"#)).expect("an object");
        let web: Selector = "app=web".parse().expect("a selector");
        let api: Selector = "app=api".parse().expect("a selector");
        let list = store.reader().snapshot().all().matching(&web).matching(&api);
        list.iter().map(|object| object.head().name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(selected(false), ["b"]);
    assert_eq!(selected(true), ["b"]);
}

/// An index that panics at the object `b`.
#[derive(PartialEq)]
struct Panicking;

impl Index for Panicking {
    type View = ();
    type Value = String;

    fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = String> {
        assert_ne!(head.name(), "b", "the user's code fails");
        Some("value".to_owned())
    }
}

#[test]
fn index_that_panics_while_it_is_added_leaves_the_store_as_it_was() {
    let mut store = Store::new();
    store.put_bytes(&object("a", 1, "{}")).expect("an object");
    store.put_bytes(&object("b", 1, "{}")).expect("an object");
    let added = catch_unwind(AssertUnwindSafe(|| store.add_index(Panicking)));
    assert!(added.is_err(), "the panic must come through");
    store.put_bytes(&object("a", 2, "{}")).expect("an object");
    let reader = store.reader();
    let version = |head: &Head| head.resource_version().to_string();
    assert_eq!(reader.get("n/a").map(|object| version(object.head())).as_deref(), Some("2"));
    let snapshot = reader.snapshot();
    assert_eq!(snapshot.get("n/a").map(|object| version(object.head())).as_deref(), Some("2"));
    store.add_index(ByLabel::all()).expect("another index");
}

#[derive(Clone, Debug, Deserialize)]
struct Slim {}

#[derive(Debug, Deserialize)]
struct Other {}

#[test]
fn object_of_a_store_resident_in_another_type_is_an_error() {
    let mut resident = Store::builder().layout(Layout::resident::<Slim>()).build();
    let put = resident.put_bytes(&object("a", 1, "{}")).expect("an object");
    let lister = Store::new().reader().lister::<Other>().expect("a lister");
    lister.handle(put.current).get().expect_err("there are no bytes to decode");
}

/// An index whose values are secrets.
#[derive(PartialEq)]
struct BySecret;

#[derive(Deserialize)]
struct Data {
    data: std::collections::BTreeMap<String, String>,
}

impl Index for BySecret {
    type View = Data;
    type Value = String;

    fn values(&self, _: &Head, view: Data) -> impl IntoIterator<Item = String> {
        view.data.into_values()
    }
}

#[test]
fn debug_output_shows_no_value_of_an_index() {
    let mut store = Store::new();
    store.add_index(BySecret).expect("a new index");
    store.put_bytes(&object("a", 1, "{}")).expect("an object");
    let shown = format!("{store:?} {:?} {:?}", store.reader(), store.reader().snapshot());
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn escaped_names_of_fields_mean_the_same() {
    let mut store = Store::new();
    let object = br#"{"metad\u0061ta":{"n\u0061me":"a",
        "resourceVersi\u006fn":"7","l\u0061bels":{"x":"y"}}}"#;
    let put = store.put_bytes(object).expect("an object");
    let head = put.current.head();
    assert_eq!((head.name(), head.resource_version().to_string().as_str()), ("a", "7"));
    assert_eq!(head.labels().get("x"), Some("y"));
}

#[test]
fn object_put_back_into_its_resident_store_stays_in_its_indexes() {
    let mut store = Store::builder().layout(Layout::resident::<Slim>()).build();
    store.add_index(BySecret).expect("a new index");
    let put = store.put_bytes(&object("a", 1, "{}")).expect("an object");
    store.put(put.current);
    let snapshot = store.reader().snapshot();
    let found = snapshot.by_index::<BySecret>("hunter2").expect("the index");
    assert_eq!(found.iter().count(), 1);
}

#[test]
fn empty_namespace_is_none() {
    let mut store = Store::new();
    store.put_bytes(br#"{"metadata":{"name":"node"}}"#).expect("an object");
    assert!(store.reader().get(("", "node")).is_some());
    assert_eq!(ObjectKey::namespaced("", "node"), ObjectKey::cluster("node"));
}

#[test]
fn white_space_in_selectors_is_that_of_kubernetes() {
    assert!("a = b".parse::<Selector>().is_ok());
    assert!("a=\u{a0}b".parse::<Selector>().is_err());
}

/// Lists of labels and owners are interned, and every version of an object may have new ones.
#[test]
fn labels_that_nobody_has_any_more_are_forgotten() {
    let mut store = Store::new();
    let reader = store.reader();
    let interned = || reader.status().interned_bytes;
    let put = |store: &mut Store, name: usize, version: usize| {
        let json = format!(
            r#"{{"metadata":{{"name":"n{name}","labels":{{"l":"{name}-{version}"}},
                "ownerReferences":[{{"apiVersion":"v1","kind":"K",
                    "name":"{name}-{version}","uid":"{name}-{version}"}}]}}}}"#
        );
        store.put_bytes(json.as_bytes()).expect("valid");
    };
    let mut bytes = Vec::new();
    for version in 0..20 {
        for name in 0..5_000 {
            put(&mut store, name, version);
        }
        bytes.push(interned());
    }
    let (first, last) = (bytes[0], bytes[19]);
    assert!(last <= 2 * first, "{bytes:?} for 5,000 objects with two texts each");
    for name in 0..5_000 {
        store.delete(&*format!("n{name}"));
    }
    assert!(interned() < last / 3, "{last}, and {} for no object", interned());
}
