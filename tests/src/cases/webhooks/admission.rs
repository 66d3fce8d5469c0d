//! The reviews that webhooks receive, their order, and the effects of the answers.

use http::Method;
use serde_json::{Value, json};

use super::{Hooks, MUTATING, VALIDATING, rules, with};
use crate::Script;
use crate::fixtures::{GROUP, configmap, deployment, labelled_configmap, widget};
use crate::request::Request;
use crate::script::MERGE_PATCH;

pub(in crate::cases) async fn webhook_denies_with_a_status(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let hook = hooks.hook(t, "deny", "/deny");
    hooks.install(t, VALIDATING, "a", &[hook]).await;
    t.post(t.configmaps(), configmap("a")).await;
    t.get(t.configmap("a")).await;
    hooks.end(t).await;
}

pub(in crate::cases) async fn webhook_denies_with_few_words(t: &mut Script) {
    for (name, path) in [("silent", "/deny/silently"), ("reason", "/deny/reason")] {
        let mut hooks = Hooks::start().await;
        let hook = hooks.hook(t, name, path);
        hooks.install(t, MUTATING, name, &[hook]).await;
        t.post(t.configmaps(), configmap("a")).await;
        hooks.end(t).await;
    }
}

pub(in crate::cases) async fn webhook_changes_what_is_written(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let hook = hooks.hook(t, "note", "/note/x");
    hooks.install(t, MUTATING, "a", &[hook]).await;
    t.post(t.configmaps(), configmap("a")).await;
    t.merge_patch(t.configmap("a"), json!({"data": {"b": "2"}})).await;
    let held = t.get(t.configmap("a")).await;
    t.put(t.configmap("a"), held.edited(|object| object["data"]["b"] = "3".into())).await;
    t.json_patch(t.configmap("a"), json!([{"op": "remove", "path": "/data/b"}])).await;
    let applied = with(configmap("b"), "data", json!({"c": "4"}));
    t.apply(t.configmap("b"), "me", applied).await;
    hooks.end(t).await;
}

pub(in crate::cases) async fn reviews_of_all_verbs(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    for (collection, path) in [(MUTATING, "/allow/m"), (VALIDATING, "/allow/v")] {
        let hook = hooks.hook(t, "all", path);
        hooks.install(t, collection, "all", &[hook]).await;
    }
    t.given(t.configmaps(), configmap("a")).await;
    hooks.note(t);
    t.look(Request::patch(t.configmap("a"), MERGE_PATCH, json!({"data": {"a": "2"}}))).await;
    hooks.note(t);
    let path = format!("{}?dryRun=All&fieldManager=me", t.configmap("a"));
    t.look(Request::patch(path, MERGE_PATCH, json!({"data": {"a": "3"}}))).await;
    hooks.note(t);
    t.look(Request::delete(t.configmap("a")).json(json!({"propagationPolicy": "Background"})))
        .await;
    hooks.note(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn review_of_a_generated_name(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    for (collection, path) in [(MUTATING, "/allow/m"), (VALIDATING, "/allow/v")] {
        let hook = hooks.hook(t, "all", path);
        hooks.install(t, collection, "all", &[hook]).await;
    }
    let mut object = configmap("");
    object["metadata"] = json!({"generateName": "some-"});
    t.post(t.configmaps(), object).await;
    hooks.note(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn reviews_of_a_deleted_collection(t: &mut Script) {
    t.given_configmaps(&["a", "b", "c"]).await;
    let mut hooks = Hooks::start().await;
    let hook = hooks.hook(t, "all", "/allow");
    hooks.install(t, VALIDATING, "all", &[hook]).await;
    let named = format!("{}?fieldSelector=metadata.name!=kube-root-ca.crt", t.configmaps());
    t.look(Request::delete(named)).await;
    hooks.note(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn deletion_is_denied(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    let mut hooks = Hooks::start().await;
    let hook =
        with(hooks.hook(t, "deny", "/deny"), "rules", rules(&["DELETE"], "", &["configmaps"]));
    hooks.install(t, VALIDATING, "a", &[hook]).await;
    t.delete(t.configmap("a")).await;
    t.delete(format!("{}?labelSelector=!x", t.configmaps())).await;
    t.get(t.configmap("a")).await;
    hooks.end(t).await;
}

pub(in crate::cases) async fn warnings_of_webhooks(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    for (collection, path) in [(MUTATING, "/warn/m"), (VALIDATING, "/warn/v")] {
        let hook = hooks.hook(t, "warn", path);
        hooks.install(t, collection, "warn", &[hook]).await;
    }
    t.post(t.configmaps(), configmap("a")).await;
    hooks.note_paths(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn webhooks_are_called_in_the_order_of_their_names(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let (a, b) = (hooks.hook(t, "x", "/note/1"), hooks.hook(t, "a", "/note/2"));
    hooks.install(t, MUTATING, "b", &[a, b]).await;
    let (a, b) = (hooks.hook(t, "z", "/note/3"), hooks.hook(t, "b", "/note/4"));
    hooks.install(t, MUTATING, "a", &[a, b]).await;
    t.post(t.configmaps(), configmap("a")).await;
    hooks.note_paths(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn webhook_is_reinvoked_if_needed(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let again = |hook: Value| with(hook, "reinvocationPolicy", "IfNeeded".into());
    let all = [
        again(hooks.hook(t, "a", "/note/1")),
        hooks.hook(t, "b", "/note/2"),
        again(hooks.hook(t, "c", "/note/3")),
    ];
    hooks.install(t, MUTATING, "a", &all).await;
    t.post(t.configmaps(), configmap("a")).await;
    hooks.note_paths(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn webhook_is_not_reinvoked_without_need(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let again = |hook: Value| with(hook, "reinvocationPolicy", "IfNeeded".into());
    let all = [again(hooks.hook(t, "a", "/note-once")), again(hooks.hook(t, "b", "/allow"))];
    hooks.install(t, MUTATING, "a", &all).await;
    t.post(t.configmaps(), configmap("a")).await;
    hooks.note_paths(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn match_conditions_decide(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let conditions = json!([
        {"name": "labelled", "expression": "has(object.metadata.labels)"},
        {"name": "here", "expression": "request.operation == 'CREATE' && oldObject == null"},
    ]);
    let hook = with(hooks.hook(t, "deny", "/deny"), "matchConditions", conditions);
    hooks.install(t, VALIDATING, "a", &[hook]).await;
    t.post(t.configmaps(), labelled_configmap("a", "b", "c")).await;
    t.post(t.configmaps(), configmap("a")).await;
    t.merge_patch(t.configmap("a"), json!({"metadata": {"labels": {"b": "c"}}})).await;
    hooks.end(t).await;
}

pub(in crate::cases) async fn match_conditions_that_fail(t: &mut Script) {
    for (name, policy) in [("fail", "Fail"), ("ignore", "Ignore")] {
        let mut hooks = Hooks::start().await;
        let conditions = json!([{"name": "a", "expression": "object.data.missing == 'x'"}]);
        let hook = with(hooks.hook(t, name, "/deny"), "matchConditions", conditions);
        let hook = with(hook, "failurePolicy", policy.into());
        hooks.install(t, VALIDATING, name, &[hook]).await;
        t.post(t.configmaps(), configmap("a")).await;
        let matching = with(configmap("b"), "data", json!({"missing": "x"}));
        t.post(t.configmaps(), matching).await;
        hooks.end(t).await;
    }
}

pub(in crate::cases) async fn objects_are_selected_by_old_and_new_labels(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let selector = json!({"matchLabels": {"guarded": "yes"}});
    let hook = with(hooks.hook(t, "deny", "/deny"), "objectSelector", selector);
    let hook = with(hook, "rules", rules(&["UPDATE", "DELETE"], "", &["configmaps"]));
    hooks.install(t, VALIDATING, "a", &[hook]).await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.configmaps(), labelled_configmap("b", "guarded", "yes")).await;
    t.merge_patch(t.configmap("a"), json!({"data": {"a": "2"}})).await;
    t.merge_patch(t.configmap("a"), json!({"metadata": {"labels": {"guarded": "yes"}}})).await;
    t.merge_patch(t.configmap("b"), json!({"metadata": {"labels": null}})).await;
    t.delete(t.configmap("b")).await;
    t.delete(t.configmap("a")).await;
    hooks.end(t).await;
}

pub(in crate::cases) async fn namespaces_are_selected_by_labels(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let mut hook = hooks.hook(t, "deny", "/deny");
    hook["namespaceSelector"]["matchExpressions"] =
        json!([{"key": "guarded", "operator": "Exists"}]);
    hooks.install(t, VALIDATING, "a", &[hook]).await;
    t.post(t.configmaps(), configmap("a")).await;
    let namespace = format!("/api/v1/namespaces/{}", t.ns());
    let label = json!({"metadata": {"labels": {"guarded": ""}}});
    t.unrecorded(&Request::patch(namespace, MERGE_PATCH, label)).await;
    let again = Request::new(Method::POST, format!("{}?dryRun=All", t.configmaps()));
    let again = again.json(configmap("b"));
    t.wait_until(again, "denied", |answer| answer.status == 403).await;
    hooks.end(t).await;
}

pub(in crate::cases) async fn status_is_admitted_as_a_subresource(t: &mut Script) {
    t.install_widgets().await;
    let mut hooks = Hooks::start().await;
    let mut all = Vec::new();
    for (name, resource) in
        [("status", "widgets/status"), ("any", "widgets/*"), ("main", "widgets")]
    {
        let hook = hooks.hook(t, name, &format!("/allow/{name}"));
        all.push(with(hook, "rules", rules(&["*"], GROUP, &[resource])));
    }
    hooks.install(t, MUTATING, "a", &all).await;
    t.given(t.widgets(), widget("a")).await;
    hooks.note_paths(t);
    let status = format!("{}/status", t.widget("a"));
    t.look(Request::patch(status, MERGE_PATCH, json!({"status": {"phase": "x"}}))).await;
    hooks.note(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn scale_is_admitted_as_a_scale(t: &mut Script) {
    t.given(t.deployments(), deployment("a")).await;
    let mut hooks = Hooks::start().await;
    let scale = || rules(&["UPDATE"], "apps", &["deployments/scale"]);
    let hook = with(hooks.hook(t, "a", "/replicas"), "rules", scale());
    hooks.install(t, MUTATING, "a", &[hook]).await;
    let hook = with(hooks.hook(t, "a", "/allow"), "rules", scale());
    hooks.install(t, VALIDATING, "a", &[hook]).await;
    let path = format!("{}/a/scale", t.deployments());
    t.merge_patch(path, json!({"spec": {"replicas": 3}})).await;
    hooks.note_paths(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn equivalent_versions_match_unless_exact(t: &mut Script) {
    t.install_widgets().await;
    let mut hooks = Hooks::start().await;
    let in_v1 = json!([{"operations": ["CREATE"], "apiGroups": [GROUP], "apiVersions": ["v1"],
        "resources": ["widgets"]}]);
    let exact = with(hooks.hook(t, "exact", "/allow/exact"), "rules", in_v1.clone());
    let exact = with(exact, "matchPolicy", "Exact".into());
    let equivalent = with(hooks.hook(t, "equivalent", "/allow/equivalent"), "rules", in_v1);
    hooks.install(t, MUTATING, "a", &[exact, equivalent]).await;
    let object = with(widget("a"), "apiVersion", format!("{GROUP}/v2").into());
    t.look(Request::post(t.widgets_v2(), object)).await;
    hooks.note(t);
    hooks.end(t).await;
}

pub(in crate::cases) async fn mutated_custom_object_is_pruned_and_validated(t: &mut Script) {
    t.install_widgets().await;
    for (name, path) in [("bogus", "/patch/unknown"), ("label", "/patch/label")] {
        let mut hooks = Hooks::start().await;
        let hook = hooks.hook(t, name, path);
        let hook = with(hook, "rules", rules(&["CREATE"], GROUP, &["widgets"]));
        hooks.install(t, MUTATING, name, &[hook]).await;
        t.post(t.widgets(), widget(name)).await;
        hooks.end(t).await;
    }
}
