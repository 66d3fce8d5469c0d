//! Bodies in protobuf: what Go clients send for built-in kinds, and bytes that are none.
//!
//! Fields have their names in the `.proto` files here: see [`crate::protobuf`].

use http::Method;
use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::{CRDS, OTHER_UID, configmap, deployment, lease, pod, widget, with};
use crate::protobuf::{PROTOBUF, body, envelope, message};
use crate::request::Request;

/// A time that a transcript does not replace: the first second of 2001.
const SECONDS_2001: i64 = 978_307_200;

fn post(path: impl Into<String>, object: Value) -> Request {
    Request::new(Method::POST, path).protobuf(object)
}

fn put(path: impl Into<String>, object: Value) -> Request {
    Request::new(Method::PUT, path).protobuf(object)
}

fn in_group(t: &Script, group: &str, plural: &str) -> String {
    format!("/apis/{group}/namespaces/{}/{plural}", t.ns())
}

fn in_core(t: &Script, plural: &str) -> String {
    format!("/api/v1/namespaces/{}/{plural}", t.ns())
}

pub(super) async fn object_is_created_from_protobuf(t: &mut Script) {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "a",
            "labels": {"b": "2", "a": "1"},
            "annotations": {"note": "ü"},
            "finalizers": ["example.dev/f"],
            "generation": "7",
            "creationTimestamp": {"seconds": SECONDS_2001, "nanos": 5},
        },
        "data": {"empty": "", "key": "value"},
        "binaryData": {"bytes": "AAEC/w=="},
        "immutable": false,
    });
    t.send(post(t.configmaps(), object.clone())).await;
    t.send(post(t.configmaps(), object)).await;
    t.get(t.configmap("a")).await;
}

pub(super) async fn object_in_protobuf_has_a_generated_name(t: &mut Script) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-", "name": ""},
    });
    t.send(post(t.configmaps(), object)).await;
}

pub(super) async fn secret_in_protobuf_holds_bytes(t: &mut Script) {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a"},
        "data": {"raw": "AP8=", "none": ""},
        "stringData": {"text": "plain"},
        "type": "Opaque",
    });
    t.send(post(in_core(t, "secrets"), object)).await;
}

/// A pod template with structs that Go embeds, and with types of their own.
fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {
            "volumes": [
                {"name": "empty", "volumeSource": {"emptyDir": {"sizeLimit": {"string": "1Gi"}}}},
                {"name": "config", "volumeSource": {
                    "configMap": {"localObjectReference": {"name": "c"}, "defaultMode": 0},
                }},
            ],
            "containers": [{
                "name": "main",
                "image": "main:1",
                "command": ["", "b"],
                "ports": [{"containerPort": 80}],
                "env": [
                    {"name": "A", "value": ""},
                    {"name": "B", "valueFrom": {"secretKeyRef": {
                        "localObjectReference": {"name": "s"}, "key": "k", "optional": false,
                    }}},
                ],
                "envFrom": [{"prefix": "P", "configMapRef": {"localObjectReference": {"name": "c"}}}],
                "resources": {
                    "limits": {"cpu": {"string": "1500m"}, "memory": {"string": "1073741824"}},
                    "requests": {"cpu": {"string": "500m"}},
                },
                "volumeMounts": [{"name": "empty", "mountPath": "/e"}],
                "livenessProbe": {
                    "handler": {"httpGet": {
                        "path": "/", "port": {"type": "1", "strVal": "web"}, "scheme": "",
                    }},
                },
                "readinessProbe": {"handler": {"tcpSocket": {"port": {"type": "0", "intVal": 80}}}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
                "securityContext": {"runAsNonRoot": false, "runAsUser": "0"},
            }],
            "terminationGracePeriodSeconds": "0",
            "automountServiceAccountToken": false,
            "securityContext": {"supplementalGroups": ["1", "2"], "fsGroup": "3"},
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": "0"}],
        },
    })
}

pub(super) async fn embedded_structs_and_types_of_their_own(t: &mut Script) {
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}, "matchExpressions": [
                {"key": "app", "operator": "In", "values": ["a"]},
            ]},
            "template": template(),
            "strategy": {"rollingUpdate": {
                "maxSurge": {"type": "1", "strVal": "30%"},
                "maxUnavailable": {"type": "0", "intVal": 2},
            }},
        },
    });
    t.send(post(t.deployments(), object)).await;
}

pub(super) async fn zero_counts_where_go_has_a_pointer(t: &mut Script) {
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 0,
            "paused": false,
            "minReadySeconds": 0,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {
                    "containers": [{"name": "main", "image": "main:1", "stdin": false}],
                    "terminationGracePeriodSeconds": "0",
                    "automountServiceAccountToken": false,
                    "hostNetwork": false,
                },
            },
        },
    });
    t.send(post(t.deployments(), object)).await;
}

pub(super) async fn values_in_protobuf_are_checked(t: &mut Script) {
    let negative = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "replicas": -1,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "b"}},
                "spec": {"containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    });
    t.send(post(t.deployments(), negative)).await;
    let name = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "A_b"}});
    t.send(post(t.configmaps(), name)).await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a"},
        "spec": {"hard": {"pods": {"string": "many"}}},
    });
    t.send(post(in_core(t, "resourcequotas"), quota)).await;
}

pub(super) async fn object_is_replaced_by_protobuf(t: &mut Script) {
    let old = t.given(t.configmaps(), configmap("a")).await;
    let object = |version: &str, value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "resourceVersion": version}, "data": {"a": value},
        })
    };
    t.send(put(t.configmap("a"), object(&old.version(), "2"))).await;
    t.send(put(t.configmap("a"), object(&old.version(), "3"))).await;
    t.send(put(t.configmap("a"), object("", "2"))).await;
    t.send(put(t.configmap("b"), object("", "2"))).await;
    t.get(t.configmap("a")).await;
}

pub(super) async fn writing_back_in_protobuf_changes_nothing(t: &mut Script) {
    t.given(t.deployments(), deployment("a")).await;
    let path = format!("{}/a", t.deployments());
    let read = t.look(Request::get(&path).accept(PROTOBUF)).await;
    let mut object = read.body.clone();
    // A transcript has no place for the form of times.
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("creationTimestamp");
        metadata.remove("managedFields");
    }
    t.pick(put(&path, object), &["/metadata/resourceVersion", "/metadata/generation"]).await;
    t.pick(Request::get(&path), &["/metadata/resourceVersion", "/spec"]).await;
}

pub(super) async fn status_is_written_in_protobuf(t: &mut Script) {
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

pub(super) async fn lease_is_renewed_in_protobuf(t: &mut Script) {
    let spec = |holder: &str, nanos: i64| {
        json!({
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": {"seconds": SECONDS_2001, "nanos": 0},
            "renewTime": {"seconds": SECONDS_2001, "nanos": nanos},
            "leaseTransitions": 0,
        })
    };
    let object = |version: &str, spec: Value| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "a", "resourceVersion": version}, "spec": spec,
        })
    };
    let path = format!("{}/a", t.leases());
    let made = t.send(post(t.leases(), object("", spec("x", 1_000)))).await;
    t.send(put(&path, object(&made.version(), spec("y", 123_456_789)))).await;
    t.send(put(&path, object(&made.version(), spec("z", 0)))).await;
    t.send(put(&path, object("", spec("z", 0)))).await;
}

pub(super) async fn event_in_protobuf(t: &mut Script) {
    let namespace = t.ns().to_owned();
    let about = json!({"kind": "Pod", "namespace": namespace, "name": "p"});
    let time = json!({"seconds": SECONDS_2001, "nanos": 7_000});
    let old = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "old", "namespace": namespace},
        "involvedObject": about, "reason": "R", "message": "m", "type": "Normal", "count": 1,
        "source": {"component": "c"}, "firstTimestamp": time, "lastTimestamp": time,
        "reportingComponent": "", "reportingInstance": "",
    });
    t.send(post(in_core(t, "events"), old)).await;
    let new = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "new", "namespace": namespace},
        "eventTime": time, "reportingController": "example.dev/c", "reportingInstance": "i",
        "action": "A", "reason": "R", "regarding": about, "note": "n", "type": "Warning",
    });
    t.send(post(in_group(t, "events.k8s.io/v1", "events"), new)).await;
}

pub(super) async fn scale_in_protobuf(t: &mut Script) {
    let made = t.given(t.deployments(), deployment("a")).await;
    let path = format!("{}/a/scale", t.deployments());
    let scale = |version: &str, replicas: i64| {
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "a", "namespace": t.ns(), "resourceVersion": version},
            "spec": {"replicas": replicas},
        })
    };
    let (first, stale) = (scale(&made.version(), 3), scale(&made.version(), 4));
    let (none, negative) = (scale("", 0), scale("", -1));
    t.send(put(&path, first)).await;
    t.send(put(&path, stale)).await;
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

pub(super) async fn delete_options_in_protobuf(t: &mut Script) {
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

pub(super) async fn delete_options_of_a_group(t: &mut Script) {
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

pub(super) async fn collection_is_deleted_with_options_in_protobuf(t: &mut Script) {
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

pub(super) async fn pod_is_bound_and_evicted_by_protobuf(t: &mut Script) {
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

pub(super) async fn reviews_in_protobuf(t: &mut Script) {
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

pub(super) async fn definition_in_protobuf(t: &mut Script) {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    // "red" and "blue", 3, and true, each as its text.
                    "color": {"type": "string", "default": {"raw": "InJlZCI="},
                        "enum": [{"raw": "InJlZCI="}, {"raw": "ImJsdWUi"}]},
                    "size": {"type": "integer", "minimum": 1, "maximum": 10.5, "default": {"raw": "Mw=="}},
                    "tags": {"type": "array", "items": {"schema": {"type": "string", "minLength": "1"}}},
                    "map": {"type": "object", "additionalProperties": {
                        "allows": true, "schema": {"type": "boolean"},
                    }},
                    "port": {"xKubernetesIntOrString": true},
                    "any": {"type": "object", "xKubernetesPreserveUnknownFields": true},
                },
            },
        },
    });
    let group = "protobuf.windlass.dev";
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group,
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    });
    t.send(post(CRDS, object)).await;
    let path = in_group(t, &format!("{group}/v1"), "things");
    t.wait_picking(&path, "served", |answer| answer.status == 200, &["/kind"]).await;
    let thing = |name: &str, spec: Value| {
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Thing",
            "metadata": {"name": name}, "spec": spec,
        })
    };
    t.post(&path, thing("a", json!({"any": {"x": 1}, "port": "http", "map": {"m": true}}))).await;
    t.post(&path, thing("b", json!({"color": "green", "size": 11, "tags": [""]}))).await;
}

pub(super) async fn kinds_of_other_groups_in_protobuf(t: &mut Script) {
    let intstr = |port: i64| json!({"type": "0", "intVal": port});
    let meta = || json!({"name": "a"});
    let service = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(),
        "imagePullSecrets": [{"name": "s"}], "automountServiceAccountToken": false,
    });
    t.send(post(in_core(t, "serviceaccounts"), service)).await;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta(),
        "spec": {
            "schedule": "0 0 * * *", "suspend": true, "successfulJobsHistoryLimit": 0,
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "main", "image": "main:1"}],
            }}}},
        },
    });
    t.send(post(in_group(t, "batch/v1", "cronjobs"), job)).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(),
        "spec": {"minAvailable": {"type": "1", "strVal": "50%"}, "selector": {"matchLabels": {"a": "b"}}},
    });
    t.send(post(in_group(t, "policy/v1", "poddisruptionbudgets"), budget)).await;
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta(),
        "spec": {"rules": [{"host": "h.example", "ingressRuleValue": {"http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "s", "port": {"number": 80}}},
        }]}}}]},
    });
    t.send(post(in_group(t, "networking.k8s.io/v1", "ingresses"), ingress)).await;
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta(),
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": intstr(80), "endPort": 90}]}]},
    });
    t.send(post(in_group(t, "networking.k8s.io/v1", "networkpolicies"), policy)).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta(),
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
    });
    t.send(post(in_group(t, "rbac.authorization.k8s.io/v1", "roles"), role)).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta(),
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
    });
    t.send(post(in_group(t, "rbac.authorization.k8s.io/v1", "rolebindings"), binding)).await;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta(),
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}],
        "ports": [{"name": "", "port": 0}],
    });
    t.send(post(in_group(t, "discovery.k8s.io/v1", "endpointslices"), slice)).await;
}

pub(super) async fn arbitrary_values_in_protobuf(t: &mut Script) {
    // The text of {"x":[1,null,{"y":1.5}]}.
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"},
        "data": {"raw": "eyJ4IjpbMSxudWxsLHsieSI6MS41fV19"}, "revision": "0",
    });
    let path = in_group(t, "apps/v1", "controllerrevisions");
    t.send(post(&path, revision.clone())).await;
    t.send(post(
        &path,
        with(with(revision, "/metadata/name", json!("b")), "/revision", json!("2")),
    ))
    .await;
    t.send(Request::get(format!("{path}/b")).accept(PROTOBUF)).await;
}

pub(super) async fn dry_run_and_field_manager_of_a_protobuf_body(t: &mut Script) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"},
    });
    t.send(post(format!("{}?dryRun=All", t.configmaps()), object.clone())).await;
    t.pick(post(format!("{}?fieldManager=me", t.configmaps()), object), &["/data"]).await;
    t.managers(t.configmap("a")).await;
}

pub(super) async fn managed_fields_in_protobuf(t: &mut Script) {
    let applied = t.apply(t.configmap("a"), "first", configmap("a")).await;
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": applied.version()},
        "data": {"a": "2", "b": "1"},
    });
    t.pick(put(format!("{}?fieldManager=second", t.configmap("a")), object.clone()), &["/data"])
        .await;
    t.managers(t.configmap("a")).await;
    // The text of {"f:data":{"f:b":{}}}.
    object["metadata"] = json!({"name": "a", "managedFields": [{
        "manager": "third", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"Raw": "eyJmOmRhdGEiOnsiZjpiIjp7fX19"}, "time": {"seconds": SECONDS_2001, "nanos": 0},
    }]});
    t.pick(put(format!("{}?fieldManager=second", t.configmap("a")), object), &["/data"]).await;
    t.managers(t.configmap("a")).await;
}

pub(super) async fn envelope_may_leave_out_the_kind(t: &mut Script) {
    let fields = |name: &str| json!({"metadata": {"name": name}});
    for (name, version, kind) in [("a", "", ""), ("b", "v1", ""), ("c", "", "ConfigMap")] {
        let bytes = envelope(version, kind, &message("v1", "ConfigMap", &fields(name)));
        let shown = format!("version {version:?}, kind {kind:?}, name {name}");
        t.send(Request::new(Method::POST, t.configmaps()).protobuf_bytes(bytes, &shown)).await;
    }
}

pub(super) async fn envelope_of_another_kind(t: &mut Script) {
    let raw = message("v1", "ConfigMap", &json!({"metadata": {"name": "a"}}));
    for (version, kind) in
        [("v1", "Secret"), ("v1", "Nonsense"), ("v9", "ConfigMap"), ("apps/v1", "Deployment")]
    {
        let bytes = envelope(version, kind, &raw);
        let shown = format!("version {version:?}, kind {kind:?}");
        t.send(Request::new(Method::POST, t.configmaps()).protobuf_bytes(bytes, &shown)).await;
    }
}

pub(super) async fn body_that_is_no_protobuf(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let whole = body(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}));
    for (bytes, shown) in [
        (Vec::new(), "nothing"),
        (b"{\"kind\":\"ConfigMap\"}".to_vec(), "JSON"),
        (b"k8s".to_vec(), "three of four bytes"),
        (b"k8s\0".to_vec(), "the prefix alone"),
        (b"k8s\0\x0a".to_vec(), "a tag and no length"),
        (b"k8s\0\x08\x01".to_vec(), "a number in place of the type meta"),
        (whole[..whole.len() - 1].to_vec(), "all but the last byte"),
    ] {
        let post = Request::new(Method::POST, t.configmaps());
        t.send(post.protobuf_bytes(bytes.clone(), shown)).await;
        if !bytes.is_empty() {
            t.send(Request::delete(t.configmap("a")).protobuf_bytes(bytes, shown)).await;
        }
    }
}

pub(super) async fn message_that_is_broken(t: &mut Script) {
    for (raw, shown) in [
        (&b"\x0a\x05"[..], "metadata that ends too early"),
        (b"\x08\x01", "a number in place of metadata"),
        (b"\x0a\x02\x08\x01", "a number in place of the name"),
        (b"\x0a\x03\x0a\x02a", "a name that ends too early"),
        (b"\x12\x03\x0a\x02a", "an entry of data that ends too early"),
        (b"\x10\x01", "a number in place of data"),
        (b"\x00", "field 0"),
        (b"\x0c", "the end of a group"),
        (b"\x0f", "a wire type that nobody knows"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a tag without an end"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a length below zero"),
        (b"\xa3\x06\x08\x01", "an unknown group without an end"),
    ] {
        let bytes = envelope("v1", "ConfigMap", raw);
        t.send(Request::new(Method::POST, t.configmaps()).protobuf_bytes(bytes, shown)).await;
    }
}

pub(super) async fn fields_that_nobody_knows_are_skipped(t: &mut Script) {
    let mut raw =
        message("v1", "ConfigMap", &json!({"metadata": {"name": "a"}, "data": {"a": "1"}}));
    // Field 100: a number, eight bytes, four bytes, two bytes behind a length, and a group.
    raw.extend(b"\xa0\x06\x01\xa1\x06\0\0\0\0\0\0\0\0\xa5\x06\0\0\0\0\xa2\x06\x02hi\xa3\x06\x08\x01\xa4\x06");
    let bytes = envelope("v1", "ConfigMap", &raw);
    let path = format!("{}?fieldValidation=Strict", t.configmaps());
    let shown = "a config map with five fields 100";
    t.send(Request::new(Method::POST, path).protobuf_bytes(bytes, shown)).await;
}

pub(super) async fn fields_that_come_twice_are_merged(t: &mut Script) {
    let mut raw = message(
        "v1",
        "Pod",
        &json!({
            "metadata": {"name": "a", "labels": {"l": "1", "k": "1"}, "finalizers": ["example.dev/a"]},
            "spec": {"containers": [{"name": "one", "image": "one:1"}], "restartPolicy": "Always"},
        }),
    );
    raw.extend(message(
        "v1",
        "Pod",
        &json!({
            "metadata": {"name": "b", "labels": {"l": "2"}, "finalizers": ["example.dev/b"]},
            "spec": {"containers": [{"name": "two", "image": "two:1"}], "restartPolicy": "Never"},
        }),
    ));
    let bytes = envelope("v1", "Pod", &raw);
    t.send(Request::new(Method::POST, t.pods()).protobuf_bytes(bytes, "two pods in a row")).await;
}

/// Custom resources themselves have no protobuf: a real server closes the connection.
pub(super) async fn delete_options_of_custom_resources(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let options = delete_options(&json!({"dryRun": ["All"]}));
    t.send(Request::delete(t.widget("a")).protobuf(options)).await;
    t.send(Request::delete(t.widget("a")).protobuf(delete_options(&json!({})))).await;
}

pub(super) async fn patches_are_not_sent_in_protobuf(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    let bytes = envelope("v1", "ConfigMap", &message("v1", "ConfigMap", &json!({})));
    for path in [t.configmap("a"), t.widget("a")] {
        let request = Request::new(Method::PATCH, path);
        t.send(request.protobuf_bytes(bytes.clone(), "a config map")).await;
    }
}
