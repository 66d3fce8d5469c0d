//! JSON merge patches and JSON patches.

use http::Method;
use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::{configmap, widget};
use crate::request::Request;
use crate::script::{JSON_PATCH, MERGE_PATCH};

async fn given_widget(t: &mut Script) {
    t.install_widgets().await;
    let mut object = widget("a");
    object["metadata"]["labels"] = json!({"l": "1"});
    object["spec"]["tags"] = json!(["x", "y"]);
    object["spec"]["extra"] = json!({"a/b": 1, "deep": {"er": 2}});
    t.given(t.widgets(), object).await;
}

async fn try_json_patches(t: &mut Script, patches: impl IntoIterator<Item = Value>) {
    for patch in patches {
        t.json_patch(t.widget("a"), patch).await;
    }
}

pub(super) async fn merge_patch_sets_removes_and_replaces(t: &mut Script) {
    given_widget(t).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 2, "label": "new"}})).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"label": null, "tags": ["z"]}})).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"labels": {"l": null, "m": "2"}}})).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"extra": {"deep": {"er": null, "est": 3}}}}))
        .await;
    t.merge_patch(t.widget("a"), json!({"spec": {"extra": null}})).await;
}

pub(super) async fn merge_patch_of_a_built_in(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    t.merge_patch(t.configmap("a"), json!({"data": {"a": null, "b": "2"}})).await;
    t.merge_patch(t.configmap("a"), json!({"data": null})).await;
    t.merge_patch(t.configmap("a"), json!({"bogus": 1})).await;
}

pub(super) async fn merge_patch_that_is_broken(t: &mut Script) {
    given_widget(t).await;
    t.given(t.configmaps(), configmap("a")).await;
    for path in [t.widget("a"), t.configmap("a")] {
        for body in ["{", "[]", "null", ""] {
            let request = Request::new(Method::PATCH, path.clone()).text(body);
            t.refused(request.content_type(MERGE_PATCH)).await;
        }
    }
}

pub(super) async fn merge_patch_cannot_change_the_identity(t: &mut Script) {
    given_widget(t).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"name": "b"}})).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"namespace": "default"}})).await;
    t.merge_patch(t.widget("a"), json!({"metadata": {"uid": "x"}})).await;
    t.merge_patch(t.widget("a"), json!({"kind": "Gadget"})).await;
    t.merge_patch(t.widget("a"), json!({"apiVersion": "conformance.windlass.dev/v2"})).await;
}

pub(super) async fn merge_patch_with_the_right_version_succeeds(t: &mut Script) {
    let read = t.given(t.configmaps(), configmap("a")).await;
    let metadata = json!({"resourceVersion": read.version(), "uid": read.uid()});
    t.merge_patch(t.configmap("a"), json!({"metadata": metadata, "data": {"b": "2"}})).await;
    t.merge_patch(t.configmap("a"), json!({"metadata": metadata, "data": {"b": "3"}})).await;
}

pub(super) async fn merge_patch_with_an_unknown_field(t: &mut Script) {
    given_widget(t).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"bogus": 1, "size": 2}})).await;
    let strict = format!("{}?fieldValidation=Strict", t.widget("a"));
    // The message quotes the whole patched object.
    let parts = ["/reason", "/code", "/details/causes/0/field", "/details/causes/0/reason"];
    let request = Request::patch(strict, MERGE_PATCH, json!({"spec": {"bogus": 1}}));
    let answer = t.pick(request, &parts).await;
    let message = answer.at("/message").as_str().unwrap_or_default().to_owned();
    t.note("quotes the unknown field", &json!(message.contains(r#"\"bogus\":1"#)));
}

pub(super) async fn patch_with_a_value_of_a_wrong_type(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    // The message quotes the whole patched object, with its managed fields.
    let parts = ["/reason", "/code", "/details/causes/0/field", "/details/causes/0/reason"];
    let merge = json!({"data": {"a": 1}});
    t.pick(Request::patch(t.configmap("a"), MERGE_PATCH, merge), &parts).await;
    let json = json!([{"op": "add", "path": "/metadata/labels", "value": ["a"]}]);
    t.pick(Request::patch(t.configmap("a"), JSON_PATCH, json), &parts).await;
}

pub(super) async fn json_patch_knows_all_operations(t: &mut Script) {
    given_widget(t).await;
    try_json_patches(
        t,
        [
            json!([{"op": "add", "path": "/spec/label", "value": "new"}]),
            json!([{"op": "replace", "path": "/spec/size", "value": 2}]),
            json!([{"op": "remove", "path": "/spec/label"}]),
            json!([{"op": "add", "path": "/spec/tags/-", "value": "z"}]),
            json!([{"op": "add", "path": "/spec/tags/0", "value": "w"}]),
            json!([{"op": "remove", "path": "/spec/tags/1"}]),
            json!([{"op": "copy", "from": "/spec/tags/0", "path": "/spec/tags/1"}]),
            json!([{"op": "move", "from": "/spec/extra/deep", "path": "/spec/extra/deeper"}]),
            json!([{"op": "test", "path": "/spec/size", "value": 2}]),
            json!([{"op": "remove", "path": "/spec/extra/a~1b"}]),
        ],
    )
    .await;
}

pub(super) async fn json_patch_test_that_fails(t: &mut Script) {
    given_widget(t).await;
    t.given(t.configmaps(), configmap("a")).await;
    let patch = json!([
        {"op": "replace", "path": "/spec/size", "value": 2},
        {"op": "test", "path": "/spec/color", "value": "blue"},
    ]);
    t.json_patch(t.widget("a"), patch).await;
    t.get(t.widget("a")).await;
    let patch = json!([{"op": "test", "path": "/data/a", "value": "2"}]);
    t.json_patch(t.configmap("a"), patch).await;
    let patch = json!([{"op": "test", "path": "/data/absent", "value": "2"}]);
    t.json_patch(t.configmap("a"), patch).await;
}

pub(super) async fn json_patch_of_a_path_that_does_not_exist(t: &mut Script) {
    given_widget(t).await;
    try_json_patches(
        t,
        [
            json!([{"op": "remove", "path": "/spec/absent"}]),
            json!([{"op": "replace", "path": "/spec/absent", "value": 1}]),
            json!([{"op": "add", "path": "/spec/absent/deeper", "value": 1}]),
            json!([{"op": "add", "path": "/spec/tags/9", "value": "x"}]),
            json!([{"op": "copy", "from": "/spec/absent", "path": "/spec/label"}]),
        ],
    )
    .await;
}

pub(super) async fn json_patch_that_is_broken(t: &mut Script) {
    given_widget(t).await;
    for body in ["{", "{}", r#""text""#, ""] {
        let request = Request::new(Method::PATCH, t.widget("a")).text(body);
        t.refused(request.content_type(JSON_PATCH)).await;
    }
    try_json_patches(
        t,
        [
            json!([{"op": "explode", "path": "/spec/size"}]),
            json!([{"path": "/spec/size", "value": 1}]),
        ],
    )
    .await;
}

pub(super) async fn json_patch_adds_a_finalizer_as_controllers_do(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let add = json!([
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.dev/f"]},
    ]);
    t.json_patch(t.configmap("a"), add.clone()).await;
    t.json_patch(t.configmap("a"), add).await;
    let remove = json!([
        {"op": "test", "path": "/metadata/finalizers/0", "value": "example.dev/f"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]);
    t.json_patch(t.configmap("a"), remove).await;
}

pub(super) async fn json_patch_of_the_status(t: &mut Script) {
    given_widget(t).await;
    let patch = json!([
        {"op": "add", "path": "/status", "value": {"phase": "Ready"}},
        {"op": "replace", "path": "/spec/size", "value": 9},
    ]);
    t.json_patch(format!("{}/status", t.widget("a")), patch).await;
}
