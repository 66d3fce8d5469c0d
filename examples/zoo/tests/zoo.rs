//! The simulator finds each bug of the zoo, by the exploration that should find it, and passes the
//! mended operator. `cargo test -p zoo -- --nocapture` shows the table.

use std::collections::BTreeMap;

use kube::CustomResourceExt as _;
use serde_json::json;
use windlass::prelude::Reconcile;
use windlass_sim::{Explore, Simulation};
use zoo::Way;
use zoo::crash_between_steps::CrashBetweenSteps;
use zoo::inventory::Inventory;
use zoo::missed_scale_down::MissedScaleDown;
use zoo::sets_from_the_past::SetsFromThePast;
use zoo::stale_deletion::StaleDeletion;
use zoo::status_for_ever::StatusForEver;
use zoo::store::{Store, StoreSpec, manager, store};

/// A simulation of an operator in a certain way.
fn of<R: Reconcile<Store>>(make: impl Fn() -> R + 'static) -> Simulation {
    Simulation::new(move |process| manager(process.options(), make())).install(Store::crd())
}

fn spec(replicas: u32, size: &str, parts: &[&str]) -> StoreSpec {
    let parts = parts.iter().map(ToString::to_string).collect();
    StoreSpec { replicas, size: size.to_owned(), parts }
}

/// Checks that the bug is found by this exploration alone within so many runs, that it is found
/// when everything is explored, and that nothing is found in the mended operator.
#[track_caller]
fn check(bug: &str, exploration: &str, runs_max: usize, story: impl Fn(Way) -> Simulation) {
    let found = story(Way::Published).explore(only(exploration)).search();
    assert_eq!(found.exploration(), Some(exploration), "{bug}: {found}");
    assert!(found.runs() <= runs_max, "{bug} took {} runs", found.runs());
    let by_all = story(Way::Published).search();
    assert!(by_all.finding().is_some(), "{bug} is not found when everything is explored");
    let mended = story(Way::Mended).search();
    assert!(mended.finding().is_none(), "{bug}, mended: {mended}");
    let faults: Vec<String> = found.faults().iter().map(ToString::to_string).collect();
    println!(
        "| {bug} | {exploration} | {} | `{}` | {} | {} runs pass |",
        found.runs(),
        faults.join(", "),
        found.finding().map(ToString::to_string).unwrap_or_default(),
        mended.runs(),
    );
}

fn only(exploration: &str) -> Explore {
    let nothing = Explore::nothing;
    let by_name: BTreeMap<&str, Explore> = [
        ("without faults", nothing()),
        ("crash", nothing().crashes()),
        ("failed and lost writes", nothing().writes()),
        ("reads from the past", nothing().past()),
        ("stale view", nothing().stale()),
        ("unobserved changes", nothing().unseen()),
        ("downtime", nothing().down()),
    ]
    .into();
    by_name[exploration].clone()
}

#[test]
fn stale_deletion() {
    check("zookeeper-operator #312, #314", "reads from the past", 60, |way| {
        of(move || StaleDeletion(way))
            .step("create", |user| user.create(store(spec(1, "1Gi", &[]))))
            .step("delete", |user| user.delete::<Store>("main"))
            .step("create again", |user| user.create(store(spec(1, "1Gi", &[]))))
    });
}

#[test]
fn missed_scale_down() {
    check("zookeeper-operator (scale-down), rabbitmq #758", "downtime", 60, |way| {
        of(move || MissedScaleDown::new(way))
            .step("create", |user| user.create(store(spec(3, "1Gi", &[]))))
            .step("scale down", |user| {
                user.patch::<Store>("main", json!({"spec": {"replicas": 1}}));
            })
    });
}

#[test]
fn crash_between_steps() {
    check("rabbitmq cluster-operator #782", "crash", 60, |way| {
        of(move || CrashBetweenSteps(way))
            .step("create", |user| user.create(store(spec(1, "1Gi", &[]))))
            .step("grow", |user| user.patch::<Store>("main", json!({"spec": {"size": "2Gi"}})))
    });
}

#[test]
fn status_for_ever() {
    check("crossplane #7221", "without faults", 1, |way| {
        of(move || StatusForEver(way))
            .step("create", |user| user.create(store(spec(1, "1Gi", &[]))))
    });
}

#[test]
fn inventory() {
    check("kro #1170", "downtime", 60, |way| {
        of(move || Inventory(way))
            .step("create", |user| user.create(store(spec(1, "", &["a"]))))
            .step("add a part", |user| {
                user.patch::<Store>("main", json!({"spec": {"parts": ["a", "b"]}}));
            })
            .step("remove it", |user| {
                user.patch::<Store>("main", json!({"spec": {"parts": ["a"]}}));
            })
    });
}

#[test]
fn sets_from_the_past() {
    check("cluster-api #13649", "reads from the past", 60, |way| {
        of(move || SetsFromThePast(way))
            .step("create", |user| user.create(store(spec(1, "", &["red", "blue"]))))
    });
}
