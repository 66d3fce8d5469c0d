//! Subresources with side effects: scale with every verb, evictions and disruption budgets, and
//! those of a pod without a process.

use http::Method;
use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::{OTHER_UID, definition, deployment, pod, with};
use crate::request::Request;

const SCALE: &str = "autoscaling/v1";

/// Installs a kind with the subresource `scale`, with its fields at unusual paths.
async fn scalable(t: &mut Script, default: Value) -> String {
    let group = format!("{}.example.dev", t.ns());
    let things = format!("/apis/{group}/v1/namespaces/{}/things", t.ns());
    let mut version = definition("things", "Thing", &group)["spec"]["versions"][0].clone();
    let count = json!({"type": "integer", "minimum": 0, "maximum": 9});
    let size =
        if default.is_null() { count.clone() } else { with(count.clone(), "/default", default) };
    version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"pool": {"type": "object", "default": {}, "properties": {"size": size}},
            "other": {"type": "string"}}},
        "status": {"type": "object", "properties": {"pool": {"type": "object", "properties": {
            "size": count, "selector": {"type": "string"}}}}},
    }});
    version["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.pool.size", "statusReplicasPath": ".status.pool.size",
        "labelSelectorPath": ".status.pool.selector"}});
    let whole = with(definition("things", "Thing", &group), "/spec/versions", json!([version]));
    t.install(whole, &[&things]).await;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "spec": {}});
    t.given(&things, thing).await;
    format!("{things}/a")
}

fn scale(replicas: i64) -> Value {
    json!({"apiVersion": SCALE, "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas}})
}

pub(super) async fn scale_with_paths_of_its_own(t: &mut Script) {
    let thing = scalable(t, json!(2)).await;
    let path = format!("{thing}/scale");
    t.merge_patch(
        format!("{thing}/status"),
        json!({"status": {"pool": {"size": 1, "selector": "app=a"}}}),
    )
    .await;
    let read = t.get(&path).await;
    t.put(&path, with(read.body.clone(), "/spec/replicas", json!(3))).await;
    t.put(&path, with(read.body, "/spec/replicas", json!(4))).await;
    t.merge_patch(&path, json!({"spec": {"replicas": 5}})).await;
    t.json_patch(&path, json!([{"op": "replace", "path": "/spec/replicas", "value": 6}])).await;
    // The status of a scale is not written.
    t.merge_patch(&path, json!({"status": {"replicas": 9}})).await;
    t.get(&thing).await;
}

pub(super) async fn scale_is_held_to_the_schema(t: &mut Script) {
    let path = format!("{}/scale", scalable(t, json!(2)).await);
    t.merge_patch(&path, json!({"spec": {"replicas": 10}})).await;
    t.merge_patch(&path, json!({"spec": {"replicas": -1}})).await;
    t.send(Request::delete(&path)).await;
    t.post(&path, scale(1)).await;
}

pub(super) async fn scale_of_an_object_without_replicas(t: &mut Script) {
    let path = format!("{}/scale", scalable(t, Value::Null).await);
    t.get(&path).await;
    t.merge_patch(&path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    t.merge_patch(&path, json!({"spec": {"replicas": 3}})).await;
    t.get(&path).await;
}

pub(super) async fn scale_of_a_custom_resource_cannot_be_applied(t: &mut Script) {
    let thing = scalable(t, json!(2)).await;
    let path = format!("{thing}/scale");
    t.apply_by_force(&path, "scaler", scale(4)).await;
    t.get(&thing).await;
    t.apply(
        &path,
        "other",
        json!({"apiVersion": "apps/v1", "kind": "Scale", "metadata": {"name": "a"}}),
    )
    .await;
    t.apply(
        path.replace("/a/", "/missing/"),
        "other",
        with(scale(1), "/metadata/name", json!("missing")),
    )
    .await;
}

pub(super) async fn scale_of_a_deployment_can_be_applied(t: &mut Script) {
    t.given(format!("{}?fieldManager=creator", t.deployments()), deployment("a")).await;
    let path = format!("{}/a/scale", t.deployments());
    t.apply_by_force(&path, "scaler", scale(4)).await;
    t.managers(format!("{}/a", t.deployments())).await;
    // A different manager that wants another value is in conflict.
    t.apply(&path, "other", scale(5)).await;
    t.apply_by_force(&path, "other", scale(5)).await;
    t.merge_patch(&path, json!({"spec": {"replicas": 2}})).await;
    t.apply(
        &path,
        "other",
        json!({"apiVersion": "apps/v1", "kind": "Scale", "metadata": {"name": "a"}}),
    )
    .await;
    let missing = path.replace("/a/", "/missing/");
    t.apply(missing, "other", with(scale(1), "/metadata/name", json!("missing"))).await;
    t.pick(
        Request::get(format!("{}/a", t.deployments())),
        &["/spec/replicas", "/metadata/generation"],
    )
    .await;
}

fn pods(t: &Script) -> String {
    format!("/api/v1/namespaces/{}/pods", t.ns())
}

fn budgets(t: &Script) -> String {
    format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", t.ns())
}

/// A running pod, ready or not.
async fn running(t: &mut Script, name: &str, ready: &str) {
    let labelled = with(pod(name), "/metadata/labels", json!({"app": "a"}));
    t.given(pods(t), with(labelled, "/spec/nodeName", json!("node"))).await;
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
    let path = format!("{}/{name}/status", pods(t));
    let answer = t
        .unrecorded(&Request::patch(path, crate::script::MERGE_PATCH, json!({"status": status})))
        .await;
    assert_eq!(answer.status, 200, "the status must be written: {}", answer.body);
}

/// A budget with this status, as written by its controller.
async fn budget(t: &mut Script, name: &str, spec: Value, status: Value) {
    let mut whole = json!({"selector": {"matchLabels": {"app": "a"}}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": whole});
    t.given(budgets(t), budget).await;
    let path = format!("{}/{name}/status", budgets(t));
    let answer = t
        .unrecorded(&Request::patch(path, crate::script::MERGE_PATCH, json!({"status": status})))
        .await;
    assert_eq!(answer.status, 200, "the status must be written: {}", answer.body);
}

fn counts(allowed: i64, current: i64, desired: i64) -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": current,
        "desiredHealthy": desired, "expectedPods": current})
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

async fn evict(t: &mut Script, name: &str, eviction: Value) {
    t.post(format!("{}/{name}/eviction", pods(t)), eviction).await;
}

pub(super) async fn eviction_of_a_pod_without_a_budget(t: &mut Script) {
    running(t, "a", "True").await;
    evict(t, "a", eviction("b")).await;
    evict(t, "a", json!({"apiVersion": "policy/v1", "kind": "Eviction"})).await;
    evict(t, "missing", eviction("missing")).await;
    evict(t, "a", eviction("a")).await;
    // It runs on a node, so it gets a grace period.
    t.get(format!("{}/a", pods(t))).await;
}

pub(super) async fn eviction_that_a_budget_allows(t: &mut Script) {
    running(t, "a", "True").await;
    running(t, "b", "True").await;
    budget(t, "pdb", json!({"minAvailable": 1}), counts(1, 2, 1)).await;
    evict(t, "a", eviction("a")).await;
    t.get(format!("{}/pdb", budgets(t))).await;
    evict(t, "b", eviction("b")).await;
    t.pick(
        Request::get(format!("{}/b", pods(t))),
        &["/status/phase", "/metadata/deletionTimestamp"],
    )
    .await;
}

pub(super) async fn eviction_that_a_budget_refuses(t: &mut Script) {
    running(t, "a", "True").await;
    budget(t, "pdb", json!({"minAvailable": 1}), counts(0, 1, 1)).await;
    evict(t, "a", eviction("a")).await;
    let path = format!("{}/pdb/status", budgets(t));
    t.look(Request::patch(&path, crate::script::MERGE_PATCH, json!({"status": counts(0, 3, 1)})))
        .await;
    evict(t, "a", eviction("a")).await;
    // A budget that its controller has not processed yet.
    let path = format!("{}/pdb", budgets(t));
    t.look(Request::patch(&path, crate::script::MERGE_PATCH, json!({"spec": {"minAvailable": 0}})))
        .await;
    evict(t, "a", eviction("a")).await;
    t.get(format!("{}/a", pods(t))).await;
}

pub(super) async fn eviction_of_pods_that_are_not_ready(t: &mut Script) {
    for name in ["a", "b", "c"] {
        running(t, name, "False").await;
    }
    budget(t, "pdb", json!({"minAvailable": 2}), counts(0, 1, 2)).await;
    evict(t, "a", eviction("a")).await;
    let path = format!("{}/pdb/status", budgets(t));
    t.look(Request::patch(&path, crate::script::MERGE_PATCH, json!({"status": counts(0, 2, 2)})))
        .await;
    evict(t, "a", eviction("a")).await;
    let change = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    t.look(Request::patch(format!("{}/pdb", budgets(t)), crate::script::MERGE_PATCH, change)).await;
    t.look(Request::patch(&path, crate::script::MERGE_PATCH, json!({"status": counts(0, 0, 2)})))
        .await;
    evict(t, "b", eviction("b")).await;
    t.pick(Request::get(format!("{}/pdb", budgets(t))), &["/status"]).await;
}

pub(super) async fn eviction_with_several_budgets(t: &mut Script) {
    running(t, "a", "True").await;
    budget(t, "one", json!({"minAvailable": 1}), counts(1, 2, 1)).await;
    budget(t, "two", json!({"maxUnavailable": 1}), counts(1, 2, 1)).await;
    evict(t, "a", eviction("a")).await;
    t.pick(
        Request::get(format!("{}/a", pods(t))),
        &["/status/phase", "/metadata/deletionTimestamp"],
    )
    .await;
}

pub(super) async fn eviction_of_pods_that_do_not_run(t: &mut Script) {
    let labelled = |name: &str| with(pod(name), "/metadata/labels", json!({"app": "a"}));
    t.given(pods(t), labelled("pending")).await;
    running(t, "failed", "False").await;
    let path = format!("{}/failed/status", pods(t));
    t.look(Request::patch(
        path,
        crate::script::MERGE_PATCH,
        json!({"status": {"phase": "Failed"}}),
    ))
    .await;
    budget(t, "pdb", json!({"minAvailable": 1}), counts(0, 1, 1)).await;
    evict(t, "pending", eviction("pending")).await;
    evict(t, "failed", eviction("failed")).await;
    t.get(format!("{}/pending", pods(t))).await;
    t.get(format!("{}/failed", pods(t))).await;
}

pub(super) async fn eviction_with_options(t: &mut Script) {
    running(t, "a", "True").await;
    budget(t, "pdb", json!({"minAvailable": 1}), counts(5, 6, 1)).await;
    let with_options = |options: Value| with(eviction("a"), "/deleteOptions", options);
    evict(t, "a", with_options(json!({"preconditions": {"uid": OTHER_UID}}))).await;
    evict(t, "a", with_options(json!({"preconditions": {"resourceVersion": "1"}}))).await;
    evict(t, "a", with_options(json!({"dryRun": ["All"]}))).await;
    t.post(format!("{}/a/eviction?dryRun=All", pods(t)), eviction("a")).await;
    t.pick(Request::get(format!("{}/a", pods(t))), &["/status", "/metadata/deletionTimestamp"])
        .await;
    evict(t, "a", with_options(json!({"gracePeriodSeconds": 0}))).await;
    t.get(format!("{}/a", pods(t))).await;
    t.pick(Request::get(format!("{}/pdb", budgets(t))), &["/status/disruptionsAllowed"]).await;
}

/// Bodies of another kind or version, with values of wrong types, and with unknown fields.
async fn odd_bodies(t: &mut Script, path: &str, plain: Value, odd: &[(&str, Value)]) {
    for (pointer, value) in [
        ("/kind", json!("ConfigMap")),
        ("/kind", json!("Nothing")),
        ("/apiVersion", json!("v2")),
        ("/metadata/labels", json!(1)),
    ]
    .iter()
    .chain(odd)
    {
        t.post(path, with(plain.clone(), pointer, value.clone())).await;
    }
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    t.post(path, config_map).await;
    t.send(Request::post(path, json!([]))).await;
    t.send(Request::post(path, json!(null)).text("{")).await;
    let unknown = with(plain, "/bogus", json!(1));
    t.post(format!("{path}?fieldValidation=Strict"), unknown.clone()).await;
    t.post(format!("{path}?dryRun=All"), unknown).await;
}

pub(super) async fn binding_is_of_its_kind_and_types(t: &mut Script) {
    t.given(pods(t), pod("a")).await;
    let path = format!("{}/a/binding", pods(t));
    let plain = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "node-1"},
    });
    let odd = [
        ("/target", json!("node-1")),
        ("/target/name", json!(1)),
        ("/metadata/namespace", json!("default")),
        ("/metadata/name", json!("b")),
    ];
    odd_bodies(t, &path, plain.clone(), &odd).await;
    t.post(&path, json!({"metadata": {"name": "a"}, "target": plain["target"]})).await;
}

pub(super) async fn eviction_is_of_its_kind_and_types(t: &mut Script) {
    running(t, "a", "True").await;
    let path = format!("{}/a/eviction", pods(t));
    let odd = [
        ("/deleteOptions", json!(1)),
        ("/deleteOptions/gracePeriodSeconds", json!("1")),
        ("/deleteOptions/preconditions/uid", json!(1)),
        ("/metadata/namespace", json!("default")),
    ];
    odd_bodies(t, &path, eviction("a"), &odd).await;
}

pub(super) async fn eviction_takes_options_that_are_null(t: &mut Script) {
    for (name, options) in [
        ("a", json!(null)),
        ("b", json!({"preconditions": null, "dryRun": null, "gracePeriodSeconds": null})),
    ] {
        running(t, name, "True").await;
        evict(t, name, with(eviction(name), "/deleteOptions", options)).await;
    }
    running(t, "c", "True").await;
    evict(t, "c", with(eviction("c"), "/apiVersion", json!("policy/v1beta1"))).await;
    t.given(pods(t), pod("d")).await;
    t.delete_with(format!("{}/d", pods(t)), json!({"preconditions": null, "dryRun": null})).await;
}

pub(super) async fn eviction_has_one_verb(t: &mut Script) {
    running(t, "a", "True").await;
    let path = format!("{}/a/eviction", pods(t));
    t.get(&path).await;
    t.send(Request::new(Method::PUT, &path).json(eviction("a"))).await;
    t.send(Request::delete(&path)).await;
}

/// A field with arbitrary content: an apply owns the fields in it, a merge patch changes single
/// ones.
pub(super) async fn content_of_any_form_is_merged(t: &mut Script) {
    let revisions = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", t.ns());
    let revision = |data: Value| {
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"}, "revision": 1,
            "data": data})
    };
    let path = format!("{revisions}/a");
    t.apply(&path, "one", revision(json!({"spec": {"a": 1, "list": [1, {"b": null}]}}))).await;
    t.managers(&path).await;
    t.merge_patch(&path, json!({"data": {"spec": {"a": 2}}})).await;
    t.apply(&path, "two", revision(json!({"spec": {"c": 3}}))).await;
    t.merge_patch(&path, json!({"revision": 2, "data": {"spec": {"a": 1}}})).await;
    t.get(&path).await;
}
