//! Bodies that are malformed, of another kind, or too large; unknown fields.

use http::Method;
use serde_json::json;

use crate::Script;
use crate::fixtures::{configmap, widget, with};
use crate::request::Request;

/// The real server reads at most three mebibytes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

fn post(path: String, body: &str) -> Request {
    Request::new(Method::POST, path).text(body).content_type("application/json")
}

pub(super) async fn body_that_is_not_json(t: &mut Script) {
    t.install_widgets().await;
    for path in [t.configmaps(), t.widgets()] {
        t.send(post(path.clone(), r#"{"apiVersion":"#)).await;
        t.refused(post(path, "hello")).await;
    }
}

pub(super) async fn body_that_is_empty(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    for path in [t.configmaps(), t.widgets()] {
        t.send(Request::new(Method::POST, path).content_type("application/json")).await;
    }
    t.send(Request::new(Method::PUT, t.configmap("a")).content_type("application/json")).await;
}

pub(super) async fn body_that_is_json_but_no_object(t: &mut Script) {
    t.install_widgets().await;
    for path in [t.configmaps(), t.widgets()] {
        for body in ["[]", r#""text""#, "null"] {
            t.refused(post(path.clone(), body)).await;
        }
    }
}

pub(super) async fn body_of_another_kind(t: &mut Script) {
    t.install_widgets().await;
    for kind in ["Secret", "Nonsense"] {
        let object = with(configmap("a"), "/kind", json!(kind));
        t.refused(Request::post(t.configmaps(), object)).await;
    }
    t.post(t.widgets(), with(widget("a"), "/kind", json!("Gadget"))).await;
    t.post(t.widgets(), configmap("a")).await;
}

pub(super) async fn body_of_another_version(t: &mut Script) {
    t.install_widgets().await;
    let object = with(configmap("a"), "/apiVersion", json!("v9"));
    t.refused(Request::post(t.configmaps(), object)).await;
    let of_v2 = with(widget("a"), "/apiVersion", json!("conformance.windlass.dev/v2"));
    t.post(t.widgets(), of_v2).await;
}

pub(super) async fn kind_is_filled_in_for_built_ins_only(t: &mut Script) {
    t.install_widgets().await;
    t.post(t.configmaps(), json!({"metadata": {"name": "a"}})).await;
    t.post(t.widgets(), json!({"metadata": {"name": "a"}, "spec": {"size": 1}})).await;
    t.post(t.widgets(), json!({"kind": "Widget", "metadata": {"name": "a"}})).await;
}

pub(super) async fn metadata_of_the_wrong_shape(t: &mut Script) {
    t.install_widgets().await;
    for object in [
        with(widget("a"), "/metadata", json!("text")),
        with(widget("a"), "/metadata/labels", json!({"a": 1})),
    ] {
        t.refused(Request::post(t.widgets(), object)).await;
    }
    let mut without = widget("a");
    without.as_object_mut().expect("a widget must be an object").remove("metadata");
    t.post(t.widgets(), without).await;
}

pub(super) async fn body_that_is_too_large(t: &mut Script) {
    t.install_widgets().await;
    for path in [t.configmaps(), t.widgets()] {
        let body = " ".repeat(BODY_LIMIT + 1);
        let request = Request::new(Method::POST, path).content_type("application/json");
        t.send(request.large(body, "3 MiB and one blank")).await;
    }
}

pub(super) async fn unknown_field_is_dropped_with_a_warning(t: &mut Script) {
    t.install_widgets().await;
    let two = |object| with(with(object, "/spec/bogus", json!(1)), "/more", json!({"x": 1}));
    t.post(t.widgets(), two(widget("a"))).await;
    t.post(t.configmaps(), with(configmap("a"), "/bogus", json!(1))).await;
    t.post(t.configmaps(), with(configmap("b"), "/metadata/bogus", json!(1))).await;
    let read = t.get(t.widget("a")).await;
    t.put(t.widget("a"), read.edited(|object| object["spec"]["bogus"] = json!(2))).await;
}

pub(super) async fn unknown_field_is_refused_if_strict(t: &mut Script) {
    t.install_widgets().await;
    let strict = |path: String| format!("{path}?fieldValidation=Strict");
    let two = |object| with(with(object, "/spec/bogus", json!(1)), "/more", json!({"x": 1}));
    t.post(strict(t.widgets()), two(widget("a"))).await;
    t.post(strict(t.widgets()), with(widget("a"), "/metadata/bogus", json!(1))).await;
    t.post(strict(t.configmaps()), with(configmap("a"), "/bogus", json!(1))).await;
    t.post(strict(t.widgets()), widget("a")).await;
}

pub(super) async fn unknown_field_is_dropped_in_silence_if_ignored(t: &mut Script) {
    t.install_widgets().await;
    let ignore = |path: String| format!("{path}?fieldValidation=Ignore");
    t.post(ignore(t.widgets()), with(widget("a"), "/spec/bogus", json!(1))).await;
    t.post(ignore(t.configmaps()), with(configmap("a"), "/bogus", json!(1))).await;
}

pub(super) async fn unknown_field_inside_lists_is_named_with_its_index(t: &mut Script) {
    t.install_widgets().await;
    let parts = json!([{"name": "x"}, {"name": "y", "bogus": 1}]);
    let object = with(
        with(widget("a"), "/spec/parts", parts),
        "/spec/endpoint",
        json!({
            "host": "h", "bogus": 1,
        }),
    );
    t.post(t.widgets(), object.clone()).await;
    t.post(
        format!("{}?fieldValidation=Strict", t.widgets()),
        with(object, "/metadata/name", json!("b")),
    )
    .await;
}

pub(super) async fn field_validation_of_an_unknown_sort(t: &mut Script) {
    t.post(format!("{}?fieldValidation=Nonsense", t.configmaps()), configmap("a")).await;
    t.given(t.configmaps(), configmap("a")).await;
    let patch = json!({"data": {"b": "2"}});
    t.merge_patch(format!("{}?fieldValidation=Nonsense", t.configmap("a")), patch).await;
}

pub(super) async fn duplicate_field_warns_and_the_last_wins(t: &mut Script) {
    t.install_widgets().await;
    let twice = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1"},"data":{"a":"2"}}"#;
    t.send(post(t.configmaps(), twice)).await;
    let twice = r#"{"apiVersion":"conformance.windlass.dev/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"size":2}}"#;
    t.send(post(t.widgets(), twice)).await;
    t.send(post(format!("{}?fieldValidation=Strict", t.widgets()), twice)).await;
}

pub(super) async fn field_manager_that_is_too_long(t: &mut Script) {
    let manager = "x".repeat(129);
    t.post(format!("{}?fieldManager={manager}", t.configmaps()), configmap("a")).await;
}

pub(super) async fn unknown_query_parameter_is_ignored(t: &mut Script) {
    t.post(format!("{}?nonsense=1&timeout=5s", t.configmaps()), configmap("a")).await;
    t.get(format!("{}?&nonsense=1&pretty=false", t.configmap("a"))).await;
}
