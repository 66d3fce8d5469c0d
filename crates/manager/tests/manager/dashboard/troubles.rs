//! Objects that never come to rest: hot loops and fights.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_informer::ClientStack;
use windlass_manager::dashboard::Access;
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
use windlass_testserver::apiserver::ApiServer;

use crate::dashboard::stage::{Running, create, maps};

/// So that the paused clock moves while objects never come to rest.
const STEP: Duration = Duration::from_millis(10);

/// Changes its object in each run.
struct Counter;

impl Reconcile<Secret> for Counter {
    async fn reconcile(&self, object: Arc<Secret>, cx: &RunContext) -> Result<Action, Error> {
        sleep(STEP).await;
        let mut new = Secret::clone(&object);
        let labels = new.metadata.labels.get_or_insert_default();
        let count = labels.get("count").and_then(|of| of.parse().ok()).unwrap_or(0_u32);
        labels.insert("count".to_owned(), (count + 1).to_string());
        cx.live().update(&*object, &new).await?;
        Ok(Action::done())
    }
}

/// Wants a value in the `ConfigMap` of the same name, and applies it by force.
struct Owner(&'static str);

async fn apply(owner: &str, name: &str, client: kube::Client) -> Result<(), Error> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"owner": owner},
    });
    let params = PatchParams::apply(owner).force();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.patch(name, &params, &Patch::Apply(&object)).await?;
    Ok(())
}

impl Reconcile<Secret> for Owner {
    async fn reconcile(&self, _: Arc<Secret>, cx: &RunContext) -> Result<Action, Error> {
        sleep(STEP).await;
        apply(self.0, cx.key().name(), cx.client().clone()).await?;
        Ok(Action::done())
    }
}

async fn create_secret(server: &ApiServer, name: &str) {
    let client = ClientStack::new().around(server.service(), "default");
    let secret = json!({"metadata": {"name": name}});
    let secret: Secret = serde_json::from_value(secret).expect("a secret");
    let secrets: Api<Secret> = Api::default_namespaced(client);
    secrets.create(&PostParams::default(), &secret).await.expect("created");
}

/// Woken by the Secret, and by the `ConfigMap` of the same name.
fn owner(name: &'static str) -> windlass_reconciler::ControllerBuilder<Secret> {
    Controller::named(name, Watch::<Secret>::new())
        .watches(Watch::<ConfigMap>::new(), |map| [map.key().clone()])
}

fn has_trouble(report: &Value) -> bool {
    report["troubles"].as_array().is_some_and(|troubles| !troubles.is_empty())
}

#[tokio::test(start_paused = true)]
async fn key_that_wakes_itself_is_a_hot_loop() {
    let server = ApiServer::new();
    create_secret(&server, "spins").await;
    let running = Running::start_with(server, &Access::local(), |manager| {
        manager.controller(Controller::named("counter", Watch::<Secret>::new()), Counter)
    });
    let report = running.wait_for("/api/summary", has_trouble).await;
    let [trouble] = report["troubles"].as_array().expect("troubles").as_slice() else {
        panic!("one trouble: {report:#}")
    };
    assert_eq!((&trouble["kind"], &trouble["controller"]), (&json!("hotLoop"), &json!("counter")));
    assert_eq!(trouble["key"], "default/spins");
    let message = trouble["message"].as_str().unwrap_or_default();
    assert!(message.contains("patch secrets default/spins at "), "{message}");

    let key = running.get("/api/key?controller=counter&key=default/spins").await;
    assert_eq!(key["trouble"][0]["kind"], "hotLoop", "{key:#}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controllers_that_change_an_object_in_turn_fight() {
    let server = ApiServer::new();
    create_secret(&server, "torn").await;
    create_secret(&server, "other").await;
    let running = Running::start_with(server, &Access::local(), |manager| {
        manager.controller(owner("blue"), Owner("blue")).controller(owner("red"), Owner("red"))
    });
    let report = running.wait_for("/api/summary", |report| {
        report["troubles"].as_array().is_some_and(|troubles| troubles.len() == 4)
    });
    let report = report.await;
    let found: Vec<_> = report["troubles"]
        .as_array()
        .expect("troubles")
        .iter()
        .map(|of| format!("{} {} {}", of["kind"], of["controller"], of["key"]).replace('"', ""))
        .collect();
    let expected = [
        "fight blue default/other",
        "fight blue default/torn",
        "fight red default/other",
        "fight red default/torn",
    ];
    assert_eq!(found, expected, "{report:#}");
    let message = report["troubles"][1]["message"].as_str().unwrap_or_default();
    assert!(message.contains("blue and red change configmaps default/torn in turn"), "{message}");
    let key = running.get("/api/key?controller=red&key=default/torn").await;
    assert_eq!(key["trouble"].as_array().map(Vec::len), Some(1), "{key:#}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controller_that_undoes_what_somebody_else_does_fights() {
    let server = ApiServer::new();
    create_secret(&server, "torn").await;
    let running = Running::start_with(server, &Access::local(), |manager| {
        manager.controller(owner("blue"), Owner("blue"))
    });
    let maps = maps(&running.server, "default");
    let params = PatchParams { field_manager: Some("autoscaler".into()), ..Default::default() };
    for round in 0..4 {
        let is_blue = async || {
            let map = maps.get_opt("torn").await.expect("an answer");
            map.and_then(|map| map.data).is_some_and(|data| data["owner"] == "blue")
        };
        while !is_blue().await {
            sleep(STEP).await;
        }
        if round < 2 {
            let report = running.get("/api/summary").await;
            assert_eq!(report["troubles"], json!([]), "three rounds are a fight");
        }
        let patch = Patch::Merge(json!({"data": {"owner": "autoscaler"}}));
        maps.patch("torn", &params, &patch).await.expect("patched");
    }
    let report = running.wait_for("/api/summary", has_trouble).await;
    let trouble = &report["troubles"][0];
    assert_eq!((&trouble["kind"], &trouble["controller"]), (&json!("fight"), &json!("blue")));
    assert_eq!(trouble["key"], "default/torn");
    let message = trouble["message"].as_str().unwrap_or_default();
    assert!(message.contains("somebody else changes configmaps default/torn"), "{message}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn object_that_people_edit_often_is_no_trouble() {
    let server = ApiServer::new();
    create(&server, "default/edited").await;
    let mut running = Running::start_with(server, &Access::local(), |manager| manager);
    running.wait_for_runs(&["edited"]).await;
    let maps = maps(&running.server, "default");
    for number in 0..20 {
        let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
        maps.patch("edited", &PatchParams::default(), &patch).await.expect("patched");
        running.wait_for_runs(&["edited"]).await;
    }
    assert_eq!(running.get("/api/summary").await["troubles"], json!([]));
    running.stop().await;
}
