//! What is new about a pod, in a few words.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// How a pod is.
pub(crate) fn condition(pod: &Pod) -> String {
    match node(pod) {
        Some(node) => format!("{} on {node}", phase(pod)),
        None => format!("{}, on no node yet", phase(pod)),
    }
}

/// What a new version of a pod brings.
pub(crate) fn change(old: &Pod, new: &Pod) -> String {
    let mut news = Vec::new();
    if old.uid() != new.uid() {
        news.push("another pod of the same name".to_owned());
    }
    if let (None, Some(node)) = (node(old), node(new)) {
        news.push(format!("assigned to {node}"));
    }
    if phase(old) != phase(new) {
        news.push(format!("{} → {}", phase(old), phase(new)));
    }
    if restarts(old) != restarts(new) {
        news.push(format!("restarted, {} in all", restarts(new)));
    }
    if old.metadata.deletion_timestamp.is_none() && new.metadata.deletion_timestamp.is_some() {
        news.push("it is to be deleted".to_owned());
    }
    if old.labels() != new.labels() {
        news.push("other labels".to_owned());
    }
    if news.is_empty() {
        let version = |pod: &Pod| pod.resource_version().unwrap_or_default();
        news.push(format!("version {} → {}", version(old), version(new)));
    }
    news.join(", ")
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.into_iter().flatten().map(|container| container.restart_count).sum()
}
