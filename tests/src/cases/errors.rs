//! The table of errors: not found, already exists, conflict, not allowed.

use http::Method;
use serde_json::json;

use crate::Script;
use crate::fixtures::{CRDS, GADGETS, GROUP, OTHER_UID, configmap, gadget, lease, widget, with};
use crate::request::Request;
use crate::script::{JSON_PATCH, MERGE_PATCH};
use crate::target::Who;

pub(super) async fn missing_object_is_named_with_its_resource(t: &mut Script) {
    t.install_widgets().await;
    t.install_gadgets().await;
    t.get(t.widget("nope")).await;
    t.get(t.configmap("nope")).await;
    t.get(format!("{GADGETS}/{}", t.own_name("nope"))).await;
    t.get(format!("{CRDS}/nope.example.dev")).await;
}

pub(super) async fn missing_object_cannot_be_written(t: &mut Script) {
    t.install_widgets().await;
    let object = with(widget("nope"), "/metadata/resourceVersion", json!("1"));
    t.put(t.widget("nope"), object.clone()).await;
    t.put(format!("{}/status", t.widget("nope")), object).await;
    t.merge_patch(t.widget("nope"), json!({"spec": {"size": 2}})).await;
    t.json_patch(t.configmap("nope"), json!([])).await;
    t.delete(t.widget("nope")).await;
    t.delete(t.configmap("nope")).await;
}

pub(super) async fn put_of_a_missing_object_creates_only_some_kinds(t: &mut Script) {
    t.install_widgets().await;
    t.put(t.widget("nope"), widget("nope")).await;
    t.put(t.configmap("nope"), configmap("nope")).await;
    t.put(format!("{}/new", t.leases()), lease("new")).await;
}

pub(super) async fn unknown_group_is_a_plain_404(t: &mut Script) {
    t.get("/apis/no.such.group").await;
    t.get("/apis/no.such.group/v1").await;
    t.get("/apis/no.such.group/v1/things").await;
    t.post("/apis/no.such.group/v1/things", json!({})).await;
}

pub(super) async fn unknown_version_of_a_known_group(t: &mut Script) {
    t.install_widgets().await;
    t.get("/apis/apps/v9").await;
    t.get("/apis/apps/v9/deployments").await;
    t.get("/api/v2").await;
    t.get("/api/v2/configmaps").await;
    t.get(format!("/apis/{GROUP}/v9/widgets")).await;
}

pub(super) async fn unknown_resource_of_a_known_group(t: &mut Script) {
    t.install_widgets().await;
    t.get(format!("/api/v1/namespaces/{}/gizmos", t.ns())).await;
    t.get(format!("/api/v1/namespaces/{}/gizmos/a", t.ns())).await;
    t.get("/apis/apps/v1/gizmos").await;
    t.get(format!("/apis/{GROUP}/v1/namespaces/{}/gizmos", t.ns())).await;
}

pub(super) async fn unknown_path(t: &mut Script) {
    t.get("/foo").await;
    t.get("/foo/bar/baz").await;
    t.post("/foo", json!({})).await;
}

pub(super) async fn unknown_subresource(t: &mut Script) {
    t.install_widgets().await;
    t.install_gadgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    let name = t.own_name("a");
    t.given(GADGETS, gadget(&name)).await;
    t.get(format!("{}/status", t.configmap("a"))).await;
    t.get(format!("{}/nonsense", t.widget("a"))).await;
    t.get(format!("{GADGETS}/{name}/status")).await;
    t.get(format!("{GADGETS}/{name}/scale")).await;
}

pub(super) async fn namespaced_resource_at_cluster_level_and_back(t: &mut Script) {
    t.install_widgets().await;
    t.install_gadgets().await;
    t.post("/api/v1/configmaps", configmap("a")).await;
    t.get("/api/v1/configmaps/a").await;
    t.post(format!("/apis/{GROUP}/v1/widgets"), widget("a")).await;
    t.get(format!("/apis/{GROUP}/v1/widgets/a")).await;
    t.get(format!("/apis/{GROUP}/v1/namespaces/{}/gadgets", t.ns())).await;
    t.get(format!("/api/v1/namespaces/{}/nodes", t.ns())).await;
}

pub(super) async fn duplicate_already_exists(t: &mut Script) {
    t.install_widgets().await;
    t.post(t.configmaps(), configmap("a")).await;
    t.post(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    t.post(t.widgets(), widget("a")).await;
    t.post("/api/v1/namespaces", crate::fixtures::namespace("default")).await;
}

pub(super) async fn stale_version_is_a_conflict_for_put(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.given(t.configmaps(), configmap("a")).await;
    let stale = json!("1");
    t.put(t.widget("a"), with(widget("a"), "/metadata/resourceVersion", stale.clone())).await;
    t.put(t.configmap("a"), with(configmap("a"), "/metadata/resourceVersion", stale)).await;
}

pub(super) async fn stale_version_is_a_conflict_for_patches_that_carry_it(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.merge_patch(
        t.widget("a"),
        json!({"metadata": {"resourceVersion": "1"}, "spec": {"size": 2}}),
    )
    .await;
    let patch = json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "replace", "path": "/spec/size", "value": 2},
    ]);
    t.json_patch(t.widget("a"), patch).await;
    t.get(t.widget("a")).await;
}

pub(super) async fn second_of_two_writers_is_in_conflict(t: &mut Script) {
    let read = t.given(t.configmaps(), configmap("a")).await;
    t.put(t.configmap("a"), read.edited(|object| object["data"]["b"] = json!("first"))).await;
    t.put(t.configmap("a"), read.edited(|object| object["data"]["b"] = json!("second"))).await;
    t.get(t.configmap("a")).await;
}

pub(super) async fn version_that_is_no_number(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    let nonsense = json!("nonsense");
    t.put(t.configmap("a"), with(configmap("a"), "/metadata/resourceVersion", nonsense.clone()))
        .await;
    t.put(t.widget("a"), with(widget("a"), "/metadata/resourceVersion", nonsense)).await;
}

pub(super) async fn put_without_a_version_depends_on_the_kind(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.leases(), lease("a")).await;
    t.put(t.widget("a"), widget("a")).await;
    t.put(t.configmap("a"), with(configmap("a"), "/data/b", json!("2"))).await;
    t.put(format!("{}/a", t.leases()), lease("a")).await;
}

pub(super) async fn put_with_another_name(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.given(t.configmaps(), configmap("a")).await;
    t.put(t.widget("a"), widget("b")).await;
    t.put(t.configmap("a"), configmap("b")).await;
    t.put(t.configmap("a"), json!({"apiVersion": "v1", "kind": "ConfigMap"})).await;
}

pub(super) async fn object_of_another_namespace(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    let elsewhere = |object| with(object, "/metadata/namespace", json!("default"));
    t.post(t.configmaps(), elsewhere(configmap("b"))).await;
    t.post(t.widgets(), elsewhere(widget("b"))).await;
    t.put(t.configmap("a"), elsewhere(configmap("a"))).await;
}

pub(super) async fn put_with_another_uid(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    let read = t.given(t.widgets(), widget("a")).await;
    t.put(t.configmap("a"), with(configmap("a"), "/metadata/uid", json!(OTHER_UID))).await;
    t.put(t.widget("a"), read.edited(|object| object["metadata"]["uid"] = json!(OTHER_UID))).await;
}

pub(super) async fn post_to_a_name(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.post(t.configmap("a"), configmap("a")).await;
    t.post(t.widget("a"), widget("a")).await;
}

pub(super) async fn collection_can_be_neither_put_nor_patched(t: &mut Script) {
    t.install_widgets().await;
    for path in [t.configmaps(), t.widgets()] {
        t.put(path.clone(), json!({})).await;
        t.send(Request::patch(path, MERGE_PATCH, json!({}))).await;
    }
}

pub(super) async fn review_can_only_be_created(t: &mut Script) {
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    t.get(reviews).await;
    t.get(format!("{reviews}/a")).await;
    t.delete(reviews).await;
}

pub(super) async fn unknown_method(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let brew = Method::from_bytes(b"BREW").expect("BREW must be a valid method");
    t.send(Request::new(brew, t.configmap("a"))).await;
}

pub(super) async fn content_type_that_is_not_understood(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    let post = |path| Request::new(Method::POST, path).text("x").content_type("text/plain");
    t.send(post(t.configmaps())).await;
    t.send(post(t.widgets())).await;
    let put = Request::new(Method::PUT, t.configmap("a")).text("x");
    t.send(put.content_type("text/plain")).await;
}

pub(super) async fn patch_type_that_is_not_understood(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    for path in [t.configmap("a"), t.widget("a")] {
        t.send(Request::patch(path.clone(), "text/plain", json!({}))).await;
        t.send(Request::patch(path, "application/json", json!({}))).await;
    }
    let strategic = "application/strategic-merge-patch+json";
    t.send(Request::patch(t.widget("a"), strategic, json!({}))).await;
}

pub(super) async fn content_type_may_carry_a_charset(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let json = "application/json; charset=utf-8";
    t.send(Request::post(t.configmaps(), configmap("b")).content_type(json)).await;
    let patch = Request::new(Method::PATCH, t.configmap("a")).json(json!([]));
    t.send(patch.content_type("application/json-patch+json; charset=utf-8")).await;
}

pub(super) async fn body_without_a_content_type_is_json(t: &mut Script) {
    t.install_widgets().await;
    t.send(Request::new(Method::POST, t.configmaps()).text(&configmap("a").to_string())).await;
    t.send(Request::new(Method::POST, t.widgets()).text(&widget("a").to_string())).await;
}

pub(super) async fn representation_that_is_not_acceptable(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    for path in [t.configmap("a"), t.widget("a"), t.configmaps(), t.widgets()] {
        t.send(Request::get(path).accept("image/png")).await;
    }
    t.send(Request::get("/api/v1").accept("image/png")).await;
}

pub(super) async fn representation_is_the_first_that_is_understood(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    for accept in
        ["*/*", "application/*", "image/png, */*", "text/html, application/json;q=0.5", ""]
    {
        t.pick(Request::get(t.configmap("a")).accept(accept), &["/kind", "/metadata/name"]).await;
    }
}

pub(super) async fn patch_is_refused_before_the_object_is_looked_up(t: &mut Script) {
    t.install_widgets().await;
    t.send(Request::patch(t.widget("nope"), "text/plain", json!({}))).await;
    t.send(Request::new(Method::PATCH, t.configmap("nope")).text("{").content_type(JSON_PATCH))
        .await;
}

/// The answer has no `Status` with `retryAfterSeconds`: clients have to read the header.
pub(super) async fn overloaded_server_answers_in_plain_text(t: &mut Script) {
    t.overload_for_bob().await;
    let get = Request::get(t.configmap("a")).by(Who::Bob);
    let answer = t.crowd_until(get, "rejected", |answer| answer.status == 429).await;
    let header = answer.headers.get("x-content-type-options");
    let header = header.and_then(|value| value.to_str().ok());
    t.note("x-content-type-options", &json!(header));
}
