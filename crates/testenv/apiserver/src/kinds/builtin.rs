//! The built-in kinds, as a table.
//!
//! Every row has what kube-apiserver v1.36.3 reports in discovery and does in its strategies
//! (generation, updates without a version, creation by PUT, the answer to DELETE, names). Kinds
//! that make no sense without their controller (admission policies, API services, certificates,
//! priority and fairness, device claims) and `autoscaling/v1` are left out of the table and of
//! discovery: a client gets a 404 instead of a false success. Subresources that this server does
//! not have (`pods/log`, `pods/exec`, …) are left out, too; a request for one gets a 400.
//!
//! Invariant: groups are in the priority order of the real server's discovery.

mod row;

use self::row::{Row, cluster, namespaced};
use crate::kind::{Dependents, Generation, Kind, StatusMetadata, Verbs};
use crate::metadata::NameRule;

/// The built-in kinds, in the order of discovery.
pub(crate) fn builtin() -> Vec<Kind> {
    GROUPS
        .iter()
        .flat_map(|(group, version, rows)| rows.iter().map(|row| row.kind(group, version)))
        .collect()
}

/// Returns the position of a group in discovery. All groups that are not built in share the last
/// one.
pub(crate) fn rank(group: &str) -> usize {
    GROUPS.iter().position(|(name, ..)| *name == group).unwrap_or(GROUPS.len())
}

/// The labels of `core/v1` events that a field selector may use.
const EVENT_LABELS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// The labels of pods that a field selector may use; `spec.host` is an old name of `spec.nodeName`,
/// and `status.podIPs` is accepted but never has a value.
const POD_LABELS: &[&str] = &[
    "spec.nodeName",
    "spec.host",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

/// Group, version and kinds.
const GROUPS: &[(&str, &str, &[Row])] = &[
    ("", "v1", CORE),
    ("apps", "v1", APPS),
    (
        "events.k8s.io",
        "v1",
        &[namespaced("events", "Event").short(&["ev"]).create_on_update().of_core_events()],
    ),
    (
        "authentication.k8s.io",
        "v1",
        &[
            cluster("selfsubjectreviews", "SelfSubjectReview").review(),
            cluster("tokenreviews", "TokenReview").review(),
        ],
    ),
    (
        "authorization.k8s.io",
        "v1",
        &[
            namespaced("localsubjectaccessreviews", "LocalSubjectAccessReview").review(),
            cluster("selfsubjectaccessreviews", "SelfSubjectAccessReview").review(),
            cluster("selfsubjectrulesreviews", "SelfSubjectRulesReview").review(),
            cluster("subjectaccessreviews", "SubjectAccessReview").review(),
        ],
    ),
    (
        "autoscaling",
        "v2",
        &[namespaced("horizontalpodautoscalers", "HorizontalPodAutoscaler")
            .short(&["hpa"])
            .in_all()
            .status()],
    ),
    (
        "batch",
        "v1",
        &[
            namespaced("cronjobs", "CronJob")
                .short(&["cj"])
                .in_all()
                .status()
                .generation(Generation::Content),
            namespaced("jobs", "Job")
                .in_all()
                .status()
                .generation(Generation::Content)
                .selectable(&["status.successful"])
                .dependents(Dependents::Orphaned),
        ],
    ),
    (
        "networking.k8s.io",
        "v1",
        &[
            cluster("ingressclasses", "IngressClass").generation(Generation::Content),
            namespaced("ingresses", "Ingress")
                .short(&["ing"])
                .status()
                .generation(Generation::Content),
            namespaced("networkpolicies", "NetworkPolicy")
                .short(&["netpol"])
                .generation(Generation::Content),
        ],
    ),
    (
        "policy",
        "v1",
        &[namespaced("poddisruptionbudgets", "PodDisruptionBudget")
            .short(&["pdb"])
            .status()
            .generation(Generation::Content)
            .versioned_update()],
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        &[
            cluster("clusterrolebindings", "ClusterRoleBinding")
                .names(NameRule::Path)
                .create_on_update(),
            cluster("clusterroles", "ClusterRole").names(NameRule::Path).create_on_update(),
            namespaced("rolebindings", "RoleBinding").names(NameRule::Path).create_on_update(),
            namespaced("roles", "Role").names(NameRule::Path).create_on_update(),
        ],
    ),
    (
        "storage.k8s.io",
        "v1",
        &[cluster("storageclasses", "StorageClass").short(&["sc"]).returns_deleted()],
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        &[
            cluster("mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
                .categories(&["api-extensions"])
                .generation(Generation::Content)
                .versioned_update(),
            cluster("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
                .categories(&["api-extensions"])
                .generation(Generation::Content)
                .versioned_update(),
        ],
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        &[cluster("customresourcedefinitions", "CustomResourceDefinition")
            .short(&["crd", "crds"])
            .categories(&["api-extensions"])
            .status()
            .status_metadata(StatusMetadata::Kept)
            .generation(Generation::Content)
            .versioned_update()],
    ),
    (
        "scheduling.k8s.io",
        "v1",
        &[cluster("priorityclasses", "PriorityClass").short(&["pc"]).generation(Generation::Fixed)],
    ),
    (
        "coordination.k8s.io",
        "v1",
        &[namespaced("leases", "Lease").create_on_update().versioned_update()],
    ),
    (
        "node.k8s.io",
        "v1",
        &[cluster("runtimeclasses", "RuntimeClass").create_on_update().versioned_update()],
    ),
    (
        "discovery.k8s.io",
        "v1",
        &[namespaced("endpointslices", "EndpointSlice").generation(Generation::ContentOrLabels)],
    ),
];

/// The kinds of the core group.
const CORE: &[Row] = &[
    namespaced("configmaps", "ConfigMap").short(&["cm"]),
    namespaced("endpoints", "Endpoints").short(&["ep"]).create_on_update(),
    namespaced("events", "Event")
        .short(&["ev"])
        .create_on_update()
        .selectable(EVENT_LABELS)
        .dependents(Dependents::Ignored),
    namespaced("limitranges", "LimitRange").short(&["limits"]).create_on_update(),
    cluster("namespaces", "Namespace")
        .short(&["ns"])
        .status()
        .subresources(&["finalize"])
        .selectable(&["status.phase"])
        .returns_deleted()
        .names(NameRule::Label)
        .verbs(Verbs::AllButDeleteCollection),
    cluster("nodes", "Node")
        .short(&["no"])
        .status()
        .keeps_status_on_create()
        .selectable(&["spec.unschedulable"]),
    namespaced("persistentvolumeclaims", "PersistentVolumeClaim")
        .short(&["pvc"])
        .status()
        .returns_deleted(),
    cluster("persistentvolumes", "PersistentVolume").short(&["pv"]).status().returns_deleted(),
    namespaced("pods", "Pod")
        .short(&["po"])
        .in_all()
        .status()
        .status_metadata(StatusMetadata::WrittenExcept("ownerReferences"))
        .subresources(&["binding", "eviction"])
        .selectable(POD_LABELS)
        .generation(Generation::Content)
        .returns_deleted(),
    namespaced("podtemplates", "PodTemplate").generation(Generation::Content).returns_deleted(),
    namespaced("replicationcontrollers", "ReplicationController")
        .short(&["rc"])
        .in_all()
        .status()
        .scale()
        .selectable(&["status.replicas"])
        .dependents(Dependents::Orphaned)
        .generation(Generation::Content),
    namespaced("resourcequotas", "ResourceQuota").short(&["quota"]).status().returns_deleted(),
    namespaced("secrets", "Secret").selectable(&["type"]),
    namespaced("serviceaccounts", "ServiceAccount")
        .short(&["sa"])
        .subresources(&["token"])
        .returns_deleted(),
    // Since 1.36 the name of a service may start with a digit.
    namespaced("services", "Service")
        .short(&["svc"])
        .in_all()
        .status()
        .selectable(&["spec.clusterIP", "spec.type"])
        .create_on_update()
        .returns_deleted()
        .names(NameRule::Label),
];

/// The kinds of the group `apps`.
const APPS: &[Row] = &[
    namespaced("controllerrevisions", "ControllerRevision"),
    namespaced("daemonsets", "DaemonSet")
        .short(&["ds"])
        .in_all()
        .status()
        .generation(Generation::Content),
    namespaced("deployments", "Deployment")
        .short(&["deploy"])
        .in_all()
        .status()
        .status_metadata(StatusMetadata::WrittenExcept("labels"))
        .scale()
        .generation(Generation::ContentOrAnnotations),
    namespaced("replicasets", "ReplicaSet")
        .short(&["rs"])
        .in_all()
        .status()
        .scale()
        .generation(Generation::Content),
    namespaced("statefulsets", "StatefulSet")
        .short(&["sts"])
        .in_all()
        .status()
        .scale()
        .generation(Generation::Content)
        .names(NameRule::Label),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(group: &str, plural: &str) -> Kind {
        builtin()
            .into_iter()
            .find(|kind| kind.is(group, plural))
            .expect("the kind must be in the table")
    }

    #[test]
    fn plurals_are_unique_in_their_group() {
        let mut names: Vec<(String, String)> =
            builtin().into_iter().map(|kind| (kind.group, kind.plural)).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn exactly_the_kinds_with_a_strategy_for_it_have_a_generation() {
        let without: Vec<String> = builtin()
            .into_iter()
            .filter(|kind| !kind.rules.generation.counts() && kind.rules.verbs != Verbs::CreateOnly)
            .map(|kind| kind.plural)
            .collect();
        let expected = [
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "resourcequotas",
            "secrets",
            "serviceaccounts",
            "services",
            "controllerrevisions",
            "events",
            "horizontalpodautoscalers",
            "clusterrolebindings",
            "clusterroles",
            "rolebindings",
            "roles",
            "storageclasses",
            "leases",
            "runtimeclasses",
        ];
        assert_eq!(without, expected);
    }

    #[test]
    fn leases_can_be_created_by_put_and_never_be_overwritten_blindly() {
        let rules = find("coordination.k8s.io", "leases").rules;
        assert!(rules.create_on_update);
        assert!(!rules.unconditional_update);
        assert!(find("", "configmaps").rules.unconditional_update);
    }

    #[test]
    fn deleting_a_pod_answers_with_the_pod_and_deleting_a_config_map_with_a_status() {
        assert!(find("", "pods").rules.returns_deleted);
        assert!(!find("", "configmaps").rules.returns_deleted);
    }

    #[test]
    fn an_event_is_stored_under_the_core_names_and_shown_under_the_new_ones() {
        let kinds = builtin();
        let event = kinds
            .iter()
            .find(|kind| kind.is("events.k8s.io", "events"))
            .expect("the kind must exist");
        let version = event.storage();
        let shown = json!({"regarding": {"kind": "Pod"}, "note": "n", "reportingController": "c", "reason": "r"});
        let stored = json!({"involvedObject": {"kind": "Pod"}, "message": "n", "reportingComponent": "c", "reason": "r"});
        let mut object = shown.clone();
        version.to_stored(&mut object);
        assert_eq!(object, stored);
        version.to_shown(&mut object);
        assert_eq!(object, shown);
    }
}
