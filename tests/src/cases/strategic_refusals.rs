//! Strategic merge patches that are rejected or lead to warnings.

use http::Method;
use serde_json::{Value, json};

use super::strategic::rich_deployment;
use crate::Script;
use crate::fixtures::{configmap, pod, with};
use crate::request::Request;
use crate::script::STRATEGIC_PATCH;

async fn given_deployment(t: &mut Script) -> String {
    t.given(t.deployments(), rich_deployment()).await;
    format!("{}/a", t.deployments())
}

/// Sends patches of a deployment's pod spec, and records the complete answers.
async fn refuse(t: &mut Script, path: &str, changes: impl IntoIterator<Item = Value>) {
    for change in changes {
        let change = json!({"spec": {"template": {"spec": change}}});
        t.send(Request::patch(path, STRATEGIC_PATCH, change)).await;
    }
}

pub(super) async fn strategic_patch_of_what_is_missing(t: &mut Script) {
    let change = json!({"data": {"b": "2"}});
    t.send(Request::patch(t.configmap("absent"), STRATEGIC_PATCH, change)).await;
}

pub(super) async fn strategic_patch_that_is_broken(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    for body in ["[]", "\"text\"", "7", ""] {
        let request = Request::new(Method::PATCH, t.configmap("a")).text(body);
        t.send(request.content_type(STRATEGIC_PATCH)).await;
    }
    let request = Request::new(Method::PATCH, t.configmap("a")).text("{");
    t.refused(request.content_type(STRATEGIC_PATCH)).await;
}

pub(super) async fn strategic_patch_without_the_merge_key(t: &mut Script) {
    let path = given_deployment(t).await;
    let changes = [
        json!({"containers": [{"image": "x:1"}]}),
        json!({"containers": [{"$patch": "delete", "image": "x:1"}]}),
        json!({"containers": [{"$patch": "replace"}, {"image": "x:1"}]}),
        json!({"$setElementOrder/containers": [{"image": "x"}], "containers": [{"name": "main"}]}),
    ];
    refuse(t, &path, changes).await;
}

pub(super) async fn strategic_patch_with_an_unknown_directive(t: &mut Script) {
    let path = given_deployment(t).await;
    let changes = [
        json!({"nodeSelector": {"$patch": "explode"}}),
        json!({"nodeSelector": {"$patch": "merge", "a": "b"}}),
        json!({"nodeSelector": {"$patch": 1}}),
        json!({"containers": [{"$patch": "explode", "name": "main"}]}),
        json!({"containers": [{"$patch": "merge", "name": "main"}]}),
    ];
    refuse(t, &path, changes).await;
}

pub(super) async fn strategic_patch_with_items_that_are_out_of_order(t: &mut Script) {
    let path = given_deployment(t).await;
    let changes = [
        json!({
            "$setElementOrder/containers": [{"name": "side"}],
            "containers": [{"name": "main", "image": "main:2"}],
        }),
        json!({
            "$setElementOrder/containers": [{"name": "side"}, {"name": "main"}],
            "containers": [{"name": "main", "image": "x:1"}, {"name": "side", "image": "x:1"}],
        }),
        json!({"$setElementOrder/containers": {"name": "side"}}),
        json!({"$setElementOrder/containers": null}),
        json!({"$setElementOrder": []}),
        json!({"$setElementOrderOf/containers": []}),
        json!({"$setElementOrder/containers": ["main"], "containers": [{"name": "main"}]}),
    ];
    refuse(t, &path, changes).await;
}

pub(super) async fn strategic_patch_with_an_order_of_what_is_no_list(t: &mut Script) {
    let path = given_deployment(t).await;
    let changes = [
        json!({"$setElementOrder/bogus": []}),
        json!({"$setElementOrder/hostname": []}),
        json!({"$setElementOrder/nodeSelector": []}),
        json!({"$setElementOrder/hostAliases": [{"ip": "1.2.3.4"}]}),
        json!({"$setElementOrder/hostAliases": [], "hostAliases": []}),
    ];
    refuse(t, &path, changes).await;
}

pub(super) async fn strategic_patch_with_wrong_keys_to_retain(t: &mut Script) {
    let path = given_deployment(t).await;
    for strategy in [
        json!({"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        json!({"$retainKeys": "type", "type": "Recreate"}),
        json!({"$retainKeys": ["rollingUpdate"], "type": "Recreate"}),
    ] {
        let change = json!({"spec": {"strategy": strategy}});
        t.send(Request::patch(&path, STRATEGIC_PATCH, change)).await;
    }
}

pub(super) async fn strategic_patch_with_values_to_delete_from_the_wrong_list(t: &mut Script) {
    let path = given_deployment(t).await;
    let changes = [
        json!({"$deleteFromPrimitiveList": ["x"]}),
        json!({"$deleteFromPrimitiveList/bogus": ["x"]}),
        json!({"$deleteFromPrimitiveList/tolerations": [{"key": "a"}]}),
        json!({"$deleteFromPrimitiveList/containers": ["main"]}),
    ];
    refuse(t, &path, changes).await;
    let args = json!({"containers": [{"name": "main", "$deleteFromPrimitiveList/args": ["one"]}]});
    let change = json!({"spec": {"template": {"spec": args}}});
    let shown = ["/spec/template/spec/containers/0/args", "/message"];
    t.pick(Request::patch(&path, STRATEGIC_PATCH, change), &shown).await;
}

pub(super) async fn strategic_patch_with_lists_of_several_types(t: &mut Script) {
    let object = with(configmap("a"), "/metadata/finalizers", json!(["example.dev/a"]));
    t.given(t.configmaps(), object).await;
    for finalizers in [json!([1]), json!([{"a": "b"}]), json!([["x"]]), json!(["x", null])] {
        let change = json!({"metadata": {"finalizers": finalizers}});
        t.send(Request::patch(t.configmap("a"), STRATEGIC_PATCH, change)).await;
    }
    let change = json!({"metadata": {"finalizers": null}});
    t.look(Request::patch(t.configmap("a"), STRATEGIC_PATCH, change)).await;
    for finalizers in [json!([["x"]]), json!([1])] {
        let change = json!({"metadata": {"finalizers": finalizers}});
        t.send(Request::patch(t.configmap("a"), STRATEGIC_PATCH, change)).await;
    }
}

pub(super) async fn strategic_patch_with_values_of_a_wrong_type(t: &mut Script) {
    let path = given_deployment(t).await;
    for spec in [
        json!({"replicas": "two"}),
        json!({"replicas": 1.5}),
        json!({"replicas": {}}),
        json!({"paused": "yes"}),
        json!({"template": "x"}),
        json!({"template": {"metadata": {"labels": ["a"]}}}),
        json!({"template": {"spec": {"containers": "x"}}}),
        json!({"template": {"spec": {"hostname": 1}}}),
        json!({"template": {"spec": {"hostname": true}}}),
        json!({"template": {"spec": {"containers": [{"name": "main", "imagePullPolicy": 1}]}}}),
        json!({"strategy": {"rollingUpdate": {"maxSurge": true}}}),
    ] {
        t.send(Request::patch(&path, STRATEGIC_PATCH, json!({ "spec": spec }))).await;
    }
    let change = json!({"metadata": {"creationTimestamp": 1}});
    t.send(Request::patch(&path, STRATEGIC_PATCH, change)).await;
    let change = json!({"metadata": {"creationTimestamp": "yesterday"}});
    t.send(Request::patch(&path, STRATEGIC_PATCH, change)).await;
}

pub(super) async fn strategic_patch_with_unknown_fields(t: &mut Script) {
    let path = given_deployment(t).await;
    let change = json!({
        "bogus": 1,
        "spec": {"template": {"spec": {"containers": [{"name": "side", "bogus": "x"}]}}},
    });
    let shown = ["/spec/template/spec/containers/1", "/message", "/reason", "/code"];
    for validation in ["", "?fieldValidation=Warn", "?fieldValidation=Ignore"] {
        let path = format!("{path}{validation}");
        t.pick(Request::patch(path, STRATEGIC_PATCH, change.clone()), &shown).await;
    }
    let strict = format!("{path}?fieldValidation=Strict");
    t.send(Request::patch(&strict, STRATEGIC_PATCH, change)).await;
    let twice = r#"{"metadata": {"labels": {"a": "b"}, "labels": {"c": "d"}}}"#;
    for path in [path, strict] {
        let request = Request::new(Method::PATCH, path).text(twice).content_type(STRATEGIC_PATCH);
        t.pick(request, &["/metadata/labels", "/message", "/reason", "/code"]).await;
    }
}

pub(super) async fn strategic_patch_is_validated(t: &mut Script) {
    let path = given_deployment(t).await;
    refuse(
        t,
        &path,
        [json!({"containers": [{"name": "main", "image": null}]}), json!({"containers": null})],
    )
    .await;
    let change = json!({"spec": {"replicas": -1}});
    t.send(Request::patch(&path, STRATEGIC_PATCH, change)).await;
}

pub(super) async fn strategic_patch_cannot_change_the_identity(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    for change in [
        json!({"metadata": {"name": "b"}}),
        json!({"metadata": {"namespace": "default"}}),
        json!({"$patch": "delete"}),
        json!({"$patch": "replace", "metadata": {"name": "a"}, "data": {"x": "y"}}),
    ] {
        t.send(Request::patch(t.configmap("a"), STRATEGIC_PATCH, change)).await;
    }
}

pub(super) async fn strategic_patch_of_what_a_pod_may_not_change(t: &mut Script) {
    t.given(t.pods(), pod("a")).await;
    let path = format!("{}/a", t.pods());
    let change = json!({"spec": {"containers": [{"name": "main", "image": "main:2"}]}});
    let shown = ["/spec/containers/0/image", "/message"];
    t.pick(Request::patch(path, STRATEGIC_PATCH, change), &shown).await;
}
