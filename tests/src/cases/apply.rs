//! Server-side apply: merging, managers and conflicts.
//!
//! Objects are created with a `fieldManager` here, because the embedded server records the manager
//! only of requests that name one.

use http::Method;
use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{GADGETS, OTHER_UID, configmap, deployment, gadget, widget, with};
use crate::request::Request;
use crate::script::{APPLY, JSON_PATCH, MERGE_PATCH};

/// The definition of `tools`, with lists of every type.
fn tools() -> Value {
    let text = json!({"type": "string"});
    let part = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": text,
            "zone": {"type": "string", "default": "here"},
            "size": {"type": "integer"},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        },
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "title": text,
            "size": {"type": "integer", "default": 1},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "zone"],
                "items": part,
            },
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "order": {"type": "array", "items": text},
            "labels": {"type": "object", "additionalProperties": text},
            "whole": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "additionalProperties": text,
            },
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "nested": {"type": "object", "properties": {"a": text, "b": text}},
        },
    });
    let status = json!({
        "type": "object",
        "properties": {
            "phase": text,
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type"],
                    "properties": {"type": text, "status": text},
                },
            },
        },
    });
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "tools.apply.windlass.dev"},
        "spec": {
            "group": "apply.windlass.dev",
            "scope": "Namespaced",
            "names": {"plural": "tools", "kind": "Tool"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}

fn tool(spec: Value) -> Value {
    let mut tool = json!({
        "apiVersion": "apply.windlass.dev/v1",
        "kind": "Tool",
        "metadata": {"name": "a"},
    });
    if !spec.is_null() {
        tool["spec"] = spec;
    }
    tool
}

/// A config map with nothing but a name.
pub(super) fn bare() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
}

fn data(data: Value) -> Value {
    with(bare(), "/data", data)
}

impl Script {
    fn tool(&self) -> String {
        format!("/apis/apply.windlass.dev/v1/namespaces/{}/tools/a", self.ns())
    }

    async fn install_tools(&mut self) {
        self.install(tools(), &["/apis/apply.windlass.dev/v1/tools"]).await;
    }

    /// Creates an object with a field manager.
    pub(super) async fn create_as(
        &mut self,
        collection: String,
        manager: &str,
        object: Value,
    ) -> Answer {
        self.post(format!("{collection}?fieldManager={manager}"), object).await
    }

    /// Sends a merge patch with a field manager.
    pub(super) async fn patch_as(&mut self, path: String, manager: &str, change: Value) -> Answer {
        self.merge_patch(format!("{path}?fieldManager={manager}"), change).await
    }

    /// Applies one configuration after the other, and records the managers after each.
    pub(super) async fn apply_all(&mut self, path: &str, manager: &str, configs: &[Value]) {
        for config in configs {
            self.apply(path, manager, config.clone()).await;
        }
        self.managers(path).await;
    }
}

pub(super) async fn apply_creates_and_changes_and_removes(t: &mut Script) {
    let path = t.configmap("a");
    t.apply(&path, "one", data(json!({"a": "1", "b": "1"}))).await;
    t.managers(&path).await;
    t.apply(&path, "one", data(json!({"a": "2", "c": "1"}))).await;
    t.managers(&path).await;
    t.apply(&path, "one", bare()).await;
    t.managers(&path).await;
}

pub(super) async fn apply_that_changes_nothing_keeps_the_version(t: &mut Script) {
    let path = t.configmap("a");
    let config = with(data(json!({"a": "1"})), "/metadata/labels", json!({"l": "1"}));
    t.apply(&path, "one", config.clone()).await;
    t.apply(&path, "one", config.clone()).await;
    t.apply_by_force(&path, "one", config.clone()).await;
    t.apply(&path, "two", config.clone()).await;
    t.apply(&path, "two", config).await;
    t.managers(&path).await;
}

pub(super) async fn apply_conflicts_with_another_manager(t: &mut Script) {
    let path = t.configmap("a");
    t.apply(&path, "one", data(json!({"a": "1", "b": "1"}))).await;
    t.apply(&path, "two", data(json!({"a": "2"}))).await;
    t.apply(&path, "two", data(json!({"a": "2", "b": "2"}))).await;
    t.apply(&path, "two", data(json!({"a": "1", "c": "1"}))).await;
    t.managers(&path).await;
    t.apply_by_force(&path, "two", data(json!({"a": "2", "c": "1"}))).await;
    t.managers(&path).await;
    t.apply(&path, "one", data(json!({"b": "1"}))).await;
    t.apply(&path, "one", data(json!({"a": "2", "b": "1"}))).await;
    t.managers(&path).await;
}

pub(super) async fn apply_conflicts_with_several_managers(t: &mut Script) {
    let path = t.configmap("a");
    t.apply(&path, "one", data(json!({"a": "1"}))).await;
    t.apply(&path, "two", data(json!({"b": "1"}))).await;
    // The order of the causes is random.
    let request = Script::applying(&path, "three", data(json!({"a": "2", "b": "2"})));
    t.pick(request, &["/message", "/code", "/reason"]).await;
}

pub(super) async fn apply_conflicts_with_what_was_written_otherwise(t: &mut Script) {
    let path = t.configmap("a");
    t.create_as(t.configmaps(), "creator", data(json!({"a": "1", "b": "1"}))).await;
    t.managers(&path).await;
    t.apply(&path, "one", data(json!({"a": "2"}))).await;
    t.apply(&path, "one", data(json!({"a": "1"}))).await;
    t.patch_as(path.clone(), "patcher", json!({"data": {"a": "3", "c": "1"}})).await;
    t.managers(&path).await;
    t.apply(&path, "one", data(json!({"a": "1"}))).await;
    let read = t.get(&path).await;
    let edited = read.edited(|object| object["data"] = json!({"a": "3", "d": "1"}));
    t.put(format!("{path}?fieldManager=putter"), edited).await;
    t.managers(&path).await;
    t.apply_by_force(&path, "one", data(json!({"a": "1", "d": "2"}))).await;
    t.managers(&path).await;
}

pub(super) async fn json_patch_takes_part_in_management(t: &mut Script) {
    let path = t.configmap("a");
    t.apply(&path, "one", data(json!({"a": "1", "b": "1"}))).await;
    let change = json!([
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "remove", "path": "/data/b"},
    ]);
    let request = Request::patch(format!("{path}?fieldManager=two"), JSON_PATCH, change);
    t.send(request).await;
    t.managers(&path).await;
    t.apply(&path, "one", data(json!({"b": "1"}))).await;
    t.managers(&path).await;
}

pub(super) async fn apply_to_an_object_without_managers(t: &mut Script) {
    let path = t.configmap("a");
    t.create_as(t.configmaps(), "creator", data(json!({"a": "1", "b": "1"}))).await;
    t.patch_as(path.clone(), "one", json!({"metadata": {"managedFields": [{}]}})).await;
    t.managers(&path).await;
    t.apply(&path, "one", data(json!({"a": "2"}))).await;
    t.apply(&path, "one", data(json!({"a": "1", "c": "1"}))).await;
    t.managers(&path).await;
    t.apply(&path, "one", data(json!({}))).await;
    t.managers(&path).await;
}

pub(super) async fn managers_survive_who_does_not_know_them(t: &mut Script) {
    let path = t.configmap("a");
    t.apply(&path, "one", data(json!({"a": "1"}))).await;
    t.put(format!("{path}?fieldManager=two"), data(json!({"a": "1", "b": "1"}))).await;
    t.managers(&path).await;
    t.put(format!("{path}?fieldManager=two"), data(json!({"a": "1", "b": "1"}))).await;
    t.patch_as(path.clone(), "two", json!({"metadata": {"managedFields": []}})).await;
    t.managers(&path).await;
    t.patch_as(path.clone(), "two", json!({"data": {"c": "1"}})).await;
    t.managers(&path).await;
}

pub(super) async fn apply_that_is_not_allowed(t: &mut Script) {
    let path = t.configmap("a");
    t.send(Request::patch(&path, APPLY, configmap("a"))).await;
    t.send(Request::patch(format!("{path}?fieldManager=one&dryRun=Some"), APPLY, configmap("a")))
        .await;
    t.send(Request::patch(format!("{path}?force=true"), MERGE_PATCH, json!({}))).await;
    t.apply(&path, "one", json!({"apiVersion": "v1", "metadata": {"name": "a"}})).await;
    t.apply(&path, "one", json!({"kind": "ConfigMap", "metadata": {"name": "a"}})).await;
    t.apply(&path, "one", json!({})).await;
    t.apply(&path, "one", deployment("a")).await;
    t.apply(&path, "one", configmap("b")).await;
    let elsewhere = with(configmap("a"), "/metadata/namespace", json!("default"));
    t.apply(&path, "one", elsewhere).await;
    t.apply(&path, "one", json!({"apiVersion": "v1", "kind": "ConfigMap"})).await;
    for managers in [json!([]), json!([{}])] {
        let config = with(configmap("a"), "/metadata/managedFields", managers);
        t.apply(&path, "one", config).await;
    }
    let nobody = with(configmap("a"), "/metadata/managedFields", json!(null));
    t.apply(format!("{path}?dryRun=All"), "one", nobody).await;
    t.get(&path).await;
}

pub(super) async fn apply_body_that_is_broken(t: &mut Script) {
    let path = format!("{}?fieldManager=one", t.configmap("a"));
    for body in ["[]", "x", "{", ""] {
        let request = Request::new(Method::PATCH, path.clone()).text(body).content_type(APPLY);
        t.refused(request).await;
    }
}

pub(super) async fn apply_of_yaml(t: &mut Script) {
    let path = format!("{}?fieldManager=one", t.configmap("a"));
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {l: \"1\"}\ndata:\n  a: x\n";
    let request = Request::new(Method::PATCH, path).text(body).content_type(APPLY);
    t.send(request).await;
    t.managers(t.configmap("a")).await;
}

pub(super) async fn apply_with_a_version_or_a_uid(t: &mut Script) {
    let path = t.configmap("a");
    let versioned =
        |value: Value| with(data(json!({"a": "1"})), "/metadata/resourceVersion", value);
    let identified = |value: Value| with(data(json!({"a": "1"})), "/metadata/uid", value);
    t.apply(&path, "one", identified(json!(OTHER_UID))).await;
    t.apply(&path, "one", versioned(json!("1"))).await;
    let made = t.apply(&path, "one", data(json!({"a": "1"}))).await;
    t.apply(&path, "one", versioned(json!(made.version()))).await;
    t.apply(&path, "one", identified(json!(made.uid()))).await;
    t.apply(&path, "one", data(json!({"a": "2"}))).await;
    t.apply(&path, "one", versioned(json!(made.version()))).await;
    t.apply(&path, "one", identified(json!(OTHER_UID))).await;
    t.managers(&path).await;
}

pub(super) async fn dry_apply_stores_nothing(t: &mut Script) {
    let path = t.configmap("a");
    let dry = format!("{path}?dryRun=All");
    t.apply(&dry, "one", data(json!({"a": "1"}))).await;
    t.get(&path).await;
    t.apply(&path, "one", data(json!({"a": "1"}))).await;
    t.apply(&dry, "one", data(json!({"a": "2"}))).await;
    t.apply(&dry, "two", data(json!({"a": "2"}))).await;
    t.get(&path).await;
}

pub(super) async fn apply_of_a_status(t: &mut Script) {
    t.install_tools().await;
    let path = t.tool();
    let status = format!("{path}/status");
    let conditions = |list: Value| {
        let mut config = tool(Value::Null);
        config["status"] = json!({"conditions": list});
        config
    };
    t.apply(&status, "one", conditions(json!([]))).await;
    let both = with(tool(json!({"title": "t"})), "/status/phase", json!("x"));
    t.apply(&path, "one", both).await;
    t.managers(&path).await;
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let mut config = with(conditions(ready), "/spec", json!({"title": "other"}));
    config["metadata"]["labels"] = json!({"l": "1"});
    t.apply(&status, "one", config).await;
    t.managers(&path).await;
    t.apply(&status, "two", conditions(json!([{"type": "Ready", "status": "False"}]))).await;
    t.apply(&status, "two", conditions(json!([{"type": "Fine", "status": "True"}]))).await;
    t.managers(&path).await;
    t.apply(&status, "one", conditions(json!([]))).await;
    t.managers(&path).await;
    t.patch_as(status, "three", json!({"status": {"phase": "y"}})).await;
    t.managers(&path).await;
}

pub(super) async fn apply_of_custom_lists_and_maps(t: &mut Script) {
    t.install_tools().await;
    let path = t.tool();
    let first = json!({
        "parts": [{"name": "x", "size": 1}, {"name": "x", "zone": "there", "tags": ["a"]}],
        "tags": ["a", "b"],
        "order": ["a", "b"],
        "labels": {"a": "1"},
        "whole": {"a": "1"},
        "open": {"deep": {"a": 1, "list": [1]}},
        "nested": {"a": "1"},
    });
    t.apply(&path, "one", tool(first.clone())).await;
    t.managers(&path).await;
    let second = json!({
        "parts": [{"name": "y"}, {"name": "x", "zone": "here", "tags": ["b"]}],
        "tags": ["c", "b"],
        "labels": {"b": "1"},
        "open": {"deep": {"b": 1}},
        "nested": {"b": "1"},
    });
    t.apply(&path, "two", tool(second)).await;
    t.managers(&path).await;
    t.apply(&path, "three", tool(json!({"order": ["b"], "whole": {"b": "1"}}))).await;
    t.apply(&path, "three", tool(json!({"open": {"deep": {"list": [2]}}}))).await;
    t.apply(&path, "one", tool(json!({"size": 2}))).await;
    t.managers(&path).await;
    t.apply(&path, "one", tool(Value::Null)).await;
    t.managers(&path).await;
    t.apply(&path, "two", tool(Value::Null)).await;
    t.managers(&path).await;
}

pub(super) async fn apply_keeps_the_order_of_lists(t: &mut Script) {
    t.install_tools().await;
    let path = t.tool();
    let order = |tags: Value| tool(json!({"tags": tags}));
    t.apply(&path, "one", order(json!(["1", "a", "2", "b", "3"]))).await;
    t.apply(&path, "two", order(json!(["b", "a"]))).await;
    t.apply(&path, "two", order(json!(["x", "b", "y", "a"]))).await;
    t.apply(&path, "three", order(json!(["z"]))).await;
}

pub(super) async fn apply_of_nulls_and_nothing(t: &mut Script) {
    t.install_tools().await;
    let path = t.tool();
    t.apply(&path, "one", tool(json!({"labels": {"a": "1"}, "tags": ["a"], "title": "t"}))).await;
    t.apply(&path, "two", tool(json!({"labels": {}, "tags": [], "nested": {}}))).await;
    t.managers(&path).await;
    t.apply(&path, "two", tool(json!({"labels": null}))).await;
    t.managers(&path).await;
}

pub(super) async fn apply_of_unknown_fields_and_wrong_types(t: &mut Script) {
    t.install_tools().await;
    let path = t.tool();
    t.apply(&path, "one", tool(json!({"bogus": 1}))).await;
    t.apply(&path, "one", tool(json!({"size": "x"}))).await;
    t.apply(&path, "one", tool(json!({"parts": [{"name": "x"}, {"name": "x"}]}))).await;
    t.apply(&path, "one", tool(json!({"tags": ["x", "x"]}))).await;
    t.apply(&path, "one", tool(json!({"parts": [{"name": "x", "bogus": 1}]}))).await;
    t.apply(t.configmap("a"), "one", with(configmap("a"), "/bogus", json!(1))).await;
    let spec = with(deployment("a"), "/spec/replicas", json!("x"));
    t.apply(format!("{}/a", t.deployments()), "one", spec).await;
}

pub(super) async fn apply_is_validated_and_defaulted(t: &mut Script) {
    t.install_widgets().await;
    t.apply(t.widget("a"), "one", with(widget("a"), "/spec/size", json!(99))).await;
    t.apply(t.widget("a"), "one", widget("a")).await;
    t.managers(t.widget("a")).await;
    t.apply(t.widget("a"), "one", with(widget("a"), "/spec", json!({}))).await;
    let bad = with(configmap("a"), "/metadata/labels", json!({"l": "not ok"}));
    t.apply(t.configmap("a"), "one", bad).await;
}

pub(super) async fn apply_in_two_versions(t: &mut Script) {
    t.install_widgets().await;
    t.apply(t.widget("a"), "one", with(widget("a"), "/spec/label", json!("x"))).await;
    let second = with(widget("a"), "/apiVersion", json!("conformance.windlass.dev/v2"));
    let path = format!("{}/a", t.widgets_v2());
    t.apply(&path, "one", second.clone()).await;
    t.managers(&path).await;
    t.apply(&path, "two", with(second, "/spec/size", json!(2))).await;
}

pub(super) async fn apply_without_a_schema(t: &mut Script) {
    t.install_gadgets().await;
    let name = t.own_name("a");
    let path = format!("{GADGETS}/{name}");
    let config = |any: Value| with(gadget(&name), "/any", any);
    t.apply(&path, "one", config(json!({"x": [1], "y": {"z": 1}}))).await;
    t.managers(&path).await;
    t.apply(&path, "two", config(json!({"x": [2]}))).await;
    t.apply(&path, "two", config(json!({"y": {"w": 1}}))).await;
    t.apply(&path, "one", config(json!({"x": [1]}))).await;
    t.managers(&path).await;
    t.delete(&path).await;
}

pub(super) async fn managers_of_a_custom_resource_that_is_created_and_patched(t: &mut Script) {
    t.install_widgets().await;
    let path = t.widget("a");
    t.create_as(t.widgets(), "creator", widget("a")).await;
    t.managers(&path).await;
    t.patch_as(path.clone(), "patcher", json!({"spec": {"options": {"a": "1"}, "tags": ["x"]}}))
        .await;
    t.managers(&path).await;
    t.patch_as(path.clone(), "patcher", json!({"spec": {"options": null}})).await;
    t.patch_as(format!("{path}/status"), "patcher", json!({"status": {"phase": "Ready"}})).await;
    t.managers(&path).await;
    t.apply_by_force(&path, "one", with(widget("a"), "/spec/size", json!(3))).await;
    t.managers(&path).await;
}

pub(super) async fn apply_where_it_cannot_be(t: &mut Script) {
    let missing = "/api/v1/namespaces/no-such-namespace/configmaps/a";
    t.apply(missing, "one", configmap("a")).await;
    let status = format!("{}/a/status", t.deployments());
    t.apply(&status, "one", deployment("a")).await;
    t.apply(t.configmaps(), "one", configmap("a")).await;
    t.apply(format!("{}/status", t.configmap("a")), "one", configmap("a")).await;
}

pub(super) async fn watch_sees_what_is_applied(t: &mut Script) {
    let start = t.get(t.configmaps()).await.version();
    let all = t.configmaps();
    let mut watch = t.watch(format!("{all}?watch=1&resourceVersion={start}")).await;
    let path = t.configmap("a");
    t.apply(&path, "one", data(json!({"a": "1"}))).await;
    watch.next().await;
    t.apply(&path, "one", data(json!({"a": "1"}))).await;
    t.apply(&path, "one", data(json!({"b": "1"}))).await;
    watch.next().await;
}

pub(super) async fn kubectl_is_not_in_conflict_with_itself(t: &mut Script) {
    let path = t.configmap("a");
    let annotation = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
    let plain = data(json!({"a": "1", "b": "1"}));
    let annotated = with(plain.clone(), annotation, json!(plain.to_string()));
    t.create_as(t.configmaps(), "kubectl-client-side-apply", annotated).await;
    t.apply(&path, "one", data(json!({"a": "2"}))).await;
    t.apply(&path, "kubectl", data(json!({"a": "2", "b": "1"}))).await;
    t.managers(&path).await;
    t.patch_as(path.clone(), "patcher", json!({"data": {"b": "3"}})).await;
    t.apply(&path, "kubectl", data(json!({"a": "3", "b": "2"}))).await;
    t.apply(&path, "kubectl", data(json!({"a": "2", "b": "3"}))).await;
    t.apply(&path, "kubectl", data(json!({"a": "2", "b": "3"}))).await;
    t.managers(&path).await;
}
