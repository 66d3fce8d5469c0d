//! Fields that cannot be changed after creation, and fields beside them that can.

use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::{configmap, deployment, pod, with};
use crate::request::Request;
use crate::script::MERGE_PATCH;

fn collection(t: &Script, group_version: &str, plural: &str) -> String {
    let prefix = if group_version.contains('/') { "apis" } else { "api" };
    format!("/{prefix}/{group_version}/namespaces/{}/{plural}", t.ns())
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"a": "MQ=="},
    })
}

/// Returns a deployment converted to another kind with the same fields.
fn workload(kind: &str, name: &str) -> Value {
    with(deployment(name), "/kind", json!(kind))
}

fn template(label: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": label}},
        "spec": {"containers": [{"name": "main", "image": image}], "restartPolicy": "Never"},
    })
}

/// Changes an object, and records whether and why that is rejected, without the Go diff that the
/// real server appends to the first line.
async fn change(t: &mut Script, path: &str, change: Value) {
    let answer = t.look(Request::patch(path, MERGE_PATCH, change)).await;
    if answer.is_success() {
        return;
    }
    let first_line = |text: &Value| {
        let text = text.as_str().unwrap_or_default();
        json!(text.lines().next().unwrap_or_default())
    };
    let mut causes = answer.at("/details/causes");
    for cause in causes.as_array_mut().into_iter().flatten() {
        cause["message"] = first_line(&cause["message"]);
    }
    t.note("message", &first_line(&answer.at("/message")));
    t.note("causes", &causes);
}

/// Changes a field that the real server quotes as a Go value, which is not recorded.
async fn change_unshown(t: &mut Script, path: &str, change: Value) {
    let pointers = ["/reason", "/details/causes/0/reason", "/details/causes/0/field"];
    t.pick(Request::patch(path, MERGE_PATCH, change), &pointers).await;
}

pub(super) async fn immutable_config_map_keeps_its_content(t: &mut Script) {
    let path = t.configmap("a");
    t.given(t.configmaps(), with(configmap("a"), "/immutable", json!(true))).await;
    for change in [
        json!({"data": {"a": "2"}}),
        json!({"data": {"b": ""}}),
        json!({"data": null}),
        json!({"binaryData": {"b": "MQ=="}}),
        json!({"immutable": false}),
        json!({"immutable": null, "data": {"a": "2"}, "binaryData": {"b": "MQ=="}}),
        json!({"data": {"a": "1"}, "metadata": {"labels": {"a": "b"}}}),
    ] {
        t.merge_patch(&path, change).await;
    }
    t.put(&path, with(configmap("a"), "/data/a", json!("3"))).await;
    t.delete(&path).await;
}

pub(super) async fn config_map_becomes_immutable_with_its_last_change(t: &mut Script) {
    t.given(t.configmaps(), with(configmap("a"), "/immutable", json!(false))).await;
    t.merge_patch(t.configmap("a"), json!({"immutable": true, "data": {"a": "2"}})).await;
    t.merge_patch(t.configmap("a"), json!({"data": {"a": "3"}})).await;
    t.merge_patch(t.configmap("a"), json!({"data": {"not a key": "3"}})).await;
}

pub(super) async fn immutable_secret_keeps_its_content(t: &mut Script) {
    let secrets = collection(t, "v1", "secrets");
    let path = format!("{secrets}/a");
    t.given(secrets, with(secret("a"), "/immutable", json!(true))).await;
    for change in [
        json!({"data": {"a": "Mg=="}}),
        json!({"stringData": {"a": "2"}}),
        json!({"stringData": {"a": "1"}}),
        json!({"immutable": null}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
    ] {
        t.merge_patch(&path, change).await;
    }
}

pub(super) async fn secret_keeps_its_type(t: &mut Script) {
    let secrets = collection(t, "v1", "secrets");
    let path = format!("{secrets}/a");
    t.given(&secrets, with(secret("a"), "/type", json!("example.com/mine"))).await;
    t.merge_patch(&path, json!({"type": "example.com/yours"})).await;
    t.put(&path, secret("a")).await;
    t.merge_patch(&path, json!({"type": "kubernetes.io/tls"})).await;
    t.merge_patch(&path, json!({"data": {"a": "Mg=="}})).await;
}

pub(super) async fn deployment_keeps_its_selector(t: &mut Script) {
    t.given(t.deployments(), deployment("a")).await;
    let path = format!("{}/a", t.deployments());
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let selector = json!({"matchLabels": {"app": "b"}});
    for spec in [
        json!({"selector": selector, "template": labels(json!({"app": "b"}))}),
        json!({"selector": selector}),
        json!({"selector": {"matchLabels": {"tier": "x"}}, "template": labels(json!({"tier": "x"}))}),
        json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}),
        json!({"selector": null}),
    ] {
        t.merge_patch(&path, json!({"spec": spec})).await;
    }
    let more = json!({"spec": {"replicas": 2, "template": labels(json!({"tier": "x"}))}});
    t.pick(Request::patch(&path, MERGE_PATCH, more), &["/spec/replicas"]).await;
}

pub(super) async fn sets_keep_their_selector(t: &mut Script) {
    for (kind, plural) in [("ReplicaSet", "replicasets"), ("DaemonSet", "daemonsets")] {
        let path = collection(t, "apps/v1", plural);
        t.given(&path, workload(kind, "a")).await;
        let spec = json!({
            "selector": {"matchLabels": {"app": "b"}},
            "template": {"metadata": {"labels": {"app": "b"}}},
        });
        let change = json!({"spec": {"selector": {"matchLabels": {"tier": null, "app": "b"}}}});
        t.merge_patch(format!("{path}/a"), json!({"spec": spec})).await;
        t.merge_patch(format!("{path}/a"), change).await;
        let image = json!([{"name": "main", "image": "main:2"}]);
        let change = json!({"spec": {"template": {"spec": {"containers": image}}}});
        let request = Request::patch(format!("{path}/a"), MERGE_PATCH, change);
        t.pick(request, &["/spec/selector", "/metadata/generation"]).await;
    }
}

pub(super) async fn stateful_set_keeps_most_of_its_spec(t: &mut Script) {
    let path = collection(t, "apps/v1", "statefulsets");
    let set = with(workload("StatefulSet", "a"), "/spec/serviceName", json!("a"));
    t.given(&path, set).await;
    let path = format!("{path}/a");
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    for spec in [
        json!({"serviceName": "b"}),
        json!({"podManagementPolicy": "Parallel"}),
        json!({"volumeClaimTemplates": [claim]}),
        json!({
            "selector": {"matchLabels": {"app": "b"}},
            "template": {"metadata": {"labels": {"app": "b"}}},
        }),
        json!({"replicas": -1, "serviceName": "b"}),
    ] {
        t.merge_patch(&path, json!({"spec": spec})).await;
    }
    let free = json!({"spec": {
        "replicas": 2,
        "minReadySeconds": 1,
        "ordinals": {"start": 1},
        "revisionHistoryLimit": 1,
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": null},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
        "template": {"metadata": {"labels": {"tier": "x"}}},
    }});
    t.pick(Request::patch(&path, MERGE_PATCH, free), &["/spec/replicas"]).await;
}

pub(super) async fn job_keeps_its_selector_and_template(t: &mut Script) {
    let jobs = collection(t, "batch/v1", "jobs");
    let job = |name: &str, spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    let selector = json!({"matchLabels": {"app": "a"}});
    let manual = json!({
        "manualSelector": true, "selector": selector, "template": template("a", "main:1"),
    });
    t.given(&jobs, job("a", manual)).await;
    let path = format!("{jobs}/a");
    let labels = json!({"metadata": {"labels": {"tier": "x"}}});
    change_unshown(t, &path, json!({"spec": {"template": labels}})).await;
    let spec = json!({"containers": [{"name": "main", "image": "main:2"}]});
    change_unshown(t, &path, json!({"spec": {"template": {"spec": spec}}})).await;
    let exists = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    for spec in [
        json!({"selector": exists}),
        json!({"completions": 2}),
        json!({"completionMode": "Indexed"}),
        json!({"managedBy": "example.com/other"}),
    ] {
        change(t, &path, json!({"spec": spec})).await;
    }
    let free = json!({"spec": {"parallelism": 2, "backoffLimit": 1, "suspend": true}});
    t.pick(Request::patch(&path, MERGE_PATCH, free), &["/spec/parallelism"]).await;
    let more = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2,
        "template": template("a", "main:1")});
    t.given(&jobs, job("indexed", more)).await;
    let path = format!("{jobs}/indexed");
    for spec in [json!({"completions": 3}), json!({"completions": 3, "parallelism": 3})] {
        change(t, &path, json!({"spec": spec})).await;
    }
}

pub(super) async fn service_keeps_its_address(t: &mut Script) {
    let services = collection(t, "v1", "services");
    let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    let ports = json!([{"port": 80}]);
    t.given(&services, service("a", json!({"ports": ports}))).await;
    let headless = json!({"ports": ports, "clusterIP": "None", "selector": {"a": "b"}});
    t.given(&services, service("none", headless)).await;
    let path = format!("{services}/a");
    for spec in [
        json!({"clusterIP": "10.0.0.77"}),
        json!({"clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.77"]}),
        json!({"clusterIP": "None"}),
    ] {
        t.merge_patch(&path, json!({"spec": spec})).await;
    }
    t.merge_patch(format!("{services}/none"), json!({"spec": {"clusterIP": "10.0.0.77"}})).await;
    let selector = json!({"spec": {"clusterIP": null, "clusterIPs": null, "selector": {"a": "b"}}});
    t.pick(Request::patch(&path, MERGE_PATCH, selector), &["/spec/selector"]).await;
    let name = json!({"spec": {
        "type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null,
    }});
    t.pick(Request::patch(&path, MERGE_PATCH, name), &["/spec/type", "/spec/clusterIP"]).await;
}

pub(super) async fn claim_keeps_its_spec(t: &mut Script) {
    let claims = collection(t, "v1", "persistentvolumeclaims");
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    t.given(&claims, claim).await;
    let path = format!("{claims}/a");
    for spec in [
        json!({"accessModes": ["ReadWriteMany"]}),
        json!({"storageClassName": "slow"}),
        json!({"resources": {"requests": {"storage": "2Gi"}}}),
        json!({"resources": {"requests": {"storage": "1024Mi"}}}),
        json!({"volumeMode": "Block"}),
        json!({"selector": {"matchLabels": {"a": "b"}}}),
        json!({"volumeName": "one"}),
        json!({"volumeName": "two"}),
    ] {
        change(t, &path, json!({"spec": spec})).await;
    }
    change(t, &path, json!({"metadata": {"labels": {"a": "b"}}})).await;
}

pub(super) async fn pod_keeps_most_of_its_spec(t: &mut Script) {
    t.given(t.pods(), pod("a")).await;
    let path = format!("{}/a", t.pods());
    let main = |more: Value| {
        let mut container = json!({"name": "main", "image": "main:1"});
        for (name, value) in more.as_object().into_iter().flatten() {
            container[name] = value.clone();
        }
        container
    };
    for spec in [
        json!({"nodeName": "node-1"}),
        json!({"restartPolicy": "Never"}),
        json!({"terminationGracePeriodSeconds": 1}),
        json!({"nodeSelector": {"a": "b"}}),
        json!({"containers": [main(json!({"env": [{"name": "A", "value": "b"}]}))]}),
        json!({"containers": [main(json!({"resources": {"limits": {"cpu": "1"}}}))]}),
        json!({"containers": [main(json!({})), {"name": "side", "image": "side:1"}]}),
        json!({"initContainers": [{"name": "init", "image": "init:1"}]}),
        json!({"containers": [main(json!({"image": ""}))]}),
        json!({"schedulingGates": [{"name": "example.com/gate"}]}),
    ] {
        change(t, &path, json!({"spec": spec})).await;
    }
    let image = json!({"spec": {"containers": [{"name": "main", "image": "main:2"}]}});
    let request = Request::patch(&path, MERGE_PATCH, image);
    t.pick(request, &["/spec/containers/0/image", "/metadata/generation"]).await;
}

pub(super) async fn pod_deadline_only_comes_closer(t: &mut Script) {
    t.given(t.pods(), pod("a")).await;
    let path = format!("{}/a", t.pods());
    for seconds in [json!(100), json!(200), json!(50), json!(null), json!(50)] {
        change(t, &path, json!({"spec": {"activeDeadlineSeconds": seconds}})).await;
    }
    let both = json!({"spec": {"activeDeadlineSeconds": null, "nodeName": "node-1"}});
    change(t, &path, both).await;
    let both = json!({"spec": {"activeDeadlineSeconds": 60, "nodeName": "node-1"}});
    change(t, &path, both).await;
}

pub(super) async fn pod_tolerations_are_only_added(t: &mut Script) {
    let one = |seconds: u32| {
        json!({
            "key": "one", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds,
        })
    };
    let two = json!({"key": "two", "operator": "Exists"});
    t.given(t.pods(), with(pod("a"), "/spec/tolerations", json!([one(1)]))).await;
    let path = format!("{}/a", t.pods());
    let held = t.unrecorded(&Request::get(&path)).await.at("/spec/tolerations");
    let others: Vec<Value> = held.as_array().into_iter().flatten().skip(1).cloned().collect();
    let all = |first: &[Value]| json!([first, &others].concat());
    for tolerations in [all(&[one(1), two.clone()]), all(&[one(9), two]), all(&[one(9)])] {
        change(t, &path, json!({"spec": {"tolerations": tolerations}})).await;
    }
    t.pick(Request::get(&path), &["/spec/tolerations"]).await;
}

pub(super) async fn pod_gates_are_only_taken_away(t: &mut Script) {
    let gate = |name: &str| json!({"name": format!("example.com/{name}")});
    let gated = with(pod("a"), "/spec/schedulingGates", json!([gate("one"), gate("two")]));
    t.given(t.pods(), gated).await;
    let path = format!("{}/a", t.pods());
    for spec in [
        json!({"schedulingGates": [gate("one"), gate("two"), gate("three")]}),
        json!({"nodeSelector": {"a": "b"}}),
        json!({"restartPolicy": "Never"}),
        json!({"schedulingGates": [gate("two")]}),
        json!({"schedulingGates": []}),
        json!({"nodeSelector": {"a": "c"}}),
    ] {
        change(t, &path, json!({"spec": spec})).await;
    }
}

/// Server-side apply and status writes follow the same rules.
pub(super) async fn applied_fields_are_kept_as_well(t: &mut Script) {
    let path = t.configmap("a");
    let config = |value: &str| {
        let config = with(configmap("a"), "/data/a", json!(value));
        with(config, "/immutable", json!(true))
    };
    t.apply(&path, "me", config("1")).await;
    t.apply(&path, "me", config("2")).await;
    t.given(t.pods(), pod("a")).await;
    let status = format!("{}/a/status", t.pods());
    let change = json!({"spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}});
    let request = Request::patch(status, MERGE_PATCH, change);
    t.pick(request, &["/status/phase", "/spec/nodeName"]).await;
}
