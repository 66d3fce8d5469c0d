//! The claims of a stateful set's pods, and their owners.
//!
//! A claim outlives its pod, unless the set's retention policy says otherwise: then it is owned by
//! the set, or by a pod that is removed by scaling down, and is deleted with that owner. Nothing
//! provisions volumes: claims stay pending, and pods run all the same.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt as _};
use serde_json::Value;
use windlass_reconciler::{Error, OwnershipError, owner_reference};

use crate::objects::{Claim, Pod, StatefulSet};

/// Returns the name of a claim of this template.
pub(super) fn claim_name(set: &StatefulSet, template: &str, ordinal: i32) -> String {
    format!("{template}-{}-{ordinal}", set.name_any())
}

/// Returns the claims that the pod with this ordinal needs.
///
/// # Errors
/// If the metadata of a template cannot be read.
pub(super) fn claims_of(set: &StatefulSet, ordinal: i32) -> Result<Vec<Claim>, Error> {
    let claim = |template: &Value| {
        let given: ObjectMeta = serde_json::from_value(template["metadata"].clone())?;
        let mut labels = given.labels.unwrap_or_default();
        labels.extend(set.spec.selector.match_labels.clone().unwrap_or_default());
        Ok(Claim {
            metadata: ObjectMeta {
                name: Some(claim_name(set, &given.name.unwrap_or_default(), ordinal)),
                namespace: set.namespace(),
                labels: Some(labels),
                annotations: given.annotations,
                finalizers: given.finalizers,
                ..ObjectMeta::default()
            },
            spec: template["spec"].clone(),
        })
    };
    set.spec.volume_claim_templates.iter().map(claim).collect()
}

/// Returns the owners that the claim should have; `None` if it has them already, or if this
/// controller must not change it.
///
/// # Errors
/// If the set or the pod was not read from a server.
pub(super) fn owners_of(
    claim: &Claim,
    set: &StatefulSet,
    pod: &Pod,
    is_surplus: bool,
) -> Result<Option<Vec<OwnerReference>>, OwnershipError> {
    let present = claim.owner_references();
    let is_ours = |owner: &&OwnerReference| is_named(owner, set) || is_named(owner, pod);
    // An owner with the name of the set or pod but another uid: left to the garbage collector.
    let is_stale = |owner: &OwnerReference| {
        (is_named(owner, set) && Some(&owner.uid) != set.metadata.uid.as_ref())
            || (is_named(owner, pod) && Some(&owner.uid) != pod.metadata.uid.as_ref())
    };
    if present.iter().any(is_stale) {
        return Ok(None);
    }
    let others = present.iter().filter(|owner| !is_ours(owner)).cloned();
    let mut owners: Vec<OwnerReference> = others.collect();
    let retention = &set.spec.persistent_volume_claim_retention_policy;
    let goes_with_pod = retention.deletes_when_scaled() && is_surplus;
    let goes_with_set = retention.deletes_with_set() && !goes_with_pod;
    let is_controlled = owners.iter().any(|owner| owner.controller == Some(true));
    if goes_with_pod && !is_controlled {
        owners.push(owner_reference(pod)?);
    } else if goes_with_set && !is_controlled {
        owners.push(owner_reference(set)?);
    }
    Ok((owners != present).then_some(owners))
}

/// Returns whether the claim will be deleted together with an earlier pod of this name. A new pod
/// has to wait for that.
pub(super) fn is_left_over(claim: &Claim, set: &StatefulSet, pod_name: &str) -> bool {
    let mut owners = claim.owner_references().iter();
    set.spec.persistent_volume_claim_retention_policy.deletes_when_scaled()
        && owners.any(|owner| owner.kind == "Pod" && owner.name == pod_name)
}

fn is_named<O: Resource<DynamicType = ()>>(reference: &OwnerReference, owner: &O) -> bool {
    reference.kind == O::kind(&())
        && reference.api_version == O::api_version(&())
        && Some(&reference.name) == owner.meta().name.as_ref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(when_deleted: &str, when_scaled: &str) -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "db", "namespace": "x", "uid": "s"},
            "spec": {
                "selector": {"matchLabels": {"app": "db"}},
                "volumeClaimTemplates": [
                    {"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": {"volumeMode": "Block"}},
                ],
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": when_deleted, "whenScaled": when_scaled,
                },
            },
        }))
        .expect("a set")
    }

    fn pod() -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "db-1", "uid": "p"}})).expect("a pod")
    }

    fn kinds(owners: Option<Vec<OwnerReference>>) -> Option<Vec<String>> {
        owners.map(|owners| owners.into_iter().map(|owner| owner.kind).collect())
    }

    #[test]
    fn claim_has_its_name_labels_and_spec() {
        let claims = claims_of(&set("Retain", "Retain"), 1).expect("claims");
        assert_eq!(claims[0].name_any(), "data-db-1");
        assert_eq!(json!(claims[0].labels()), json!({"a": "b", "app": "db"}));
        assert_eq!(claims[0].spec, json!({"volumeMode": "Block"}));
    }

    #[test]
    fn owner_of_a_claim_follows_from_the_retention_policy() {
        let free = claims_of(&set("Retain", "Retain"), 1).expect("claims").remove(0);
        let owners = |set: &StatefulSet, claim: &Claim, is_surplus| {
            kinds(owners_of(claim, set, &pod(), is_surplus).expect("owners"))
        };
        let named = |name: &str| Some(vec![name.to_owned()]);
        assert_eq!(owners(&set("Retain", "Retain"), &free, true), None);
        assert_eq!(owners(&set("Delete", "Retain"), &free, false), named("StatefulSet"));
        assert_eq!(owners(&set("Delete", "Retain"), &free, true), named("StatefulSet"));
        assert_eq!(owners(&set("Retain", "Delete"), &free, false), None);
        assert_eq!(owners(&set("Retain", "Delete"), &free, true), named("Pod"));
        assert_eq!(owners(&set("Delete", "Delete"), &free, false), named("StatefulSet"));
        assert_eq!(owners(&set("Delete", "Delete"), &free, true), named("Pod"));
        // The owner is removed when the policy changes back.
        let mut owned = free.clone();
        owned.metadata.owner_references =
            Some(vec![owner_reference(&set("Delete", "Retain")).expect("an owner")]);
        assert_eq!(owners(&set("Retain", "Retain"), &owned, false), Some(Vec::new()));
        assert_eq!(owners(&set("Delete", "Retain"), &owned, false), None);
    }

    #[test]
    fn claims_of_earlier_owners_and_of_others_are_left_alone() {
        let mut claim = claims_of(&set("Retain", "Retain"), 1).expect("claims").remove(0);
        let mut earlier = owner_reference(&pod()).expect("an owner");
        earlier.uid = "earlier".to_owned();
        claim.metadata.owner_references = Some(vec![earlier]);
        assert!(is_left_over(&claim, &set("Retain", "Delete"), "db-1"));
        assert!(!is_left_over(&claim, &set("Retain", "Retain"), "db-1"));
        let all = set("Delete", "Delete");
        assert!(owners_of(&claim, &all, &pod(), true).expect("owners").is_none());
        let mut foreign = owner_reference(&pod()).expect("an owner");
        foreign.kind = "Backup".to_owned();
        claim.metadata.owner_references = Some(vec![foreign]);
        assert!(owners_of(&claim, &all, &pod(), true).expect("owners").is_none());
    }
}
