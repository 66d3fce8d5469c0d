//! Protobuf objects of built-in kinds: every type of field, written and read back.

use serde_json::{Value, json};

use super::{SECONDS_2001, in_core, in_group, post, put};
use crate::Script;
use crate::fixtures::{CRDS, configmap, deployment, with};
use crate::protobuf::PROTOBUF;
use crate::request::Request;

pub(in crate::cases) async fn object_is_created_from_protobuf(t: &mut Script) {
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

pub(in crate::cases) async fn object_in_protobuf_has_a_generated_name(t: &mut Script) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-", "name": ""},
    });
    t.send(post(t.configmaps(), object)).await;
}

pub(in crate::cases) async fn secret_in_protobuf_holds_bytes(t: &mut Script) {
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

/// A pod template with structs that Go embeds, and with special types.
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

pub(in crate::cases) async fn embedded_structs_and_types_of_their_own(t: &mut Script) {
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

pub(in crate::cases) async fn zero_counts_where_go_has_a_pointer(t: &mut Script) {
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

pub(in crate::cases) async fn values_in_protobuf_are_checked(t: &mut Script) {
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

pub(in crate::cases) async fn object_is_replaced_by_protobuf(t: &mut Script) {
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

pub(in crate::cases) async fn writing_back_in_protobuf_changes_nothing(t: &mut Script) {
    t.given(t.deployments(), deployment("a")).await;
    let path = format!("{}/a", t.deployments());
    let read = t.look(Request::get(&path).accept(PROTOBUF)).await;
    let mut object = read.body.clone();
    // Transcripts do not distinguish the formats of times.
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("creationTimestamp");
        metadata.remove("managedFields");
    }
    t.pick(put(&path, object), &["/metadata/resourceVersion", "/metadata/generation"]).await;
    t.pick(Request::get(&path), &["/metadata/resourceVersion", "/spec"]).await;
}

pub(in crate::cases) async fn lease_is_renewed_in_protobuf(t: &mut Script) {
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

pub(in crate::cases) async fn event_in_protobuf(t: &mut Script) {
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

pub(in crate::cases) async fn definition_in_protobuf(t: &mut Script) {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    // "red" and "blue", 3, and true, each as JSON text.
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

pub(in crate::cases) async fn kinds_of_other_groups_in_protobuf(t: &mut Script) {
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

pub(in crate::cases) async fn arbitrary_values_in_protobuf(t: &mut Script) {
    // The JSON text {"x":[1,null,{"y":1.5}]}.
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

pub(in crate::cases) async fn managed_fields_in_protobuf(t: &mut Script) {
    let applied = t.apply(t.configmap("a"), "first", configmap("a")).await;
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": applied.version()},
        "data": {"a": "2", "b": "1"},
    });
    t.pick(put(format!("{}?fieldManager=second", t.configmap("a")), object.clone()), &["/data"])
        .await;
    t.managers(t.configmap("a")).await;
    // The JSON text {"f:data":{"f:b":{}}}.
    object["metadata"] = json!({"name": "a", "managedFields": [{
        "manager": "third", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"Raw": "eyJmOmRhdGEiOnsiZjpiIjp7fX19"}, "time": {"seconds": SECONDS_2001, "nanos": 0},
    }]});
    t.pick(put(format!("{}?fieldManager=second", t.configmap("a")), object), &["/data"]).await;
    t.managers(t.configmap("a")).await;
}
