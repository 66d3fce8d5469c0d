//! The store under a schedule explorer.
//!
//! In this crate's unit tests, the locks of the store are shuttle's. Shuttle runs each test below
//! under thousands of thread interleavings. A failure prints its schedule, and `shuttle::replay`
//! runs that schedule again.

use std::sync::Arc;

use shuttle::thread;

use crate::{ByLabel, Lister, Reader, Store};

/// Schedules of each kind for each test. They take a second or two.
const SCHEDULES: usize = 2_000;

/// The explorer's default is too small for decoding JSON without optimisation.
const STACK: usize = 1 << 18;

fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    let config = || {
        let mut config = shuttle::Config::new();
        config.stack_size = STACK;
        config
    };
    let random = shuttle::scheduler::RandomScheduler::new(SCHEDULES);
    shuttle::Runner::new(random, config()).run(test);
    let few_switches = shuttle::scheduler::PctScheduler::new(3, SCHEDULES);
    shuttle::Runner::new(few_switches, config()).run(test);
}

fn put(store: &mut Store, name: &str, version: u64, label: &str) {
    let metadata =
        format!(r#""name":"{name}","resourceVersion":"{version}","labels":{{"l":"{label}"}}"#);
    let json = format!(r#"{{"metadata":{{{metadata}}}}}"#);
    store.put_bytes(json.as_bytes()).expect("valid");
}

/// The version of an object as a number.
fn version(lister: &Lister<serde_json::Value>, name: &str) -> Option<u64> {
    let object = lister.get(name).expect("it decodes")?;
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok())
}

/// The versions of all objects at one moment.
fn versions(reader: &Reader) -> Vec<u64> {
    let moment = reader.snapshot().all();
    let versions = moment.iter().map(|object| object.head().resource_version().to_string());
    versions.map(|version| version.parse().expect("a number")).collect()
}

#[test]
fn hot_reads_never_go_back_to_an_old_version() {
    explore(|| {
        let mut store = Store::new();
        put(&mut store, "a", 1, "x");
        let lister = store.reader().lister::<serde_json::Value>().expect("compact");
        let reader = {
            let lister = lister.clone();
            thread::spawn(move || {
                let seen: Vec<_> = (0..3).filter_map(|_| version(&lister, "a")).collect();
                assert!(seen.is_sorted(), "{seen:?}");
            })
        };
        put(&mut store, "a", 2, "x");
        assert_eq!(version(&lister, "a"), Some(2));
        put(&mut store, "a", 3, "x");
        reader.join().expect("no panic");
        assert_eq!(version(&lister, "a"), Some(3));
    });
}

#[test]
fn a_deleted_object_is_not_in_the_hot_set() {
    explore(|| {
        let mut store = Store::new();
        put(&mut store, "a", 1, "x");
        let lister = store.reader().lister::<serde_json::Value>().expect("compact");
        let reader = thread::spawn(move || drop(lister.get("a")));
        put(&mut store, "a", 2, "x");
        store.delete("a");
        reader.join().expect("no panic");
        let status = &store.reader().status().types[0];
        assert_eq!((status.hot_entries, status.hot_bytes), (0, 0));
    });
}

#[test]
fn a_list_is_one_moment_and_agrees_with_get() {
    explore(|| {
        let mut store = Store::new();
        let reader = store.reader();
        let watching = thread::spawn(move || {
            for _ in 0..3 {
                // The writer puts a, then b, then a again, with growing versions.
                let seen = versions(&reader);
                let is_a_moment = matches!(seen[..], [] | [1] | [1 | 3, 2]);
                assert!(is_a_moment, "{seen:?}");
                // What was listed can be got.
                for name in ["a", "b"].iter().take(seen.len()) {
                    assert!(reader.get(*name).is_some());
                }
                // What was got is listed.
                if reader.get("b").is_some() {
                    assert_eq!(versions(&reader).len(), 2);
                }
            }
        });
        put(&mut store, "a", 1, "x");
        put(&mut store, "b", 2, "x");
        put(&mut store, "a", 3, "x");
        watching.join().expect("no panic");
    });
}

#[test]
fn a_read_by_index_matches_also_while_labels_change() {
    explore(|| {
        let mut store = Store::new();
        store.add_index(ByLabel::all()).expect("first");
        put(&mut store, "a", 1, "x");
        let reader = store.reader();
        let watching = thread::spawn(move || {
            for _ in 0..3 {
                let moment = reader.snapshot();
                let find = |value: &str| {
                    let pair = ("l".to_owned(), value.to_owned());
                    let found = moment.by_index::<ByLabel>(&pair).expect("there");
                    let found: Vec<_> = found.iter().map(Arc::clone).collect();
                    assert!(found.iter().all(|o| o.head().labels().get("l") == Some(value)));
                    found.len()
                };
                assert_eq!(find("x") + find("y"), 1, "in one of the two, never in both or none");
            }
        });
        put(&mut store, "a", 2, "y");
        put(&mut store, "a", 3, "x");
        watching.join().expect("no panic");
    });
}

#[test]
fn readers_over_the_budget_evict_without_a_deadlock() {
    explore(|| {
        let mut store = Store::builder().hot_set_bytes(1_500).build();
        for name in ["a", "b", "c", "d"] {
            put(&mut store, name, 1, "x");
        }
        let lister = store.reader().lister::<serde_json::Value>().expect("compact");
        let readers: Vec<_> = [["a", "b"], ["c", "d"]]
            .into_iter()
            .map(|names| {
                let lister = lister.clone();
                thread::spawn(move || names.map(|name| version(&lister, name)))
            })
            .collect();
        store.delete("a");
        put(&mut store, "c", 2, "x");
        for reader in readers {
            reader.join().expect("no panic");
        }
        let status = &store.reader().status().types[0];
        assert!(status.hot_bytes <= 1_500 && status.hot_entries <= 3, "{status:?}");
    });
}
