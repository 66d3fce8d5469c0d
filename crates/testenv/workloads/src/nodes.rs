//! Made-up nodes: objects with the condition `Ready`, so that pods can be spread over them and
//! drained from them.

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::addresses::Network;
use crate::clock::stored;
use crate::error::WorkloadsError;
use crate::objects::Node;

/// The Kubernetes version in the nodes' status: that of the embedded API server.
const KUBELET_VERSION: &str = "v1.36.3";

/// The capacity of a node. Nothing is subtracted from it.
const CAPACITY: [(&str, &str); 4] =
    [("cpu", "8"), ("ephemeral-storage", "100Gi"), ("memory", "32Gi"), ("pods", "110")];

/// The zones, assigned to nodes in turn.
const ZONES: [&str; 3] = ["windlass-a", "windlass-b", "windlass-c"];

/// A server may taint new nodes with this until a controller sees that they are ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Creates this many nodes. An existing one is left as it is, labels, taints and all.
///
/// # Errors
/// If one cannot be created.
pub(crate) async fn register(
    client: &Client,
    count: u32,
    now: Timestamp,
) -> Result<(), WorkloadsError> {
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 0..count {
        let node = node(number, now);
        let failed = |error| WorkloadsError::Node { name: node.name_any(), error: Arc::new(error) };
        match nodes.create(&PostParams::default(), &node).await {
            Ok(created) => remove_not_ready_taint(&nodes, &created).await.map_err(failed)?,
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// Removes the taint of new nodes: no node controller does it here.
async fn remove_not_ready_taint(nodes: &Api<Node>, node: &Node) -> Result<(), kube::Error> {
    if node.spec.taints.iter().all(|taint| taint.key != NOT_READY) {
        return Ok(());
    }
    let kept: Vec<_> = node.spec.taints.iter().filter(|taint| taint.key != NOT_READY).collect();
    let patch = Patch::Merge(json!({"spec": {"taints": kept}}));
    nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Returns the name of the node with this number.
fn name(number: u32) -> String {
    format!("node-{}", number + 1)
}

fn node(number: u32, now: Timestamp) -> Node {
    let (name, network) = (name(number), Network::numbered(number));
    let zone = ZONES[usize::try_from(number).unwrap_or(0) % ZONES.len()];
    let labels = [
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", &name),
        ("kubernetes.io/os", "linux"),
        ("topology.kubernetes.io/region", "windlass"),
        ("topology.kubernetes.io/zone", zone),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut node = Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        status: status(&name, network, now),
        ..Node::default()
    };
    node.spec.pod_cidr = Some(network.pod_cidr());
    node.spec.pod_cidrs = vec![network.pod_cidr()];
    node.spec.provider_id = Some(format!("windlass://{name}"));
    node
}

fn status(name: &str, network: Network, now: Timestamp) -> Value {
    let capacity: serde_json::Map<String, Value> =
        CAPACITY.into_iter().map(|(name, amount)| (name.to_owned(), amount.into())).collect();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": stored(now), "lastTransitionTime": stored(now),
        })
    };
    json!({
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [
            {"type": "InternalIP", "address": network.host.to_string()},
            {"type": "Hostname", "address": name},
        ],
        "conditions": [
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition(
                "DiskPressure",
                "False",
                "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure",
            ),
            condition(
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": concat!("windlass://", env!("CARGO_PKG_VERSION")),
            "kernelVersion": "6.0.0-windlass",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "Windlass (made up)",
            "systemUUID": name,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_names_addresses_and_zones_of_their_own() {
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let (first, fourth) = (node(0, now), node(3, now));
        assert_eq!((first.name_any(), fourth.name_any()), ("node-1".into(), "node-4".into()));
        let zone = |node: &Node| node.labels()["topology.kubernetes.io/zone"].clone();
        assert_eq!(zone(&first), zone(&fourth));
        assert_ne!(zone(&first), zone(&node(1, now)));
        assert_eq!(Network::of(&fourth), Network::numbered(3));
        assert_ne!(first.spec.pod_cidr, fourth.spec.pod_cidr);
    }
}
