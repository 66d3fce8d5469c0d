//! Services and their endpoint slices.

use serde_json::{Value, json};

use super::super::{DEPLOYMENTS, PODS, SERVICES, SLICES, STATEFUL_SETS, Stage};
use super::deployment;

fn service(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {
        "name": "web", "labels": {"team": "front"},
    }, "spec": spec})
}

fn two_ports() -> Value {
    json!({
        "selector": {"app": "web"},
        "ports": [
            {"name": "http", "port": 80, "targetPort": "web"},
            {"name": "metrics", "port": 9090, "appProtocol": "http"},
        ],
    })
}

/// Waits until this many endpoints are ready and this many are not.
async fn until_endpoints(stage: &Stage, ready: usize, unready: usize) {
    stage
        .until(SLICES, "published", |slices| {
            let endpoints = slices.iter().filter_map(|one| one["endpoints"].as_array()).flatten();
            let (yes, no): (Vec<_>, Vec<_>) =
                endpoints.partition(|endpoint| endpoint["conditions"]["ready"] == true);
            (yes.len(), no.len()) == (ready, unready)
        })
        .await;
}

pub(crate) async fn service_knows_its_pods(stage: &Stage) {
    stage.create(SERVICES, service(&two_ports())).await;
    let mut web = deployment(2, "web:1", &json!({}));
    let container = &mut web["spec"]["template"]["spec"]["containers"][0];
    container["ports"] = json!([{"name": "web", "containerPort": 8080}]);
    stage.create(DEPLOYMENTS, web).await;
    stage.until_complete("web").await;
    until_endpoints(stage, 2, 0).await;
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 3}})).await;
    stage.until_complete("web").await;
    until_endpoints(stage, 3, 0).await;
    // A pod that loses its label leaves, and its replacement joins.
    let pods = stage.list(PODS).await;
    let name = pods[0]["metadata"]["name"].as_str().expect("a name");
    stage.patch(PODS, name, json!({"metadata": {"labels": {"app": "other"}}})).await;
    stage.until_complete("web").await;
    until_endpoints(stage, 3, 0).await;
    stage.patch(SERVICES, "web", json!({"metadata": {"labels": {"team": "back"}}})).await;
    stage
        .until(SLICES, "labelled", |slices| {
            slices.iter().all(|slice| slice["metadata"]["labels"]["team"] == "back")
        })
        .await;
}

pub(crate) async fn service_without_pods_has_an_empty_slice(stage: &Stage) {
    stage.create(SERVICES, service(&two_ports())).await;
    stage.until(SLICES, "one slice", |slices| slices.len() == 1).await;
    let mut unselective = service(&json!({"ports": [{"port": 80}]}));
    unselective["metadata"]["name"] = "elsewhere".into();
    stage.create(SERVICES, unselective).await;
    stage.create(DEPLOYMENTS, deployment(1, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    until_endpoints(stage, 1, 0).await;
    stage.delete(DEPLOYMENTS, "web").await;
    until_endpoints(stage, 0, 0).await;
    stage.until(SLICES, "one slice", |slices| slices.len() == 1).await;
    stage.until(PODS, "no pods", <[Value]>::is_empty).await;
}

pub(crate) async fn headless_service_knows_names(stage: &Stage) {
    let spec = json!({
        "clusterIP": "None", "selector": {"app": "db"}, "publishNotReadyAddresses": true,
        "ports": [{"port": 5432}],
    });
    stage.create(SERVICES, service(&spec)).await;
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "replicas": 2,
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "web", "image": "db:1"}]},
        },
    }});
    stage.create(STATEFUL_SETS, set).await;
    stage.until_updated("db").await;
    until_endpoints(stage, 2, 0).await;
    let names = |slices: &[Value]| {
        let endpoints = slices.iter().filter_map(|one| one["endpoints"].as_array()).flatten();
        let mut names: Vec<_> =
            endpoints.filter_map(|one| one["hostname"].as_str().map(str::to_owned)).collect();
        names.sort();
        names
    };
    assert_eq!(names(&stage.list(SLICES).await), ["db-0", "db-1"]);
}
