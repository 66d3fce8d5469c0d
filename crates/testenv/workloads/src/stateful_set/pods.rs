//! The pods of a stateful set: names, revisions, mounted claims.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use windlass_reconciler::Error;

use super::claims::claim_name;
use super::members::pod_name;
use super::revision::template;
use crate::objects::{ControllerRevision, Pod, StatefulSet};
use crate::pod::from_template;

/// The revision of a pod.
const REVISION: &str = "controller-revision-hash";
/// The pod's own name, so that a service can select it.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The pod's ordinal.
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// Returns the name of a pod's revision.
pub(super) fn revision_of(pod: &Pod) -> Option<&str> {
    pod.labels().get(REVISION).map(String::as_str)
}

/// Returns whether the pod has its identity label.
pub(super) fn has_identity(pod: &Pod) -> bool {
    pod.labels().get(POD_NAME) == Some(&pod.name_any())
}

/// Sets the identity labels of the pod.
pub(super) fn set_identity(pod: &mut Pod, ordinal: i32) {
    let name = pod.name_any();
    let labels = pod.labels_mut();
    labels.insert(POD_NAME.to_owned(), name);
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
}

/// Returns the pod with this ordinal and revision.
///
/// # Errors
/// If the metadata of the template cannot be read.
pub(super) fn new_pod(
    set: &StatefulSet,
    revision: &ControllerRevision,
    ordinal: i32,
) -> Result<Pod, Error> {
    let mut pod = from_template(&template(revision), set)?;
    let name = pod_name(set, ordinal);
    pod.metadata.name = Some(name.clone());
    set_identity(&mut pod, ordinal);
    pod.labels_mut().insert(REVISION.to_owned(), revision.name_any());
    pod.spec["hostname"] = name.into();
    if !set.spec.service_name.is_empty() {
        pod.spec["subdomain"] = set.spec.service_name.clone().into();
    }
    mount_claims(set, &mut pod.spec, ordinal);
    Ok(pod)
}

/// Adds the pod's claims as volumes, named after their claim templates.
fn mount_claims(set: &StatefulSet, spec: &mut Value, ordinal: i32) {
    let templates = &set.spec.volume_claim_templates;
    if templates.is_empty() {
        return;
    }
    let names = templates.iter().filter_map(|template| template["metadata"]["name"].as_str());
    let mut volumes: Vec<Value> = names
        .map(|name| {
            let claim = claim_name(set, name, ordinal);
            json!({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        })
        .collect();
    let is_claimed = |volume: &Value| volumes.iter().any(|claim| claim["name"] == volume["name"]);
    let others = spec["volumes"].as_array().into_iter().flatten();
    let others: Vec<Value> = others.filter(|volume| !is_claimed(volume)).cloned().collect();
    volumes.extend(others);
    spec["volumes"] = volumes.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_of_its_revision_and_has_its_names_and_claims() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": "db", "namespace": "x", "uid": "1"},
            "spec": {
                "serviceName": "dbs",
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            },
        }))
        .expect("a set");
        let revision: ControllerRevision = serde_json::from_value(json!({
            "metadata": {"name": "db-abc"},
            "data": {"spec": {"template": {
                "$patch": "replace",
                "metadata": {"labels": {"app": "db"}},
                "spec": {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]},
            }}},
        }))
        .expect("a revision");
        let pod = new_pod(&set, &revision, 4).expect("a pod");
        assert_eq!(pod.name_any(), "db-4");
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("db-"));
        assert_eq!(revision_of(&pod), Some("db-abc"));
        assert!(has_identity(&pod));
        assert_eq!(
            (&pod.labels()[POD_INDEX], &pod.labels()["app"]),
            (&"4".to_owned(), &"db".to_owned())
        );
        assert_eq!(
            pod.spec,
            json!({"hostname": "db-4", "subdomain": "dbs", "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-4"}},
                {"name": "tmp", "emptyDir": {}},
            ]})
        );
    }
}
