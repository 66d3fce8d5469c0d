//! Strategic merge patches of built-in kinds, as kubectl, client-go and controllers send them.
//!
//! Rejected patches are in [`strategic_refusals`](super::strategic_refusals).

use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::{configmap, deployment, pod, widget, with};
use crate::request::Request;
use crate::script::STRATEGIC_PATCH;

/// The path of a deployment's pod spec.
const TEMPLATE: &str = "/spec/template/spec";

/// The path of a deployment's containers.
const CONTAINERS: &str = "/spec/template/spec/containers";

/// A deployment with lists of every type.
pub(super) fn rich_deployment() -> Value {
    let spec = json!({
        "containers": [
            {
                "name": "main",
                "image": "main:1",
                "args": ["one", "two"],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "value": "2"},
                    {"name": "C", "value": "3"},
                ],
                "ports": [
                    {"containerPort": 80, "name": "http"},
                    {"containerPort": 443, "name": "https"},
                ],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            },
            {"name": "side", "image": "side:1"},
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "one"}, {"name": "two"}],
        "nodeSelector": {"disk": "ssd", "zone": "a"},
    });
    with(deployment("a"), "/spec/template/spec", spec)
}

async fn given_deployment(t: &mut Script) -> String {
    t.given(t.deployments(), rich_deployment()).await;
    format!("{}/a", t.deployments())
}

/// Sends a patch, and records these parts of the result.
async fn patch(t: &mut Script, path: &str, change: Value, parts: &[&str]) {
    let parts: Vec<&str> = parts.iter().copied().chain(["/message", "/code"]).collect();
    t.pick(Request::patch(path, STRATEGIC_PATCH, change), &parts).await;
}

/// A patch of a deployment's pod spec.
fn of_pod(spec: Value) -> Value {
    with(json!({}), "/spec/template/spec", spec)
}

pub(super) async fn strategic_patch_merges_containers_by_name(t: &mut Script) {
    let path = given_deployment(t).await;
    let image = of_pod(json!({"containers": [{"name": "side", "image": "side:2"}]}));
    patch(t, &path, image, &[CONTAINERS, "/metadata/generation"]).await;
    let new = of_pod(json!({"containers": [{"name": "new", "image": "new:1"}]}));
    patch(t, &path, new, &[CONTAINERS, "/metadata/generation"]).await;
}

pub(super) async fn strategic_patch_of_set_image_keeps_the_order(t: &mut Script) {
    let path = given_deployment(t).await;
    let change = of_pod(json!({
        "$setElementOrder/containers": [{"name": "main"}, {"name": "side"}],
        "containers": [{"name": "side", "image": "side:2"}],
    }));
    patch(t, &path, change, &[CONTAINERS]).await;
}

pub(super) async fn strategic_patch_reorders_by_directive(t: &mut Script) {
    let path = given_deployment(t).await;
    let turned = json!({"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]});
    patch(t, &path, of_pod(turned), &[CONTAINERS]).await;
    let env = json!({
        "containers": [{
            "name": "main",
            "$setElementOrder/env": [{"name": "C"}, {"name": "D"}, {"name": "A"}],
            "env": [{"name": "D", "value": "4"}],
        }],
    });
    patch(t, &path, of_pod(env), &[CONTAINERS]).await;
    let some = json!({"$setElementOrder/imagePullSecrets": [{"name": "two"}]});
    patch(t, &path, of_pod(some), &[TEMPLATE]).await;
}

pub(super) async fn strategic_patch_puts_new_items_in_the_order_of_the_patch(t: &mut Script) {
    let path = given_deployment(t).await;
    let env = |items: Value| of_pod(json!({"containers": [{"name": "main", "env": items}]}));
    let some = json!([{"name": "E", "value": "5"}, {"name": "B", "value": "b"}]);
    patch(t, &path, env(some), &[CONTAINERS]).await;
    let turned = json!([{"name": "C", "value": "c"}, {"name": "A", "value": "a"}]);
    patch(t, &path, env(turned), &[CONTAINERS]).await;
}

pub(super) async fn strategic_patch_deletes_items(t: &mut Script) {
    let path = given_deployment(t).await;
    let env = json!([{"$patch": "delete", "name": "B"}, {"$patch": "delete", "name": "absent"}]);
    patch(t, &path, of_pod(json!({"containers": [{"name": "main", "env": env}]})), &[CONTAINERS])
        .await;
    let side = json!({
        "$setElementOrder/containers": [{"name": "main"}],
        "containers": [{"$patch": "delete", "name": "side"}],
    });
    patch(t, &path, of_pod(side), &[CONTAINERS]).await;
}

pub(super) async fn strategic_patch_renames_an_item(t: &mut Script) {
    let path = given_deployment(t).await;
    let env = json!({
        "containers": [{
            "name": "main",
            "$setElementOrder/env": [{"name": "D"}, {"name": "C"}],
            "env": [{"$patch": "delete", "name": "B"}, {"name": "D", "value": "4"}],
        }],
    });
    patch(t, &path, of_pod(env), &[CONTAINERS]).await;
    let containers = json!({
        "$setElementOrder/containers": [{"name": "first"}, {"name": "side"}],
        "containers": [{"name": "first", "image": "first:1"}, {"$patch": "delete", "name": "main"}],
    });
    patch(t, &path, of_pod(containers), &[CONTAINERS]).await;
}

pub(super) async fn strategic_patch_of_data_without_a_type(t: &mut Script) {
    let revision = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "a"},
        "revision": 1,
        "data": {"a": {"b": 1}, "list": [1], "text": "x"},
    });
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", t.ns());
    t.given(&path, revision).await;
    let path = format!("{path}/a");
    let shown = ["/data", "/revision"];
    patch(t, &path, json!({"revision": 2}), &shown).await;
    for data in [json!({"a": {"c": 2}}), json!({"list": [2]})] {
        patch(t, &path, json!({ "data": data }), &shown).await;
    }
}

pub(super) async fn strategic_patch_replaces_a_list(t: &mut Script) {
    let path = given_deployment(t).await;
    let containers = json!([{"$patch": "replace"}, {"name": "only", "image": "only:1"}]);
    patch(t, &path, of_pod(json!({"containers": containers})), &[CONTAINERS]).await;
    let secrets = json!([{"$patch": "replace"}]);
    patch(t, &path, of_pod(json!({"imagePullSecrets": secrets})), &[TEMPLATE]).await;
}

pub(super) async fn strategic_patch_replaces_lists_that_do_not_merge(t: &mut Script) {
    let path = given_deployment(t).await;
    let change = json!({
        "containers": [{"name": "main", "args": ["three"]}],
        "tolerations": [{"key": "b", "operator": "Exists"}],
    });
    patch(t, &path, of_pod(change), &[TEMPLATE]).await;
    patch(t, &path, of_pod(json!({"tolerations": []})), &[TEMPLATE]).await;
}

pub(super) async fn strategic_patch_replaces_or_empties_a_map(t: &mut Script) {
    let path = given_deployment(t).await;
    let replaced = json!({"nodeSelector": {"$patch": "replace", "disk": "hdd"}});
    patch(t, &path, of_pod(replaced), &["/spec/template/spec/nodeSelector"]).await;
    let emptied = json!({"nodeSelector": {"$patch": "delete", "disk": "ignored"}});
    patch(t, &path, of_pod(emptied), &["/spec/template/spec/nodeSelector"]).await;
    let new = json!({"affinity": {"$patch": "replace", "nodeAffinity": {}}});
    patch(t, &path, of_pod(new), &["/spec/template/spec/affinity"]).await;
}

pub(super) async fn strategic_patch_removes_what_is_null(t: &mut Script) {
    let path = given_deployment(t).await;
    let change = json!({
        "nodeSelector": {"zone": null, "absent": null},
        "tolerations": null,
        "containers": [{"name": "main", "args": null, "ports": null}],
        "hostAliases": null,
    });
    patch(t, &path, of_pod(change), &[TEMPLATE]).await;
    patch(t, &path, json!({"metadata": {"labels": null}}), &["/metadata/labels"]).await;
}

pub(super) async fn strategic_patch_takes_new_items_with_their_nulls(t: &mut Script) {
    let path = given_deployment(t).await;
    let container = json!({
        "name": "new",
        "image": "new:1",
        "command": null,
        "env": [{"name": "X", "value": null}],
        "ports": [{"containerPort": 1, "name": null}],
    });
    patch(t, &path, of_pod(json!({"containers": [container]})), &[CONTAINERS]).await;
    let env = json!({"env": [{"name": "Y", "value": null}]});
    let change = json!({"containers": [with(env, "/name", json!("side"))]});
    patch(t, &path, of_pod(change), &[CONTAINERS]).await;
}

pub(super) async fn strategic_patch_leaves_directives_in_new_items(t: &mut Script) {
    let path = given_deployment(t).await;
    let container = json!({
        "name": "new",
        "image": "new:1",
        "$setElementOrder/env": [{"name": "X"}],
        "env": [{"name": "X", "value": "1"}],
    });
    patch(t, &path, of_pod(json!({"containers": [container]})), &[CONTAINERS]).await;
}

pub(super) async fn strategic_patch_merges_ports_by_number(t: &mut Script) {
    let path = given_deployment(t).await;
    let ports = json!([{"containerPort": 443, "name": "tls"}, {"containerPort": 8080}]);
    let change = json!({"containers": [{"name": "main", "ports": ports}]});
    patch(t, &path, of_pod(change), &[CONTAINERS]).await;
}

pub(super) async fn strategic_patch_retains_keys_of_a_strategy(t: &mut Script) {
    let path = given_deployment(t).await;
    let recreate = json!({"$retainKeys": ["type"], "type": "Recreate"});
    patch(t, &path, json!({"spec": {"strategy": recreate}}), &["/spec/strategy"]).await;
    let rolling = json!({
        "$retainKeys": ["type", "rollingUpdate"],
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 2},
    });
    patch(t, &path, json!({"spec": {"strategy": rolling}}), &["/spec/strategy"]).await;
}

pub(super) async fn strategic_patch_retains_keys_of_volumes(t: &mut Script) {
    let path = given_deployment(t).await;
    let volume = json!({
        "$retainKeys": ["name", "configMap"],
        "name": "data",
        "configMap": {"name": "c"},
        "emptyDir": null,
    });
    patch(t, &path, of_pod(json!({"volumes": [volume]})), &["/spec/template/spec/volumes"]).await;
}

pub(super) async fn strategic_patch_merges_finalizers_by_value(t: &mut Script) {
    let object = with(
        configmap("a"),
        "/metadata/finalizers",
        json!(["example.dev/a", "example.dev/b", "example.dev/c"]),
    );
    t.given(t.configmaps(), object).await;
    let path = t.configmap("a");
    let shown = ["/metadata/finalizers"];
    let finalizers = |change: Value| json!({ "metadata": change });
    let add = json!({"finalizers": ["example.dev/d", "example.dev/a"]});
    patch(t, &path, finalizers(add), &shown).await;
    let remove = json!({"$deleteFromPrimitiveList/finalizers": ["example.dev/b", "example.dev/x"]});
    patch(t, &path, finalizers(remove), &shown).await;
    let ordered = json!({
        "$setElementOrder/finalizers": ["example.dev/c", "example.dev/e", "example.dev/a"],
        "$deleteFromPrimitiveList/finalizers": ["example.dev/d"],
        "finalizers": ["example.dev/e"],
    });
    patch(t, &path, finalizers(ordered), &shown).await;
    patch(t, &path, finalizers(json!({"finalizers": null})), &shown).await;
}

pub(super) async fn strategic_patch_merges_owners_by_uid(t: &mut Script) {
    let owner = t.given(t.configmaps(), configmap("owner")).await;
    t.given(t.configmaps(), configmap("a")).await;
    let path = t.configmap("a");
    let reference =
        |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
    let owners = |list: Value| json!({"metadata": {"ownerReferences": list}});
    let shown = ["/metadata/ownerReferences"];
    patch(t, &path, owners(json!([reference(&owner.uid())])), &shown).await;
    let controller = with(json!({"uid": owner.uid()}), "/controller", json!(true));
    patch(t, &path, owners(json!([controller])), &shown).await;
    let gone = json!([{"$patch": "delete", "uid": owner.uid()}]);
    patch(t, &path, owners(gone), &shown).await;
}

pub(super) async fn strategic_patch_of_labels_and_annotations(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let path = t.configmap("a");
    let change = json!({"metadata": {"labels": {"l": "1"}, "annotations": {"a/b": "x", "c": "y"}}});
    t.send(Request::patch(&path, STRATEGIC_PATCH, change)).await;
    let change = json!({"metadata": {"labels": {"l": null, "m": "2"}, "annotations": {"c": "z"}}});
    t.send(Request::patch(&path, STRATEGIC_PATCH, change)).await;
}

pub(super) async fn strategic_patch_of_data(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let path = t.configmap("a");
    t.send(Request::patch(&path, STRATEGIC_PATCH, json!({"data": {"a": null, "b": "2"}}))).await;
    t.send(Request::patch(
        &path,
        STRATEGIC_PATCH,
        json!({"data": {"$patch": "replace", "c": "3"}}),
    ))
    .await;
    t.send(Request::patch(&path, STRATEGIC_PATCH, json!({"data": null}))).await;
}

pub(super) async fn strategic_patch_of_conditions(t: &mut Script) {
    t.given(t.pods(), pod("a")).await;
    let status = format!("{}/a/status", t.pods());
    let condition = |of: &str, status: &str| json!({"type": of, "status": status});
    let conditions = |list: Value| json!({"status": {"conditions": list}});
    let shown = ["/status/conditions", "/status/phase"];
    let both = json!([condition("Ready", "False"), condition("Initialized", "True")]);
    patch(t, &status, conditions(both), &shown).await;
    let ready = json!({
        "status": {
            "$setElementOrder/conditions": [{"type": "Initialized"}, {"type": "Ready"}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Here"}],
        },
    });
    patch(t, &status, ready, &shown).await;
    let none = json!([{"$patch": "delete", "type": "Initialized"}]);
    patch(t, &status, conditions(none), &shown).await;
}

pub(super) async fn strategic_patch_of_status_ignores_the_spec(t: &mut Script) {
    let path = given_deployment(t).await;
    let change = json!({
        "spec": {"replicas": 7},
        "status": {"replicas": 3, "conditions": [{"type": "Available", "status": "True"}]},
    });
    patch(t, &format!("{path}/status"), change.clone(), &["/spec/replicas", "/status"]).await;
    patch(t, &path, change, &["/spec/replicas", "/status"]).await;
}

pub(super) async fn strategic_patch_of_the_scale(t: &mut Script) {
    let path = format!("{}/scale", given_deployment(t).await);
    for change in [json!({"spec": {"replicas": 3}}), json!({"spec": null}), json!({})] {
        t.send(Request::patch(&path, STRATEGIC_PATCH, change)).await;
    }
    for replicas in [json!(-1), json!("two"), json!([])] {
        let change = json!({"spec": {"replicas": replicas}});
        t.send(Request::patch(&path, STRATEGIC_PATCH, change)).await;
    }
}

pub(super) async fn strategic_patch_counts_an_event(t: &mut Script) {
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": t.ns()},
        "reason": "Pulled",
        "message": "pulled",
        "count": 1,
        "type": "Normal",
    });
    let path = format!("/api/v1/namespaces/{}/events", t.ns());
    t.given(&path, event).await;
    let change = json!({
        "count": 2,
        "lastTimestamp": "2001-02-03T04:05:06Z",
        "message": "pulled again",
    });
    t.send(Request::patch(format!("{path}/a"), STRATEGIC_PATCH, change)).await;
}

pub(super) async fn strategic_patch_of_a_series_of_events(t: &mut Script) {
    let event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "regarding": {"kind": "Pod", "name": "a", "namespace": t.ns()},
        "eventTime": "2001-02-03T04:05:06.000000Z",
        "reason": "Pulled",
        "note": "pulled",
        "action": "Pull",
        "reportingController": "example.dev/c",
        "reportingInstance": "c-1",
        "type": "Normal",
    });
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", t.ns());
    t.given(&path, event).await;
    let series = json!({"count": 2, "lastObservedTime": "2001-02-03T04:06:00.000000Z"});
    let change = json!({ "series": series });
    t.send(Request::patch(format!("{path}/a"), STRATEGIC_PATCH, change)).await;
}

pub(super) async fn strategic_patch_of_service_ports(t: &mut Script) {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {
            "clusterIP": "None",
            "selector": {"app": "a"},
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080},
                {"name": "https", "port": 443},
            ],
        },
    });
    let path = format!("/api/v1/namespaces/{}/services", t.ns());
    t.given(&path, service).await;
    let path = format!("{path}/a");
    let change = json!({"spec": {"ports": [{"port": 443, "targetPort": "tls"}]}});
    patch(t, &path, change, &["/spec/ports"]).await;
    let change =
        json!({"spec": {"selector": {"tier": "x"}, "ports": [{"$patch": "delete", "port": 80}]}});
    patch(t, &path, change, &["/spec/ports", "/spec/selector"]).await;
}

pub(super) async fn strategic_patch_replaces_the_selector_of_a_budget(t: &mut Script) {
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "a"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    });
    let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", t.ns());
    t.given(&path, budget).await;
    let change =
        json!({"spec": {"selector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}});
    patch(t, &format!("{path}/a"), change, &["/spec"]).await;
}

pub(super) async fn strategic_patch_that_changes_nothing_keeps_the_version(t: &mut Script) {
    let path = given_deployment(t).await;
    let same = of_pod(json!({
        "$setElementOrder/containers": [{"name": "main"}, {"name": "side"}],
        "containers": [{"name": "side", "image": "side:1"}],
    }));
    let shown = ["/metadata/resourceVersion", "/metadata/generation"];
    for change in [json!({}), json!(null), same] {
        patch(t, &path, change, &shown).await;
    }
}

pub(super) async fn strategic_patch_as_a_dry_run(t: &mut Script) {
    let path = given_deployment(t).await;
    let image = of_pod(json!({"containers": [{"name": "side", "image": "side:2"}]}));
    let dry = format!("{path}?dryRun=All");
    patch(t, &dry, image, &[CONTAINERS, "/metadata/generation"]).await;
    t.pick(Request::get(path), &[CONTAINERS, "/metadata/generation"]).await;
}

pub(super) async fn strategic_patch_with_a_version(t: &mut Script) {
    let read = t.given(t.configmaps(), configmap("a")).await;
    let change = json!({
        "metadata": {"resourceVersion": read.version(), "uid": read.uid()},
        "data": {"b": "2"},
    });
    for _ in 0..2 {
        let request = Request::patch(t.configmap("a"), STRATEGIC_PATCH, change.clone());
        t.send(request).await;
    }
}

pub(super) async fn strategic_patch_of_custom_resources_is_not_supported(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    for path in [t.widget("a"), format!("{}/status", t.widget("a")), t.widget("absent")] {
        let change = json!({"spec": {"size": 2}});
        t.send(Request::patch(path, STRATEGIC_PATCH, change)).await;
    }
}
