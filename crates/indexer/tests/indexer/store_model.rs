//! Random puts, deletes, late indexes and reads against plain maps, and real threads that read
//! while a writer works.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::object;
use proptest::prelude::*;
use serde::Deserialize;
use windlass_indexer::{
    ByLabel, Head, Index, Layout, Lister, Reader, Selection, Selector, Snapshot, Store,
};

/// The objects of this test.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Thing {
    value: u8,
}

/// An index by the value. It cannot read values that are not numbers.
#[derive(PartialEq)]
struct ByValue;

impl Index for ByValue {
    type View = Thing;
    type Value = u8;

    fn values(&self, _: &Head, view: Thing) -> impl IntoIterator<Item = u8> {
        // Zero has no entry, and large values have two.
        [Some(view.value), view.value.checked_sub(2)]
            .into_iter()
            .flatten()
            .filter(|value| *value > 0)
    }
}

/// An object as the model sees it.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    version: u64,
    label: Option<u8>,
    /// `None` does not decode.
    value: Option<u8>,
}

type Models = BTreeMap<(u8, u8), Model>;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, Option<u8>, Option<u8>),
    Delete(u8, u8),
    AddLabels,
    AddValues,
    Read(u8, u8),
    Check,
    /// Takes a snapshot, to be checked at the end.
    Snapshot,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (namespace, name) = (0..4_u8, 0..30_u8);
    let (label, value) = (prop::option::of(0..3_u8), prop::option::weighted(0.9, 0..5_u8));
    let put = (namespace.clone(), name.clone(), label, value)
        .prop_map(|(a, b, c, d)| Step::Put(a, b, c, d));
    let step = prop_oneof![
        12 => put,
        6 => (namespace.clone(), name.clone()).prop_map(|(a, b)| Step::Delete(a, b)),
        6 => (namespace, name).prop_map(|(a, b)| Step::Read(a, b)),
        1 => Just(Step::AddLabels),
        1 => Just(Step::AddValues),
        1 => Just(Step::Check),
        1 => Just(Step::Snapshot),
    ];
    prop::collection::vec(step, 0..400)
}

fn key((namespace, name): (u8, u8)) -> String {
    // Namespace 0 stands for cluster-scoped.
    if namespace == 0 { format!("n{name:02}") } else { format!("ns{namespace}/n{name:02}") }
}

fn found(selection: &Selection) -> Vec<(String, String)> {
    let pair = |head: &Head| (head.key().to_string(), head.resource_version().to_string());
    selection.iter().map(|object| pair(object.head())).collect()
}

fn wanted(models: &Models, is_wanted: impl Fn(u8, &Model) -> bool) -> Vec<(String, String)> {
    let wanted = models.iter().filter(|((namespace, _), model)| is_wanted(*namespace, model));
    wanted.map(|(at, model)| (key(*at), model.version.to_string())).collect()
}

/// Checks every way to list a snapshot.
fn check_snapshot(snapshot: &Snapshot, models: &Models, has_labels: bool, has_values: bool) {
    assert_eq!(snapshot.len(), models.len());
    assert_eq!(found(&snapshot.all()), wanted(models, |_, _| true));
    for namespace in 1..5 {
        let listed = found(&snapshot.all().in_namespace(&format!("ns{namespace}")));
        assert_eq!(listed, wanted(models, |other, _| other == namespace));
    }
    for label in 0..4 {
        let text = format!("l{label}");
        let want = wanted(models, |_, model| model.label == Some(label));
        let selector = Selector::everything().equals("l", &*text);
        assert_eq!(found(&snapshot.all().matching(&selector)), want);
        let not = Selector::everything().equals_not("l", &*text);
        assert_eq!(
            found(&snapshot.all().matching(&not)),
            wanted(models, |_, m| m.label != Some(label))
        );
        let in_two = found(&snapshot.all().in_namespace("ns2").matching(&selector));
        assert_eq!(in_two, wanted(models, |ns, m| ns == 2 && m.label == Some(label)));
        let by_index = snapshot.by_index::<ByLabel>(&("l".to_owned(), text));
        assert_eq!(by_index.is_ok(), has_labels);
        if let Ok(by_index) = by_index {
            assert_eq!(found(&by_index), want);
        }
    }
    for value in 0..6_u8 {
        let by_index = snapshot.by_index::<ByValue>(&value);
        assert_eq!(by_index.is_ok(), has_values);
        if let Ok(by_index) = by_index {
            let is_in = |own: u8| value > 0 && (own == value || own.checked_sub(2) == Some(value));
            assert_eq!(found(&by_index), wanted(models, |_, model| model.value.is_some_and(is_in)));
        }
    }
}

/// Checks what a snapshot cannot tell.
fn check_now(reader: &Reader, models: &Models) {
    let status = reader.status();
    assert_eq!(status.objects, models.len());
    let held: usize = reader.snapshot().all().iter().map(|object| object.allocated_bytes()).sum();
    assert_eq!(status.object_bytes, held);
    let failed = |errors: &[windlass_indexer::DecodeError]| {
        let pair =
            |e: &windlass_indexer::DecodeError| (e.key().to_string(), e.version().to_string());
        errors.iter().map(pair).collect::<Vec<_>>()
    };
    let undecodable = wanted(models, |_, model| model.value.is_none());
    for index in status.indexes.iter().filter(|index| index.name == "ByValue") {
        assert_eq!(failed(&index.undecodable), undecodable);
    }
    let known: BTreeSet<_> = failed(&status.types[0].undecodable_first).into_iter().collect();
    assert!(
        known.is_subset(&undecodable.into_iter().collect()),
        "only what is there is undecodable"
    );
    assert_eq!(known.len(), status.types[0].undecodable);
}

fn check_read(lister: &Lister<Thing>, at: (u8, u8), model: Option<&Model>) {
    let read = lister.get(&*key(at));
    match model {
        None => assert!(read.expect("no error").is_none()),
        Some(Model { value: Some(value), .. }) => {
            assert_eq!(read.expect("it decodes").expect("there").value, *value);
        }
        Some(Model { version, .. }) => {
            assert_eq!(read.expect_err("no number").version().to_string(), version.to_string());
        }
    }
}

fn run(mut store: Store, steps: Vec<Step>) {
    let reader = store.reader();
    let lister = reader.lister::<Thing>().expect("its type");
    let mut models = Models::new();
    let mut snapshots = Vec::new();
    for (version, step) in steps.into_iter().enumerate() {
        let version = version as u64;
        match step {
            Step::Put(namespace, name, label, value) => {
                let at = (namespace, name);
                let labels = label.map(|label| format!("l=l{label},other=x")).unwrap_or_default();
                let json = value.map_or(r#""none""#.to_owned(), |value| value.to_string());
                let put = store.put_bytes(object(&key(at), version, &labels, &json).as_bytes());
                let previous = put
                    .expect("valid")
                    .previous
                    .map(|old| old.head().resource_version().to_string());
                let old = models.insert(at, Model { version, label, value });
                assert_eq!(previous, old.map(|old| old.version.to_string()));
            }
            Step::Delete(namespace, name) => {
                let at = (namespace, name);
                let old =
                    store.delete(&*key(at)).map(|old| old.head().resource_version().to_string());
                assert_eq!(old, models.remove(&at).map(|old| old.version.to_string()));
            }
            Step::AddLabels => store.add_index(ByLabel::keys(["l"])).expect("new, or equal"),
            // A resident store with objects refuses this index.
            Step::AddValues => drop(store.add_index(ByValue)),
            Step::Read(namespace, name) => {
                check_read(&lister, (namespace, name), models.get(&(namespace, name)));
            }
            Step::Check => check_now(&reader, &models),
            Step::Snapshot => {
                let has = (store.has_index::<ByLabel>(), store.has_index::<ByValue>());
                snapshots.push((reader.snapshot(), models.clone(), has));
            }
        }
    }
    check_now(&reader, &models);
    let has = (store.has_index::<ByLabel>(), store.has_index::<ByValue>());
    snapshots.push((reader.snapshot(), models, has));
    for (snapshot, models, (has_labels, has_values)) in snapshots {
        check_snapshot(&snapshot, &models, has_labels, has_values);
    }
}

proptest! {
    #[test]
    fn a_compact_store_behaves_as_plain_maps(steps in steps(), hot_set_bytes in 0..4_000_usize) {
        run(Store::builder().hot_set_bytes(hot_set_bytes).build(), steps);
    }

    #[test]
    fn a_resident_store_behaves_as_plain_maps(steps in steps()) {
        run(Store::builder().layout(Layout::resident::<Thing>()).build(), steps);
    }
}

/// In each round, the writer gives all objects the same value and the label of that value, from
/// the first object to the last. So at any moment, values fall from key to key by one at most, and
/// every object has exactly one label.
#[test]
fn readers_on_other_threads_see_one_moment() {
    const OBJECTS: usize = 100;
    const ROUNDS: u64 = 30;
    let mut store = Store::builder().hot_set_bytes(20_000).build();
    store.add_index(ByLabel::all()).expect("the first");
    let names: Vec<_> = (0..OBJECTS).map(|number| format!("ns/n{number:03}")).collect();
    let write = |store: &mut Store, round: u64| {
        for name in &names {
            let json =
                object(name, round, &format!("l=l{}", round % 2), &(round % 200).to_string());
            store.put_bytes(json.as_bytes()).expect("valid");
        }
    };
    write(&mut store, 0);
    let reader = store.reader();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let lister = reader.lister::<Thing>().expect("compact");
                let mut last = 0;
                while !is_done.load(Ordering::Acquire) {
                    last = check_moment(&reader.snapshot(), OBJECTS, last);
                    let read = lister.get(&*names[0]).expect("it decodes").expect("there");
                    assert!(u64::from(read.value) >= last, "get is not behind the list");
                }
            });
        }
        for round in 1..=ROUNDS {
            write(&mut store, round);
        }
        is_done.store(true, Ordering::Release);
    });
}

/// Returns the newest version of the snapshot.
fn check_moment(moment: &Snapshot, objects: usize, last: u64) -> u64 {
    let versions: Vec<u64> = moment
        .all()
        .iter()
        .map(|object| object.head().resource_version().to_string().parse().expect("ours"))
        .collect();
    assert_eq!(versions.len(), objects);
    assert!(versions.is_sorted_by(|one, two| one >= two), "{versions:?}");
    assert!(versions[0] - versions[objects - 1] <= 1 && versions[0] >= last, "{versions:?}");
    let mut labelled = 0;
    for label in ["l0", "l1"] {
        let pair = ("l".to_owned(), label.to_owned());
        let selection = moment.by_index::<ByLabel>(&pair).expect("indexed");
        for object in &selection {
            assert_eq!(object.head().labels().get("l"), Some(label));
            labelled += 1;
        }
    }
    assert_eq!(labelled, objects);
    versions[0]
}
