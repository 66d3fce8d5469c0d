//! The tables of built-in kinds: columns as data, cells as functions of the object's JSON.
//!
//! There is a module for each family of kinds; `columns` has the columns of all. The cells have the
//! texts of kube-apiserver v1.36.3. Kinds that are not listed have the two columns that fit every
//! object.

mod access;
mod batch;
mod cluster;
mod columns;
mod config;
mod events;
mod network;
mod pods;
mod policy;
mod storage;
mod workloads;

use serde_json::{Value, json};

use super::age::Now;
use super::cells::{name, number, text};
use super::column::{AGE, CREATED_AT, Column, NAME, NAME_WITHOUT_FORMAT, integer};

/// The table of one kind.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    pub(super) columns: &'static [Column],
    /// Returns the cells of an object: an array with a value for each column.
    pub(super) cells: fn(&Value, Now) -> Value,
    /// Returns the conditions of a row, or null.
    pub(super) conditions: fn(&Value) -> Value,
    /// Whether an empty list has `"rows": null`, as the real server writes it for kinds without
    /// columns of their own, instead of `"rows": []`.
    pub(super) null_for_no_rows: bool,
}

impl BuiltIn {
    const fn new(columns: &'static [Column], cells: fn(&Value, Now) -> Value) -> Self {
        Self { columns, cells, conditions: |_| Value::Null, null_for_no_rows: false }
    }
}

/// The table of kinds without columns of their own.
static DEFAULT: BuiltIn = BuiltIn {
    null_for_no_rows: true,
    ..BuiltIn::new(&[NAME, CREATED_AT], |object, _| {
        json!([name(object), text(&object["metadata"]["creationTimestamp"])])
    })
};

/// The table of a built-in kind's scale.
pub(super) static SCALE: BuiltIn = BuiltIn::new(
    &[NAME_WITHOUT_FORMAT, integer("Desired"), integer("Available"), AGE],
    |scale, now| {
        let (desired, actual) = (&scale["spec"]["replicas"], &scale["status"]["replicas"]);
        json!([name(scale), number(desired), number(actual), now.age(scale)])
    },
);

/// Returns the table of a built-in kind.
pub(super) fn of(group: &str, plural: &str) -> &'static BuiltIn {
    match (group, plural) {
        ("", "configmaps") => &config::CONFIG_MAPS,
        ("", "endpoints") => &network::ENDPOINTS,
        ("" | "events.k8s.io", "events") => &events::EVENTS,
        ("", "namespaces") => &cluster::NAMESPACES,
        ("", "nodes") => &cluster::NODES,
        ("", "persistentvolumeclaims") => &storage::CLAIMS,
        ("", "persistentvolumes") => &storage::VOLUMES,
        ("", "pods") => &pods::PODS,
        ("", "podtemplates") => &pods::POD_TEMPLATES,
        ("", "replicationcontrollers") => &workloads::REPLICATION_CONTROLLERS,
        ("", "resourcequotas") => &config::RESOURCE_QUOTAS,
        ("", "secrets") => &config::SECRETS,
        ("", "serviceaccounts") => &config::SERVICE_ACCOUNTS,
        ("", "services") => &network::SERVICES,
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => &config::WEBHOOK_CONFIGURATIONS,
        ("apps", "controllerrevisions") => &workloads::CONTROLLER_REVISIONS,
        ("apps", "daemonsets") => &workloads::DAEMON_SETS,
        ("apps", "deployments") => &workloads::DEPLOYMENTS,
        ("apps", "replicasets") => &workloads::REPLICA_SETS,
        ("apps", "statefulsets") => &workloads::STATEFUL_SETS,
        ("autoscaling", "horizontalpodautoscalers") => &policy::AUTOSCALERS,
        ("batch", "cronjobs") => &batch::CRON_JOBS,
        ("batch", "jobs") => &batch::JOBS,
        ("coordination.k8s.io", "leases") => &cluster::LEASES,
        ("discovery.k8s.io", "endpointslices") => &network::ENDPOINT_SLICES,
        ("networking.k8s.io", "ingressclasses") => &network::INGRESS_CLASSES,
        ("networking.k8s.io", "ingresses") => &network::INGRESSES,
        ("networking.k8s.io", "networkpolicies") => &network::NETWORK_POLICIES,
        ("node.k8s.io", "runtimeclasses") => &cluster::RUNTIME_CLASSES,
        ("policy", "poddisruptionbudgets") => &policy::DISRUPTION_BUDGETS,
        ("rbac.authorization.k8s.io", "clusterrolebindings") => &access::CLUSTER_ROLE_BINDINGS,
        ("rbac.authorization.k8s.io", "rolebindings") => &access::ROLE_BINDINGS,
        ("scheduling.k8s.io", "priorityclasses") => &cluster::PRIORITY_CLASSES,
        ("storage.k8s.io", "storageclasses") => &storage::CLASSES,
        _ => &DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names of fields that cells read, to generate unvalidated objects.
    const FIELDS: &str = "(metadata|spec|status|template|containers|initContainers|name|phase|\
                          containerStatuses|initContainerStatuses|state|terminated|conditions|\
                          type|ports|rules|subsets|addresses|metrics|target|hard|used|labels|\
                          creationTimestamp|restartCount|selector|matchExpressions|series)";

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z:/]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(FIELDS, inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_object_has_a_cell_for_every_column(object in any_json()) {
            let now = Now("2026-01-01T00:00:00Z".parse().expect("a time"));
            for kind in crate::kinds::builtin() {
                let printer = of(&kind.group, &kind.plural);
                let cells = (printer.cells)(&object, now);
                prop_assert_eq!(cells.as_array().map(Vec::len), Some(printer.columns.len()));
                (printer.conditions)(&object);
            }
        }
    }

    /// With too few or too many cells, values would be printed in the wrong columns.
    #[test]
    fn an_empty_object_of_every_kind_has_a_cell_for_every_column() {
        let now = Now("2026-01-01T00:00:00Z".parse().expect("a time"));
        for kind in crate::kinds::builtin() {
            let printer = of(&kind.group, &kind.plural);
            let cells = (printer.cells)(&json!({"metadata": {}}), now);
            let cells = cells.as_array().map(Vec::len);
            assert_eq!(cells, Some(printer.columns.len()), "{}", kind.plural);
        }
    }
}
