//! Protobuf messages that are not objects: status, scale, options, bindings, evictions and reviews.

use http::Method;
use serde_json::{Value, json};

use super::{SECONDS_2001, post, put};
use crate::Script;
use crate::fixtures::{OTHER_UID, configmap, deployment, lease, pod, widget};
use crate::protobuf::{PROTOBUF, envelope, message};
use crate::request::Request;

pub(in crate::cases) async fn status_is_written_in_protobuf(t: &mut Script) {
    t.given(t.deployments(), deployment("a")).await;
    let time = json!({"seconds": SECONDS_2001, "nanos": 0});
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"replicas": 9},
        "status": {
            "observedGeneration": "1",
            "replicas": 0,
            "collisionCount": 0,
            "conditions": [{
                "type": "Available", "status": "True", "reason": "", "lastUpdateTime": time,
                "lastTransitionTime": {"seconds": SECONDS_2001, "nanos": 999_999_999},
            }],
        },
    });
    t.send(put(format!("{}/a/status", t.deployments()), object)).await;
}

pub(in crate::cases) async fn scale_in_protobuf(t: &mut Script) {
    let made = t.given(t.deployments(), deployment("a")).await;
    let path = format!("{}/a/scale", t.deployments());
    let scale = |version: &str, replicas: i64| {
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "a", "namespace": t.ns(), "resourceVersion": version},
            "spec": {"replicas": replicas},
        })
    };
    let (first, second) = (scale(&made.version(), 3), scale(&made.version(), 4));
    let (none, negative) = (scale("", 0), scale("", -1));
    t.send(put(&path, first)).await;
    t.send(put(&path, second)).await;
    t.send(put(&path, none)).await;
    t.send(put(&path, negative)).await;
    t.send(Request::get(&path).accept(PROTOBUF)).await;
}

fn delete_options(fields: &Value) -> Value {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    for (name, value) in fields.as_object().into_iter().flatten() {
        options[name] = value.clone();
    }
    options
}

pub(in crate::cases) async fn delete_options_in_protobuf(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let path = t.configmap("a");
    let delete = |fields: Value| Request::delete(&path).protobuf(delete_options(&fields));
    t.send(delete(json!({"preconditions": {"uid": OTHER_UID}}))).await;
    t.send(delete(json!({"preconditions": {"resourceVersion": "1"}}))).await;
    t.send(delete(json!({"propagationPolicy": "Sideways"}))).await;
    t.send(delete(json!({"dryRun": ["All"]}))).await;
    t.send(delete(json!({"propagationPolicy": "Foreground", "gracePeriodSeconds": "0"}))).await;
    t.wait_gone(&path).await;
}

pub(in crate::cases) async fn delete_options_of_a_group(t: &mut Script) {
    t.given(t.leases(), lease("a")).await;
    t.given(t.leases(), lease("b")).await;
    let options = |version: &str| json!({"apiVersion": version, "kind": "DeleteOptions"});
    let request = Request::delete(format!("{}/a", t.leases()));
    t.send(request.protobuf(options("coordination.k8s.io/v1"))).await;
    let request = Request::delete(format!("{}/b", t.leases()));
    let bytes = envelope("v1", "Pod", &[]);
    t.send(request.clone().protobuf_bytes(bytes, "a Pod in place of options")).await;
    t.send(request.protobuf(options("v9"))).await;
}

pub(in crate::cases) async fn collection_is_deleted_with_options_in_protobuf(t: &mut Script) {
    for name in ["a", "b"] {
        t.given(t.configmaps(), configmap(name)).await;
    }
    let options = delete_options(&json!({"dryRun": ["All"]}));
    let one = format!("{}?fieldSelector=metadata.name%3Da", t.configmaps());
    t.send(Request::delete(&one).protobuf(options)).await;
    let options = delete_options(&json!({"gracePeriodSeconds": "0"}));
    t.send(Request::delete(&one).protobuf(options)).await;
    t.wait_gone(t.configmap("a")).await;
    t.get(t.configmap("b")).await;
}

pub(in crate::cases) async fn pod_is_bound_and_evicted_by_protobuf(t: &mut Script) {
    t.given(t.pods(), pod("a")).await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n"},
    });
    t.send(post(format!("{}/a/binding", t.pods()), binding)).await;
    t.pick(Request::get(format!("{}/a", t.pods())), &["/spec/nodeName"]).await;
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"},
        "deleteOptions": {"gracePeriodSeconds": "0"},
    });
    t.send(post(format!("{}/a/eviction", t.pods()), eviction)).await;
    t.wait_gone(format!("{}/a", t.pods())).await;
}

pub(in crate::cases) async fn reviews_in_protobuf(t: &mut Script) {
    let access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let attributes = json!({"namespace": t.ns(), "verb": "get", "resource": "pods"});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    });
    t.pick(post(access, review), &["/spec", "/status/allowed"]).await;
    let subject = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "resourceAttributes": {"verb": "get", "resource": "pods"}, "user": "bob",
            "groups": ["g"], "extra": {"k": {"items": ["v", "w"]}},
        },
    });
    t.pick(post(subject, review), &["/spec", "/status/allowed"]).await;
    let token = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "none"},
    });
    t.pick(post(token, review), &["/spec", "/status/authenticated"]).await;
}

pub(in crate::cases) async fn dry_run_and_field_manager_of_a_protobuf_body(t: &mut Script) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"},
    });
    t.send(post(format!("{}?dryRun=All", t.configmaps()), object.clone())).await;
    t.pick(post(format!("{}?fieldManager=me", t.configmaps()), object), &["/data"]).await;
    t.managers(t.configmap("a")).await;
}

/// Custom resources do not support protobuf: a real server closes the connection.
pub(in crate::cases) async fn delete_options_of_custom_resources(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let options = delete_options(&json!({"dryRun": ["All"]}));
    t.send(Request::delete(t.widget("a")).protobuf(options)).await;
    t.send(Request::delete(t.widget("a")).protobuf(delete_options(&json!({})))).await;
}

pub(in crate::cases) async fn patches_are_not_sent_in_protobuf(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    let bytes = envelope("v1", "ConfigMap", &message("v1", "ConfigMap", &json!({})));
    for path in [t.configmap("a"), t.widget("a")] {
        let request = Request::new(Method::PATCH, path);
        t.send(request.protobuf_bytes(bytes.clone(), "a config map")).await;
    }
}
