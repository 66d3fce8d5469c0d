//! The controller under faults: crashes, lost answers, stale views.

use std::sync::Arc;

use sample_controller::{Foo, FooSpec, controller, definition};
use serde_json::json;
use windlass::manager::Manager;
use windlass::reconciler::AnyController;
use windlass_sim::{Explore, Finding, Simulation};

fn simulation() -> Simulation {
    Simulation::new(|process| {
        Manager::new(process.options()).built_controllers(|factory| {
            let controller: Arc<dyn AnyController> = Arc::new(controller(factory)?);
            anyhow::Ok(vec![controller])
        })
    })
    .install(definition())
    .step("create", |user| {
        let spec = FooSpec { deployment_name: "web".to_owned(), replicas: Some(1) };
        user.create(Foo::new("one", spec));
    })
    .step("scale", |user| user.patch::<Foo>("one", json!({"spec": {"replicas": 3}})))
    .step("delete", |user| user.delete::<Foo>("one"))
}

#[test]
fn foo_survives_crashes_and_failed_writes() {
    simulation().explore(Explore::nothing().crashes().writes()).check();
}

/// While the Foo that is gone is still in the cache, its Deployment is made again each time that
/// the garbage collector has deleted it: `docs/simulation.md`, "Found". Once that is mended, the
/// test above explores everything, and this one goes.
#[test]
fn deployment_of_a_foo_that_is_gone_is_made_again_by_a_stale_view() {
    let report = simulation().explore(Explore::nothing().stale()).search();
    let found = report.finding();
    assert!(
        matches!(found, Some(Finding::TooMany { verb: "creates", kind, .. }) if kind == "deployments.apps"),
        "{report}"
    );
}
