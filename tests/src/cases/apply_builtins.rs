//! Server-side apply of built-in kinds: how their types merge lists and maps, and which managers
//! own defaults.

use serde_json::{Value, json};

use super::apply::bare;
use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{self, CRDS, configmap, definition, deployment, owner, with};
use crate::request::Request;

pub(super) async fn apply_of_metadata(t: &mut Script) {
    let path = t.configmap("a");
    let metadata =
        |metadata: Value| with(with(bare(), "/metadata", metadata), "/metadata/name", json!("a"));
    let configs = [
        metadata(
            json!({"labels": {"a": "1"}, "annotations": {"x": "1"}, "finalizers": ["example.dev/one"]}),
        ),
        metadata(
            json!({"labels": {"b": "1"}, "finalizers": ["example.dev/one", "example.dev/two"]}),
        ),
        metadata(json!({"annotations": {"x": "2", "y": "1"}})),
    ];
    t.apply_all(&path, "one", &configs[..2]).await;
    t.apply(
        &path,
        "two",
        metadata(json!({"finalizers": ["example.dev/two"], "labels": {"c": "1"}})),
    )
    .await;
    t.apply_all(&path, "one", &configs[2..]).await;
}

pub(super) async fn apply_of_owner_references(t: &mut Script) {
    let path = t.configmap("a");
    let first = t.given(t.configmaps(), configmap("x")).await.uid();
    let second = t.given(t.configmaps(), configmap("y")).await.uid();
    let owned = |owners: Value| with(configmap("a"), "/metadata/ownerReferences", owners);
    t.apply(&path, "one", owned(json!([owner("x", &first)]))).await;
    t.apply(&path, "two", owned(json!([owner("y", &second)]))).await;
    t.apply(&path, "one", owned(json!([]))).await;
    let controller = with(owner("y", &second), "/controller", json!(true));
    t.apply(&path, "one", owned(json!([controller]))).await;
    t.apply_by_force(&path, "one", owned(json!([controller]))).await;
}

pub(super) async fn apply_of_a_deployment(t: &mut Script) {
    let path = format!("{}/a", t.deployments());
    t.apply(&path, "one", deployment("a")).await;
    t.managers(&path).await;
    let container = json!({
        "name": "main",
        "image": "main:2",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
        "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
    });
    let containers = "/spec/template/spec/containers";
    let config = with(deployment("a"), containers, json!([container]));
    t.apply(&path, "one", with(config, "/spec/replicas", json!(2))).await;
    t.managers(&path).await;
    let other = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"containers": [
            {"name": "side", "image": "side:1"},
            {"name": "main", "env": [{"name": "C", "value": "1"}]},
        ]}}},
    });
    t.apply(&path, "two", other).await;
    t.managers(&path).await;
    t.apply(&path, "one", deployment("a")).await;
    t.managers(&path).await;
}

pub(super) async fn create_and_update_of_a_deployment_are_managed(t: &mut Script) {
    let path = format!("{}/a", t.deployments());
    let made = t.create_as(t.deployments(), "creator", deployment("a")).await;
    t.managers(&path).await;
    let edited = made.edited(|object| {
        object["spec"]["replicas"] = json!(3);
        object["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"limits": {"cpu": "1"}});
        object["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    });
    t.put(format!("{path}?fieldManager=updater"), edited).await;
    t.managers(&path).await;
    t.apply(&path, "one", with(deployment("a"), "/spec/replicas", json!(1))).await;
    let change = json!({"spec": {"replicas": 5}});
    let scale = format!("{path}/scale?fieldManager=scaler");
    t.merge_patch(scale, change).await;
    t.managers(&path).await;
    t.apply(&path, "one", with(deployment("a"), "/spec/replicas", json!(1))).await;
}

pub(super) async fn apply_of_a_built_in_status(t: &mut Script) {
    let path = format!("{}/a", t.deployments());
    t.apply(&path, "one", deployment("a")).await;
    let config = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"n": "1"}},
        "spec": {"replicas": 7},
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "R", "message": "m"}]},
    });
    t.apply(format!("{path}/status"), "two", config).await;
    t.managers(&path).await;
    t.apply(format!("{}/b/status", t.deployments()), "two", deployment("b")).await;
}

pub(super) async fn apply_of_a_service(t: &mut Script) {
    let path = format!("/api/v1/namespaces/{}/services/a", t.ns());
    let service = |ports: Value, selector: Value| {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "a"},
            "spec": {"clusterIP": "None", "ports": ports, "selector": selector},
        })
    };
    let http = json!({"name": "http", "port": 80});
    let dns = json!({"name": "dns", "port": 53, "protocol": "UDP"});
    t.apply(&path, "one", service(json!([http]), json!({"app": "a"}))).await;
    t.managers(&path).await;
    t.apply(&path, "two", service(json!([dns]), json!({"app": "a"}))).await;
    t.managers(&path).await;
    t.apply(&path, "two", service(json!([dns]), json!({"app": "b"}))).await;
    t.apply(&path, "one", service(json!([]), json!({"app": "a"}))).await;
    t.managers(&path).await;
}

pub(super) async fn apply_of_a_pod(t: &mut Script) {
    let path = format!("{}/a", t.pods());
    let spec = json!({
        "containers": [{
            "name": "main",
            "image": "main:1",
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
            "securityContext": {"runAsUser": 1},
        }],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    });
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
    t.pick(Script::applying(&path, "one", pod.clone()), &["/spec/containers", "/spec/volumes"])
        .await;
    t.managers(&path).await;
    let again = Script::applying(&path, "one", pod.clone());
    t.pick(again, &["/metadata/resourceVersion"]).await;
    let other = with(pod, "/spec/nodeSelector", json!({"zone": "b"}));
    t.apply(&path, "two", other).await;
    let status = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "example.dev/Ready", "status": "True"}]},
    });
    let request = Script::applying(format!("{path}/status"), "two", status);
    t.pick(request, &["/status/phase", "/status/conditions"]).await;
    t.managers(&path).await;
}

pub(super) async fn apply_of_other_built_ins(t: &mut Script) {
    let lease = format!("{}/a", t.leases());
    t.apply(&lease, "one", fixtures::lease("a")).await;
    t.managers(&lease).await;
    let role = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles/a", t.ns());
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let config = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "a"},
        "rules": rules,
    });
    t.apply(&role, "one", config).await;
    t.managers(&role).await;
    let secret = format!("/api/v1/namespaces/{}/secrets/a", t.ns());
    let config = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a"},
        "data": {"a": "MQ=="},
    });
    t.apply(&secret, "one", config).await;
    t.managers(&secret).await;
    let namespace = format!("/api/v1/namespaces/{}", t.ns());
    let config = with(fixtures::namespace(t.ns()), "/metadata/labels", json!({"l": "1"}));
    t.apply_by_force(&namespace, "one", config).await;
}

pub(super) async fn apply_of_a_definition(t: &mut Script) {
    let definition = definition("parts", "Part", "applied.windlass.dev");
    let path = format!("{CRDS}/parts.applied.windlass.dev");
    let names = ["/metadata/name", "/metadata/generation", "/spec/names", "/spec/conversion"];
    t.pick(Script::applying(&path, "one", definition.clone()), &names).await;
    let parts = format!("/apis/applied.windlass.dev/v1/namespaces/{}/parts/a", t.ns());
    let part = json!({
        "apiVersion": "applied.windlass.dev/v1",
        "kind": "Part",
        "metadata": {"name": "a"},
        "spec": {"x": 1},
    });
    let served = |answer: &Answer| answer.is_success();
    t.wait_until(Script::applying(&parts, "one", part), "it is served", served).await;
    let request = Script::applying(&path, "one", definition);
    t.pick(request, &["/metadata/generation", "/spec/names"]).await;
    t.managers(&parts).await;
    t.look(Request::delete(&path)).await;
}
