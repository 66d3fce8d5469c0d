//! The pods of a job: their finalizer, their index, and new ones.

use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use windlass_indexer::ObjectKey;
use windlass_reconciler::{Error, RunContext};

use crate::objects::{Job, Pod};
use crate::pod::{FAILED, SUCCEEDED, from_template, is_deleted, phase};

/// The finalizer of a pod that is not counted yet.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The index of a pod: both an annotation and a label.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The maximum length of the prefix of a generated name.
const PREFIX_MAX: usize = 58;

/// Returns whether the pod has the finalizer.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// Adds the finalizer.
pub(super) fn track(pod: &mut Pod) {
    if !is_tracked(pod) {
        pod.finalizers_mut().push(TRACKING.to_owned());
    }
}

/// Removes the tracking finalizer from the pod, if the pod still exists.
///
/// # Errors
/// If the server refuses it.
pub(super) async fn untrack(cx: &RunContext, pod: &Pod) -> Result<(), Error> {
    let key = ObjectKey::namespaced(&pod.namespace().unwrap_or_default(), &pod.name_any());
    // The kubelet writes the pod, too, so the cached resource version may be old.
    let uid = pod.uid();
    cx.live::<Pod>()
        .modify(&key, |live| {
            if live.uid() == uid {
                live.finalizers_mut().retain(|finalizer| finalizer != TRACKING);
            }
        })
        .await?;
    Ok(())
}

/// Returns the index of the pod, if it is within the job's completions.
pub(super) fn index(job: &Job, pod: &Pod) -> Option<i32> {
    let index: i32 = pod.annotations().get(INDEX)?.parse().ok()?;
    (0..job.spec.completions.unwrap_or(0)).contains(&index).then_some(index)
}

/// Returns whether the pod counts as failed. A deleted pod does, unless the job waits for its end.
pub(super) fn is_failed(job: &Job, pod: &Pod) -> bool {
    phase(pod) == FAILED || (!job.waits_for_end() && is_deleted(pod) && phase(pod) != SUCCEEDED)
}

/// Returns a new pod; for an indexed job, with this index.
///
/// # Errors
/// If the metadata of the template cannot be read.
pub(super) fn new_pod(job: &Job, index: Option<i32>) -> Result<Pod, Error> {
    let mut pod = from_template(&job.spec.template, job)?;
    track(&mut pod);
    if let Some(index) = index {
        pod.annotations_mut().insert(INDEX.to_owned(), index.to_string());
        pod.labels_mut().insert(INDEX.to_owned(), index.to_string());
        pod.spec["hostname"] = format!("{}-{index}", job.name_any()).into();
        pod.metadata.generate_name = Some(prefix(&job.metadata, index));
        for containers in ["initContainers", "containers"] {
            for container in pod.spec[containers].as_array_mut().into_iter().flatten() {
                set_index_variable(container);
            }
        }
    }
    Ok(pod)
}

/// Returns a name prefix that contains the index, however long the name of the job is.
fn prefix(job: &ObjectMeta, index: i32) -> String {
    let end = format!("-{index}-");
    let mut name = job.name.clone().unwrap_or_default();
    name.truncate(PREFIX_MAX.saturating_sub(end.len()));
    name + &end
}

/// Sets the variable with the index, unless the container has one of that name.
fn set_index_variable(container: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let mut variables = container["env"].as_array().cloned().unwrap_or_default();
    if variables.iter().all(|variable| variable["name"] != NAME) {
        let path = format!("metadata.labels['{INDEX}']");
        variables.push(json!({"name": NAME, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
        container["env"] = variables.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> Job {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "x", "uid": "1"},
            "spec": {"completions": 3, "template": {
                "metadata": {"labels": {"app": "sum"}},
                "spec": {"containers": [
                    {"name": "a", "image": "a"},
                    {"name": "b", "image": "b", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]},
                ]},
            }},
        }))
        .expect("a job")
    }

    #[test]
    fn pod_with_an_index_has_annotation_label_and_variable() {
        let pod = new_pod(&job("sum"), Some(2)).expect("a pod");
        assert!(is_tracked(&pod));
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("sum-2-"));
        assert_eq!((&*pod.annotations()[INDEX], &*pod.labels()[INDEX]), ("2", "2"));
        assert_eq!(pod.spec["hostname"], "sum-2");
        let variables = |at: usize| pod.spec["containers"][at]["env"].clone();
        assert_eq!(
            variables(0)[0]["valueFrom"]["fieldRef"]["fieldPath"],
            "metadata.labels['batch.kubernetes.io/job-completion-index']"
        );
        assert_eq!(variables(1), json!([{"name": "JOB_COMPLETION_INDEX", "value": "x"}]));
        assert_eq!(index(&job("sum"), &pod), Some(2));
        let long = new_pod(&job(&"x".repeat(63)), Some(10)).expect("a pod");
        let prefix = long.metadata.generate_name.expect("a prefix");
        assert!(prefix.len() == PREFIX_MAX && prefix.ends_with("-10-"), "{prefix}");
    }

    #[test]
    fn pod_without_an_index_is_of_the_template() {
        let pod = new_pod(&job("sum"), None).expect("a pod");
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("sum-"));
        assert!(pod.annotations().is_empty() && pod.spec.get("hostname").is_none());
        assert_eq!(index(&job("sum"), &pod), None);
    }
}
