//! What is in the cluster of this process in the beginning, and what a new pod looks like.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The nodes.
pub(crate) const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// What runs there: namespace, name, and whether it ends by itself.
pub(crate) const APPS: [(&str, &str, bool); 3] =
    [("shop", "web", false), ("shop", "api", false), ("batch", "report", true)];

/// The label of pods that are to wait for the `PodGroup` of this name.
pub const GROUP_LABEL: &str = "scheduling.example.com/pod-group";

/// The kind of the cluster's custom resource. A Rust type for it is nowhere.
pub fn pod_group_kind() -> GroupVersionKind {
    GroupVersionKind::gvk("scheduling.example.com", "v1alpha1", "PodGroup")
}

/// Namespaces, nodes, a claim and the definition of a custom resource.
pub(crate) async fn create_all(client: &Client) -> Result<()> {
    for namespace in ["shop", "batch"] {
        let object = json!({"metadata": {"name": namespace}});
        create(&Api::<Namespace>::all(client.clone()), object).await?;
    }
    for node in NODES {
        create(&Api::<Node>::all(client.clone()), new_node(node)).await?;
    }
    let claim = json!({
        "metadata": {"name": "orders"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    create(&Api::<PersistentVolumeClaim>::namespaced(client.clone(), "shop"), claim).await?;
    create(&Api::<CustomResourceDefinition>::all(client.clone()), pod_group_definition()).await
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let kind = K::kind(&());
    let object = serde_json::from_value(object).with_context(|| format!("a bad {kind}"))?;
    api.create(&PostParams::default(), &object)
        .await
        .with_context(|| format!("the {kind} cannot be created"))?;
    Ok(())
}

/// Pod groups of a namespace.
pub(crate) fn pod_groups(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&pod_group_kind());
    Api::namespaced_with(client.clone(), namespace, &resource)
}

pub(crate) fn new_pod_group(name: &str) -> DynamicObject {
    let resource = ApiResource::from_gvk(&pod_group_kind());
    DynamicObject::new(name, &resource).data(json!({"spec": {"open": true}}))
}

/// A pod of an app.
///
/// # Panics
/// Never: the object below is one.
pub(crate) fn new_pod(app: &str, name: &str, has_group: bool) -> Pod {
    let mut labels = json!({"app": app});
    if has_group {
        labels[GROUP_LABEL] = app.into();
    }
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": app, "image": format!("registry.example.com/{app}:1")}]},
    }))
    .expect("a pod must be one")
}

fn new_node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "15Gi", "pods": "110"},
        },
    })
}

fn pod_group_definition() -> Value {
    let kind = pod_group_kind();
    json!({
        "metadata": {"name": format!("podgroups.{}", kind.group)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": "podgroups", "singular": "podgroup"},
            "versions": [{
                "name": kind.version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {
                        "type": "object",
                        "properties": {"open": {"type": "boolean"}},
                    }},
                }},
            }],
        },
    })
}
