//! Changes that are laid over a snapshot: they are seen by every read of it, and by nobody else.

use crate::common::{object, put};
use proptest::prelude::*;
use serde::Deserialize;
use windlass_indexer::{
    ByController, ByLabel, Head, Index, KeyRef, Layout, Object, ObjectKey, Selection, Selector,
    Snapshot, Store, Uid,
};

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Thing {
    value: u8,
}

/// An index that needs the body of an object.
#[derive(PartialEq)]
struct ByValue;

impl Index for ByValue {
    type View = Thing;
    type Value = u8;

    fn values(&self, _: &Head, view: Thing) -> impl IntoIterator<Item = u8> {
        [view.value, view.value / 2]
    }
}

/// An index by the keys that objects refer to.
#[derive(PartialEq)]
struct ByReference;

#[derive(Deserialize)]
struct Referring {
    value: String,
}

impl Index for ByReference {
    type View = Referring;
    type Value = ObjectKey;

    fn values(&self, _: &Head, view: Referring) -> impl IntoIterator<Item = ObjectKey> {
        view.value.parse::<ObjectKey>().ok()
    }
}

fn keys(selection: &Selection) -> Vec<String> {
    selection.iter().map(|object| object.head().key().to_string()).collect()
}

fn lay_over(store: &Store, snapshot: &mut Snapshot, json: &str) {
    let reader = store.reader();
    let head = reader.head_parser().parse(json.as_bytes()).expect("a head");
    reader.put_into(snapshot, Object::new(head, json.as_bytes()));
}

#[test]
fn look_up_by_index_can_be_restricted_to_a_namespace() {
    let mut store = Store::new();
    store.add_index(ByValue).expect("a new index");
    store.add_index(ByLabel::all()).expect("a new index");
    for (key, value) in [("a/1", "7"), ("b/1", "7"), ("b/2", "8"), ("b/3", "7"), ("c/1", "7")] {
        put(&mut store, key, 1, "app=web", value);
    }
    let snapshot = store.reader().snapshot();
    let sevens = snapshot.by_index::<ByValue>(&7).expect("the index");
    assert_eq!(keys(&sevens.clone().in_namespace("b")), ["b/1", "b/3"]);
    assert_eq!(keys(&sevens.in_namespace("d")), Vec::<String>::new());
    // By the index of labels, which a selector uses where it can.
    let web: Selector = "app=web".parse().expect("a selector");
    assert_eq!(keys(&snapshot.all().matching(&web).in_namespace("b")), ["b/1", "b/2", "b/3"]);
    assert_eq!(keys(&snapshot.all().in_namespace("c").matching(&web)), ["c/1"]);
}

#[test]
fn values_of_an_index_are_told_once_each() {
    let mut store = Store::new();
    store.add_index(ByLabel::keys(["app"])).expect("a new index");
    store.add_index(ByReference).expect("a new index");
    for number in 0..200 {
        let label = format!("app=web-{}", number % 3);
        put(&mut store, &format!("a/{number}"), 1, &label, "\"x/y\"");
    }
    put(&mut store, "a/odd", 1, "", "\"z\"");
    let lister = store.reader().lister::<serde_json::Value>().expect("compact");
    let texts = lister.index_values::<ByReference>().expect("the index");
    assert_eq!(texts.iter().map(|text| &**text).collect::<Vec<_>>(), ["x/y", "z"]);
    assert_eq!(lister.index_values::<ByLabel>().expect("the index").len(), 3);
    assert!(lister.index_values::<ByValue>().is_err());
}

#[test]
fn key_is_looked_up_without_an_owned_one() {
    let mut store = Store::new();
    store.add_index(ByReference).expect("a new index");
    put(&mut store, "a/1", 1, "", "\"shop/login\"");
    let lister = store.reader().lister::<serde_json::Value>().expect("compact");
    let owned = ObjectKey::namespaced("shop", "login");
    assert!(!lister.by_index::<ByReference>(&owned).expect("the index").is_empty());
    let borrowed = KeyRef::from(("shop", "login"));
    assert!(!lister.by_index::<ByReference>(&borrowed).expect("the index").is_empty());
    assert!(lister.by_index::<ByReference>(&KeyRef::from("login")).expect("it is").is_empty());
}

#[test]
fn objects_are_found_by_the_one_owner_that_controls_them() {
    let mut store = Store::new();
    store.add_index(ByController).expect("a new index");
    let owned = |name: &str, controller: bool| {
        format!(
            r#"{{"metadata":{{"name":"{name}","ownerReferences":[{{"apiVersion":"v1","kind":"A",
                "name":"a","uid":"a-1","controller":{controller}}}]}}}}"#
        )
    };
    for json in [owned("child", true), owned("guest", false)] {
        store.put_bytes(json.as_bytes()).expect("a head");
    }
    let found = store.reader().snapshot().by_index::<ByController>(&Uid::new("a-1"));
    assert_eq!(keys(&found.expect("the index")), ["child"]);
}

#[test]
fn what_is_laid_over_is_in_the_snapshot_alone() {
    let mut store = Store::new();
    store.add_index(ByValue).expect("a new index");
    put(&mut store, "a/1", 1, "", "1");
    let mut snapshot = store.reader().snapshot();
    let untouched = snapshot.clone();
    lay_over(&store, &mut snapshot, &object("a/2", 2, "", "9"));
    assert!(snapshot.remove("a/1").is_some() && snapshot.remove("a/1").is_none());
    assert_eq!(keys(&snapshot.all()), ["a/2"]);
    assert_eq!(keys(&untouched.all()), ["a/1"]);
    assert_eq!(keys(&store.reader().snapshot().all()), ["a/1"]);
    let nine = |snapshot: &Snapshot| keys(&snapshot.by_index::<ByValue>(&9).expect("the index"));
    assert_eq!((nine(&snapshot).len(), nine(&untouched).len()), (1, 0));
    assert!(store.reader().get("a/1").is_some() && store.reader().get("a/2").is_none());
}

#[test]
fn object_that_is_laid_over_reads_as_one_of_the_store() {
    for layout in [Layout::compact(), Layout::resident::<Thing>()] {
        let store = Store::builder().layout(layout).build();
        let lister = store.reader().lister::<Thing>().expect("its type");
        let mut snapshot = store.reader().snapshot();
        lay_over(&store, &mut snapshot, &object("a/1", 1, "", "3"));
        lay_over(&store, &mut snapshot, &object("a/2", 1, "", "true"));
        let read = |key: &str| lister.decoded(snapshot.get(key).expect("it was laid over"));
        assert_eq!(read("a/1").expect("it decodes").value, 3);
        assert!(read("a/2").is_err());
        let objects = lister.typed(snapshot.all());
        assert_eq!(objects.iter().filter(|object| object.get().is_ok()).count(), 1);
        assert_eq!(store.reader().status().types[0].undecodable, 0, "the store has none");
    }
}

#[test]
fn index_that_panics_changes_nothing() {
    #[derive(PartialEq)]
    struct Panics;
    impl Index for Panics {
        type View = ();
        type Value = bool;

        fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = bool> {
            assert!(head.name() != "bad", "as it should");
            [true]
        }
    }
    let mut store = Store::new();
    store.add_index(Panics).expect("a new index");
    let mut snapshot = store.reader().snapshot();
    let put_bad = std::panic::AssertUnwindSafe(|| {
        lay_over(&store, &mut snapshot, &object("a/bad", 1, "", "1"));
    });
    assert!(std::panic::catch_unwind(put_bad).is_err());
    assert!(snapshot.is_empty());
    lay_over(&store, &mut snapshot, &object("a/good", 1, "", "1"));
    assert_eq!(keys(&snapshot.by_index::<Panics>(&true).expect("the index")), ["a/good"]);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, u8, u8),
    Delete(u8, u8),
}

fn steps(max: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..3u8, 0..8u8, 0..3u8, 0..6u8).prop_map(|(a, b, c, d)| Step::Put(a, b, c, d)),
        1 => (0..3u8, 0..8u8).prop_map(|(a, b)| Step::Delete(a, b)),
    ];
    proptest::collection::vec(step, 0..max)
}

fn key(namespace: u8, name: u8) -> String {
    format!("ns{namespace}/n{name}")
}

/// The object of a put. The value 5 does not decode.
fn json(version: usize, namespace: u8, name: u8, label: u8, value: u8) -> String {
    let value = if value == 5 { "\"five\"".to_owned() } else { value.to_string() };
    object(&key(namespace, name), version as u64, &format!("l={label}"), &value)
}

fn apply(store: &mut Store, from: usize, steps: &[Step]) {
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Put(namespace, name, label, value) => {
                let json = json(from + number, namespace, name, label, value);
                store.put_bytes(json.as_bytes()).expect("a head");
            }
            Step::Delete(namespace, name) => drop(store.delete(&*key(namespace, name))),
        }
    }
}

/// Everything that can be read of a snapshot, with versions.
fn told(snapshot: &Snapshot) -> Vec<Vec<String>> {
    let told = |selection: Selection| -> Vec<String> {
        let heads = selection.iter().map(|object| object.head().clone());
        heads.map(|head| format!("{}@{}", head.key(), head.resource_version())).collect()
    };
    let mut all = vec![told(snapshot.all()), vec![snapshot.len().to_string()]];
    for value in 0..6 {
        let found = snapshot.by_index::<ByValue>(&value).expect("the index");
        all.push(told(found.clone()));
        all.push(told(found.in_namespace("ns1")));
    }
    for label in 0..3 {
        let selector = Selector::everything().equals("l", label.to_string());
        all.push(told(snapshot.all().matching(&selector)));
        all.push(told(snapshot.all().in_namespace("ns2").matching(&selector)));
    }
    let texts = snapshot.index_values::<ByValue>().expect("the index");
    all.push(texts.iter().map(ToString::to_string).collect());
    for (namespace, name) in (0..3).flat_map(|namespace| (0..8).map(move |n| (namespace, n))) {
        let held = snapshot.get(&*key(namespace, name));
        all.push(held.map(|held| held.head().resource_version().to_string()).into_iter().collect());
    }
    all
}

proptest! {
    /// A snapshot with changes reads like a store with these changes, whatever the store does.
    #[test]
    fn snapshot_with_changes_reads_like_a_store_with_them(
        is_resident in any::<bool>(),
        (before, laid, meanwhile) in (steps(40), steps(40), steps(40)),
    ) {
        let layout = || if is_resident { Layout::resident::<Thing>() } else { Layout::compact() };
        let new = || {
            let mut store = Store::builder().layout(layout()).build();
            store.add_index(ByValue).expect("a new index");
            store.add_index(ByLabel::all()).expect("a new index");
            apply(&mut store, 0, &before);
            store
        };
        let (mut store, mut model) = (new(), new());
        let mut snapshot = store.reader().snapshot();
        apply(&mut store, 1_000, &meanwhile);
        let after = told(&store.reader().snapshot());
        for (number, step) in laid.iter().enumerate() {
            match *step {
                Step::Put(namespace, name, label, value) => {
                    let json = json(2_000 + number, namespace, name, label, value);
                    lay_over(&store, &mut snapshot, &json);
                }
                Step::Delete(namespace, name) => drop(snapshot.remove(&*key(namespace, name))),
            }
        }
        apply(&mut model, 2_000, &laid);
        prop_assert_eq!(told(&snapshot), told(&model.reader().snapshot()));
        prop_assert_eq!(told(&store.reader().snapshot()), after, "the store has not changed");
    }
}
