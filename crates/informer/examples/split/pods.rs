//! A list of pods as a busy cluster has them: owned, labelled, with a full status and managedFields.

use serde_json::{Map, Value, json};

/// `count` pods, of some hundred templates, as the API server writes them in a list.
pub(crate) fn pods(count: usize, seed: u64) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|index| pod(index, &mut random)).collect()
}

/// The body of a LIST of these objects.
pub(crate) fn list(objects: &[String]) -> Vec<u8> {
    let start =
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"900000"},"items":["#;
    format!("{start}{}]}}", objects.join(",")).into_bytes()
}

/// The body of a watch that brings these objects.
pub(crate) fn watch(objects: &[String]) -> Vec<u8> {
    let mut body = Vec::new();
    for object in objects {
        body.extend_from_slice(br#"{"type":"ADDED","object":"#);
        body.extend_from_slice(object.as_bytes());
        body.extend_from_slice(b"}\n");
    }
    body
}

/// The same objects as the API server writes them for browsers and curl.
pub(crate) fn pretty(objects: &[String]) -> Vec<String> {
    let pretty = |object: &String| {
        let object: Value = serde_json::from_str(object).expect("an object must be JSON");
        serde_json::to_string_pretty(&object).expect("an object must be JSON")
    };
    objects.iter().map(pretty).collect()
}

/// One pod, its metadata in the order in which Go writes them.
fn pod(index: usize, random: &mut fastrand::Rng) -> String {
    let app = format!("app-{}", random.u16(..300));
    let spec = spec(&app, random);
    let status = status(&spec, random);
    let labels =
        json!({"app": app, "pod-template-hash": hex(random), "team": format!("t{}", index % 17)});
    let annotations = json!({
        "prometheus.io/scrape": "true",
        "note": format!("set by \"{app}\": {{\"managedFields\":[{}]}} C:\\dir", random.u32(..)),
    });
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-{}", hex(random)),
        "uid": uid(random), "controller": true, "blockOwnerDeletion": true}]);
    let set = fields(
        &json!({"metadata": {"annotations": annotations, "labels": labels, "ownerReferences": {}},
        "spec": spec}),
    );
    let seen = fields(&json!({"status": status}));
    format!(
        r#"{{"metadata":{{"name":"{app}-{}","generateName":"{app}-","namespace":"ns-{}","uid":"{}","resourceVersion":"{}","generation":1,"creationTimestamp":"2026-11-15T00:45:19Z","labels":{labels},"annotations":{annotations},"ownerReferences":{owner},"managedFields":[{},{}]}},"spec":{spec},"status":{status}}}"#,
        hex(random),
        index % 40,
        uid(random),
        900_000 - index,
        entry("kube-controller-manager", &set, ""),
        entry("kubelet", &seen, r#","subresource":"status""#),
    )
}

fn entry(manager: &str, fields: &Value, rest: &str) -> String {
    format!(
        r#"{{"manager":"{manager}","operation":"Update","apiVersion":"v1","time":"2026-11-15T00:45:19Z","fieldsType":"FieldsV1","fieldsV1":{fields}{rest}}}"#
    )
}

fn spec(app: &str, random: &mut fastrand::Rng) -> Value {
    let containers: Vec<_> = (0..random.usize(1..=3)).map(|n| container(app, n, random)).collect();
    json!({
        "volumes": [
            {"name": "config", "configMap": {"name": format!("{app}-config"), "defaultMode": 420}},
            {"name": "kube-api-access", "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef":
                    {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}], "defaultMode": 420}}],
        "containers": containers,
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app, "serviceAccount": app, "nodeName": format!("node-{}", random.u16(..500)),
        "securityContext": {}, "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        "priority": 0, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority"
    })
}

fn container(app: &str, number: usize, random: &mut fastrand::Rng) -> Value {
    let env: Vec<_> = (0..random.usize(2..10))
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("{app}/{}", hex(random))}))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "initialDelaySeconds": 5,
        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    json!({
        "name": format!("c{number}"), "image": format!("registry.example.com/team/{app}:v1.{}", random.u8(..)),
        "args": ["--listen=:8080", format!("--shard={}", random.u8(..))],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": env,
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app"},
            {"name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "livenessProbe": probe, "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent"
    })
}

fn status(spec: &Value, random: &mut fastrand::Rng) -> Value {
    let conditions: Vec<_> = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    .iter()
    .map(|kind| {
        json!({"type": kind, "status": "True", "observedGeneration": 1, "lastProbeTime": null,
            "lastTransitionTime": "2026-11-15T00:45:20Z"})
    })
    .collect();
    let containers = spec["containers"].as_array().expect("a pod must have containers");
    let containers: Vec<_> = containers
        .iter()
        .map(|container| json!({"name": container["name"], "image": container["image"], "ready": true, "started": true,
            "state": {"running": {"startedAt": "2026-11-15T00:45:21Z"}}, "lastState": {}, "restartCount": 0,
            "imageID": format!("sha256:{}", hex(random).repeat(8)), "containerID": format!("containerd://{}", hex(random).repeat(8))}))
        .collect();
    let ip = format!("10.{}.{}.{}", random.u8(..), random.u8(..), random.u8(..));
    json!({"phase": "Running", "observedGeneration": 1, "conditions": conditions, "hostIP": "10.0.0.1", "podIP": ip,
        "podIPs": [{"ip": ip}], "startTime": "2026-11-15T00:45:19Z", "containerStatuses": containers, "qosClass": "Burstable"})
}

/// The set of fields that a value has, as managedFields write it.
fn fields(value: &Value) -> Value {
    let mut set = Map::new();
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                set.insert(format!("f:{key}"), fields(value));
            }
        }
        Value::Array(items) => {
            for item in items {
                let key = ["name", "type", "ip", "containerPort"]
                    .iter()
                    .find(|key| !item[**key].is_null());
                if let Some(key) = key {
                    let mut item_fields = fields(item);
                    item_fields["."] = json!({});
                    set.insert(format!("k:{}", json!({*key: item[*key]})), item_fields);
                }
            }
        }
        _ => {}
    }
    Value::Object(set)
}

fn hex(random: &mut fastrand::Rng) -> String {
    format!("{:08x}", random.u32(..))
}

fn uid(random: &mut fastrand::Rng) -> String {
    format!(
        "{}-{:04x}-4{:03x}-8{:03x}-{}{:04x}",
        hex(random),
        random.u16(..),
        random.u16(..4096),
        random.u16(..4096),
        hex(random),
        random.u16(..)
    )
}
