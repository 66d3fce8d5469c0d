//! The controller under faults: crashes, lost answers, stale views.

use std::sync::Arc;

use sample_controller::{Foo, FooSpec, controller, definition};
use serde_json::json;
use windlass::manager::Manager;
use windlass::reconciler::AnyController;
use windlass_sim::{Explore, Simulation};

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

/// Without mixes: while the caches of both kinds lag behind, it makes the Deployment of a Foo that
/// is gone, as any controller would that reads caches.
#[test]
fn foo_survives_faults() {
    simulation().explore(Explore::all().random(0)).check();
}
