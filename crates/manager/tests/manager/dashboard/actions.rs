//! What the dashboard does: run a key now, and pause an object.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use serde_json::json;
use windlass_informer::ClientStack;
use windlass_manager::dashboard::Access;
use windlass_reconciler::PAUSED_ANNOTATION;
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};

use crate::dashboard::stage::{CONTROLLER, Running, create, maps};

fn asked(key: &str) -> serde_json::Value {
    json!({"controller": CONTROLLER, "key": key})
}

fn pause(key: &str, paused: bool) -> serde_json::Value {
    json!({"controller": CONTROLLER, "key": key, "paused": paused})
}

#[tokio::test(start_paused = true)]
async fn key_runs_now_although_it_would_wait_and_the_cause_says_why() {
    let mut running = Running::start(&["default/fails", "default/a"]).await;
    running.wait_for_runs(&["fails", "a"]).await;
    for key in ["default/fails", "default/a"] {
        let path = format!("/api/key?controller=maps&key={key}");
        running.wait_for(&path, |of| of["runs"].as_array().is_some_and(|of| of.len() == 1)).await;
        let (code, text) = running.post("/api/run", asked(key)).await;
        assert_eq!(code, 202, "{text}");
        // It ran within the hour that it would have waited.
        let is_so = |of: &serde_json::Value| of["runs"].as_array().is_some_and(|of| of.len() == 2);
        let shown = running.wait_for(&path, is_so).await;
        let causes = shown["runs"][0]["causes"].as_array().expect("causes");
        assert!(causes.contains(&json!("source dashboard")), "{shown:#}");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn key_has_the_number_of_its_runs_and_the_events_of_the_last_ones() {
    let mut running = Running::start(&["default/tells"]).await;
    for _ in 0..9 {
        running.wait_for_runs(&["tells"]).await;
        let (code, text) = running.post("/api/run", asked("default/tells")).await;
        assert_eq!(code, 202, "{text}");
    }
    let path = "/api/key?controller=maps&key=default/tells";
    let shown = running.wait_for(path, |of| of["runCount"] == 10).await;
    let runs = shown["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 8);
    for run in runs {
        let event = "Warning Odd of ConfigMap default/tells: there is nothing in it";
        assert_eq!(run["events"], json!([event]));
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn object_is_paused_and_resumed_by_its_annotation() {
    let mut running = Running::start(&["default/a"]).await;
    running.wait_for_runs(&["a"]).await;
    let path = "/api/key?controller=maps&key=default/a";
    let (code, text) = running.post("/api/pause", pause("default/a", true)).await;
    assert_eq!(code, 200, "{text}");
    let object = maps(&running.server, "default").get("a").await.expect("an object");
    let annotations = object.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations[PAUSED_ANNOTATION], "true");
    let is_so = |of: &serde_json::Value| of["paused"] == true && !of["inactive"].is_null();
    running.wait_for(path, is_so).await;

    let (code, text) = running.post("/api/run", asked("default/a")).await;
    assert_eq!(code, 409, "{text}");
    assert!(text.contains("resume it"), "{text}");

    let (code, text) = running.post("/api/pause", pause("default/a", false)).await;
    assert_eq!(code, 200, "{text}");
    running.wait_for_runs(&["a"]).await;
    let object = maps(&running.server, "default").get("a").await.expect("an object");
    assert_eq!(object.metadata.annotations.unwrap_or_default().get(PAUSED_ANNOTATION), None);
    running.wait_for(path, |of| of["paused"] == false && of["inactive"].is_null()).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refusal_of_the_api_server_is_shown() {
    let mut running = Running::start(&["default/a"]).await;
    running.wait_for_runs(&["a"]).await;
    let fault = Fault::Fail { code: 403, retry_after: None };
    running.server.faults().add(FaultRule::new(fault).verb("patch").times(1));
    let (code, text) = running.post("/api/pause", pause("default/a", true)).await;
    assert_eq!(code, 502, "{text}");
    assert!(text.starts_with("the operator's account could not change the object: "), "{text}");
    let object = maps(&running.server, "default").get("a").await.expect("an object");
    assert_eq!(object.metadata.annotations, None);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_neither_run_nor_paused() {
    let mut running = Running::start(&["default/a", "shop/hangs"]).await;
    running.wait_for_runs(&["a", "hangs"]).await;
    for (path, key) in [
        ("/api/run", "default/nobody"),
        ("/api/pause", "default/nobody"),
        // Not a way to other paths of the API server.
        ("/api/pause", "../configmaps"),
        ("/api/run", ".."),
    ] {
        let (code, text) = running.post(path, pause(key, true)).await;
        assert_eq!(code, 404, "{path} {key}: {text}");
    }
    for invalid in ["a/b/c", ""] {
        let (code, text) = running.post("/api/run", pause(invalid, true)).await;
        assert_eq!(code, 400, "{text}");
    }
    let (code, text) = running.post("/api/run", json!({"key": "default/a"})).await;
    assert_eq!(code, 422, "{text}");
    let other = json!({"controller": "other", "key": "default/a"});
    let (code, text) = running.post("/api/run", other).await;
    assert_eq!(code, 404, "{text}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn standby_runs_nothing_and_says_so() {
    let server = ApiServer::new();
    create(&server, "default/a").await;
    let client = ClientStack::new().around(server.service(), "default");
    let now = "2026-01-01T00:00:00.000000Z";
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "operator"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3_600, "renewTime": now},
    }))
    .expect("a Lease");
    let leases: Api<Lease> = Api::default_namespaced(client);
    leases.create(&PostParams::default(), &lease).await.expect("created");
    let running = Running::start_with(server, &Access::local(), |manager| {
        manager.leader_election("operator")
    });
    let path = "/api/summary";
    running.wait_for(path, |of| of["leadership"]["leader"] == "another").await;
    let is_so = |of: &serde_json::Value| of["total"] == 1;
    running.wait_for("/api/keys?controller=maps", is_so).await;
    let (code, text) = running.post("/api/run", asked("default/a")).await;
    assert_eq!(code, 409, "{text}");
    assert!(text.contains("does not lead"), "{text}");
    running.stop().await;
}
