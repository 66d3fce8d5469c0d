//! The operator under faults: crashes, lost answers, stale views.

use serde_json::json;
use website_operator::{NAME, Website, WebsiteSpec, controller, definition, reconciler, webhooks};
use windlass::manager::Manager;
use windlass_sim::Simulation;

fn site(name: &str, host: &str, replicas: i32) -> Website {
    let spec = WebsiteSpec { replicas: Some(replicas), ..WebsiteSpec::new(host, "<h1>Hi</h1>") };
    Website::new(name, spec)
}

#[test]
fn website_survives_faults() {
    // Without its webhooks, which the server calls in this process instead.
    Simulation::new(|process| {
        Manager::new(process.options())
            .leader_election(NAME)
            .controller(controller(), reconciler("default"))
    })
    .install(definition())
    .prepare(|server| {
        let router = webhooks().router().expect("webhooks must have a router");
        server.webhooks().handle_service(NAME, NAME, router);
    })
    .step("create", |user| user.create(site("shop", "shop.example.com", 2)))
    .step("scale", |user| user.patch::<Website>("shop", json!({"spec": {"replicas": 3}})))
    .step("edit", |user| {
        user.patch::<Website>("shop", json!({"spec": {"files": {"a.html": "A"}}}));
    })
    .step("delete", |user| user.delete::<Website>("shop"))
    .check();
}
