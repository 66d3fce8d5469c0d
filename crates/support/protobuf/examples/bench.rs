//! Decodes one pod from protobuf and from JSON, into several types, and prints microseconds. An
//! argument chooses what to measure.

use std::hint::black_box;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_protobuf::{cut_managed_fields, from_raw, metadata_from_raw, raw_from_json, to_json};

/// A type with three fields.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only decoding is measured")]
struct Slim<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only decoding is measured")]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    resource_version: Option<&'a str>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only decoding is measured")]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    node_name: Option<&'a str>,
}

const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// How long each measurement takes.
const TIME: Duration = Duration::from_millis(300);

/// Prints the shortest of five averages.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn measure<T>(name: &str, mut run: impl FnMut() -> T) {
    if std::env::args().nth(1).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let mut best = f64::MAX;
    for _ in 0..5 {
        let (start, mut count) = (Instant::now(), 0_u32);
        while start.elapsed() < TIME {
            for _ in 0..100 {
                black_box(run());
            }
            count += 100;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    }
    println!("{name:42} {best:8.2} µs");
}

fn main() {
    let pod = pod();
    let raw = raw_from_json("v1", "Pod", pod.as_object().expect("an object")).expect("a pod");
    let json = to_json("v1", "Pod", &raw).expect("a pod");
    println!("one pod: {} bytes of protobuf, {} bytes of JSON", raw.len(), json.len());

    measure("from_raw::<Pod>", || from_raw::<Pod>("v1", "Pod", &raw).expect("a pod"));
    measure("serde_json::from_slice::<Pod>", || {
        serde_json::from_slice::<Pod>(&json).expect("a pod")
    });
    measure("from_raw::<three fields>", || from_raw::<Slim<'_>>("v1", "Pod", &raw).expect("a pod"));
    measure("serde_json::from_slice::<three fields>", || {
        serde_json::from_slice::<Slim<'_>>(&json).expect("a pod")
    });
    measure("from_raw::<Value>", || from_raw::<Value>("v1", "Pod", &raw).expect("a pod"));
    measure("serde_json::from_slice::<Value>", || {
        serde_json::from_slice::<Value>(&json).expect("a pod")
    });
    measure("metadata_from_raw::<name and version>", || {
        metadata_from_raw::<Metadata<'_>>(&raw).expect("a pod")
    });
    measure("to_json", || to_json("v1", "Pod", &raw).expect("a pod"));
    let mut out = Vec::new();
    measure("cut_managed_fields", || {
        out.clear();
        cut_managed_fields(&raw, &mut out).expect("a pod");
    });
}

/// A pod as a Deployment creates it, with its status and managed fields.
fn pod() -> Value {
    let time = "2026-01-02T03:04:05Z";
    let condition = |name: &str| json!({"type": name, "status": "True", "lastProbeTime": null, "lastTransitionTime": time});
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example/app:1.2.3", "imagePullPolicy": "IfNotPresent",
            "args": ["--port=8080", "--verbose"],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "LEVEL", "value": "info"},
            ],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/app"},
                {"name": "token", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
            ],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    };
    let status = |name: &str| {
        json!({
            "name": name, "ready": true, "restartCount": 0, "started": true,
            "image": "registry.example/app:1.2.3",
            "imageID": "registry.example/app@sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1",
            "containerID": "containerd://3b1f1d2c3a4b5c6d7e8f90112233445566778899aabbccddeeff001122334455",
            "state": {"running": {"startedAt": time}}, "lastState": {},
        })
    };
    json!({
        "metadata": {
            "name": "app-7d4b9c6f5d-x2v8k", "generateName": "app-7d4b9c6f5d-", "namespace": "shop",
            "uid": "0d9a7c57-3c66-4f3e-9d0c-6a2f5b0c1d2e", "resourceVersion": "123456789",
            "creationTimestamp": time,
            "labels": {"app": "app", "pod-template-hash": "7d4b9c6f5d", "tier": "web"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app-7d4b9c6f5d", "uid": "7c0a7c57-3c66-4f3e-9d0c-6a2f5b0c1d2e", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}},
                {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "subresource": "status", "fieldsV1": {"f:status": {"f:phase": {}}}},
            ],
        },
        "spec": {
            "containers": [container("app"), container("proxy")],
            "volumes": [
                {"name": "config", "configMap": {"name": "app", "defaultMode": 420}},
                {"name": "token", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
            "nodeName": "node-17", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "app", "serviceAccount": "app", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30, "priority": 0,
            "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable", "startTime": time,
            "hostIP": "10.0.0.17", "podIP": "10.1.17.5", "podIPs": [{"ip": "10.1.17.5"}],
            "conditions": CONDITIONS.map(condition),
            "containerStatuses": [status("app"), status("proxy")],
        },
    })
}
