//! One pod: what differs between pods of a workload, and what the kubelet reports of them.
//!
//! The pod is made by one field manager, and its status by another through the subresource, so that
//! the server itself keeps books on it as it does in a cluster: nearly half of a pod are managed
//! fields. Changes are reports of the kubelet as well, as most changes of pods are. Each differs
//! from the last by its stamp.

use anyhow::Result;
use fastrand::Rng;
use kube::core::Request;
use serde_json::{Map, Value, json};
use windlass_bench_stage::{STAMP, manager, send};

use super::template::{TEMPLATES, Template, hex};

/// Who makes pods, as it stands in their managed fields.
pub(crate) const CREATOR: &str = "kube-controller-manager";

/// Who reports their status.
const KUBELET: &str = "kubelet";

/// How many pods there are on a node.
const PODS_PER_NODE: usize = 30;

/// The letters of generated names.
const LETTERS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";

/// A pod as it is written.
#[derive(Debug)]
pub(crate) struct Pod {
    /// Its name.
    pub(crate) name: String,
    /// The path of its namespace's pods.
    pub(crate) path: String,
    metadata: Value,
    spec: Map<String, Value>,
    status: Value,
}

impl Pod {
    /// The pod with this index.
    pub(crate) fn new(templates: &[Template], index: usize) -> Self {
        let template = &templates[index % TEMPLATES];
        let mut rng = Rng::with_seed(u64::MAX - index as u64);
        let name = format!("{}-{}", template.replica_set, suffix(index));
        Self {
            path: format!("/api/v1/namespaces/{}/pods", template.namespace),
            metadata: metadata(template, &mut rng, &name),
            spec: spec(template, &mut rng, index),
            status: status(template, &mut rng, index),
            name,
        }
    }

    /// What makes the pod; the server takes no status with it.
    pub(crate) fn created(&self) -> Value {
        let Self { metadata, spec, .. } = self;
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    /// Writes the pod's status, with this stamp.
    pub(crate) async fn report(&self, client: &kube::Client, stamp: u64) -> Result<()> {
        let body = serde_json::to_vec(&self.reported(stamp))?;
        let status = Request::new(&self.path).replace_subresource(
            "status",
            &self.name,
            &manager(KUBELET),
            body,
        )?;
        send(client, status).await
    }

    /// What is written to its status, with this stamp.
    fn reported(&self, stamp: u64) -> Value {
        let mut metadata = self.metadata.clone();
        metadata["labels"][STAMP] = Value::String(stamp.to_string());
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": self.status})
    }
}

/// Five letters that no other index has.
fn suffix(index: usize) -> String {
    let mut rest = index;
    let mut letters = String::new();
    for _ in 0..5 {
        letters.push(char::from(LETTERS[rest % LETTERS.len()]));
        rest /= LETTERS.len();
    }
    letters
}

fn metadata(template: &Template, rng: &mut Rng, name: &str) -> Value {
    let mut annotations = template.annotations.clone();
    let mac = (0..6).map(|_| hex(rng, 2)).collect::<Vec<_>>().join(":");
    annotations.insert("cni.example.com/mac".to_owned(), Value::String(mac));
    json!({
        "name": name,
        "generateName": format!("{}-", template.replica_set),
        "namespace": template.namespace,
        "labels": template.labels,
        "annotations": annotations,
        "ownerReferences": [{
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": template.replica_set,
            "uid": template.owner_uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    })
}

/// The workload's spec, with a node and the volume that admission gives to every pod.
fn spec(template: &Template, rng: &mut Rng, index: usize) -> Map<String, Value> {
    let mut spec = template.spec.clone();
    spec.insert("nodeName".to_owned(), Value::String(node(index)));
    let access = format!("kube-api-access-{}", hex(rng, 5));
    let mount = json!({
        "name": access,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "readOnly": true,
    });
    for container in array(&mut spec, "containers") {
        let mounts = container["volumeMounts"].as_array_mut();
        mounts.expect("every container must have mounts").push(mount.clone());
    }
    array(&mut spec, "volumes").push(json!({
        "name": access,
        "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {
                "name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }},
            {"downwardAPI": {"items": [{
                "path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
            }]}},
        ]},
    }));
    spec
}

fn array<'a>(spec: &'a mut Map<String, Value>, name: &str) -> &'a mut Vec<Value> {
    spec.get_mut(name).and_then(Value::as_array_mut).expect("every template must have this list")
}

fn status(template: &Template, rng: &mut Rng, index: usize) -> Value {
    let minute = rng.u8(0..60);
    let at =
        |second: u8| format!("2026-06-0{}T1{}:{minute:02}:{second:02}Z", index % 9 + 1, index % 10);
    let conditions =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let conditions: Vec<_> = conditions
        .iter()
        .map(|condition| {
            json!({
                "type": condition,
                "status": "True",
                "observedGeneration": 1,
                "lastProbeTime": null,
                "lastTransitionTime": at(rng.u8(0..30)),
            })
        })
        .collect();
    let containers: Vec<_> = template
        .containers
        .iter()
        .map(|(name, image)| {
            json!({
                "name": name,
                "image": image,
                "imageID": format!("{}@sha256:{}", image.split(':').next().unwrap_or(image), hex(rng, 64)),
                "containerID": format!("containerd://{}", hex(rng, 64)),
                "ready": true,
                "started": true,
                "restartCount": rng.u8(0..3),
                "state": {"running": {"startedAt": at(rng.u8(30..59))}},
                "lastState": {},
            })
        })
        .collect();
    let address = format!("10.{}.{}.{}", 64 + index / 65_536, index / 256 % 256, index % 256);
    let host = index / PODS_PER_NODE;
    let host = format!("172.20.{}.{}", host / 256 % 256, host % 256);
    json!({
        "phase": "Running",
        "observedGeneration": 1,
        "conditions": conditions,
        "containerStatuses": containers,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": at(0),
        "qosClass": "Burstable",
    })
}

fn node(index: usize) -> String {
    format!("node-{:05}.pool-{}.example.com", index / PODS_PER_NODE, index / PODS_PER_NODE % 7)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn templates() -> Vec<Template> {
        (0..TEMPLATES).map(Template::new).collect()
    }

    #[test]
    fn pods_are_the_same_in_every_run_and_differ_from_each_other() {
        let templates = templates();
        let text = |index| Pod::new(&templates, index).created().to_string();
        assert_eq!(text(7), text(7));
        // Of one workload, and of two.
        assert_ne!(text(7), text(7 + TEMPLATES));
        assert_ne!(text(7), text(8));
        let address = |index| {
            let Pod { path, name, .. } = Pod::new(&templates, index);
            (path, name)
        };
        let addresses: BTreeSet<_> = (0..10_000).map(address).collect();
        assert_eq!(addresses.len(), 10_000);
    }

    #[test]
    fn pods_have_a_place_and_one_to_three_containers() {
        let templates = templates();
        let mut counts = BTreeSet::new();
        for index in 0..TEMPLATES {
            let pod = Pod::new(&templates, index);
            let node = pod.spec["nodeName"].as_str().expect("a node");
            assert!(node.starts_with("node-"));
            let containers = pod.spec["containers"].as_array().expect("containers").len();
            let statuses = pod.status["containerStatuses"].as_array().map(Vec::len);
            assert_eq!(statuses, Some(containers));
            counts.insert(containers);
        }
        assert_eq!(counts, BTreeSet::from([1, 2, 3]));
    }
}
