//! Defaults of built-in kinds.
//!
//! Most of them are data: `defaults/kinds.json` has, by plural, a fragment of a structural schema
//! with the defaults that [`Schema::default`] fills in. `defaults/parts.json` has the fragments
//! that several kinds share (the pod spec, a container, a probe, a volume, a claim). A fragment
//! names only the fields with a default; all other fields are kept. Defaults that depend on other
//! fields are small functions here and in the modules below. Fields that the real server always
//! writes (`status: {}`, `rules: null`) count as defaults, too.
//!
//! Left out, because this server does not have what they need: node ports are not allocated;
//! priority classes other than the two system classes are not looked up; requests of a whole pod
//! are not added up; quantities keep their spelling (the real server writes `1000m` as `1`); and
//! nothing is added that only a controller would remove again (the protection finalizers of volumes
//! and claims, the not-ready taint of a new node).

mod pod;
mod quantity;
mod service;
mod workload;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

pub(super) use self::quantity::Quantity;
use crate::kind::{Kind, Origin};
use crate::schema::Schema;

/// The fragments of the kinds, by plural. Parsed when the first object is written, so that the
/// server starts fast.
static KINDS: LazyLock<BTreeMap<String, Schema>> =
    LazyLock::new(|| fragments(include_str!("defaults/kinds.json")));

/// The fragments that several kinds share.
static PARTS: LazyLock<BTreeMap<String, Schema>> =
    LazyLock::new(|| fragments(include_str!("defaults/parts.json")));

/// Fills in the defaults that the real server sets before it stores an object of a built-in kind.
///
/// The object is in its stored form. On create, its name, uid and creation timestamp must be set
/// already, because some kinds copy them. Objects of custom kinds are not changed: their defaults
/// are in their own schema.
pub(crate) fn default_builtin(kind: &Kind, object: &mut Value, create: bool) {
    if kind.origin != Origin::BuiltIn || !object.is_object() {
        return;
    }
    strip_nulls(object);
    if create && kind.storage().status && !kind.rules.keeps_status_on_create {
        remove(object, "status");
    }
    if kind.plural == "jobs" {
        workload::completions(object);
    }
    if let Some(fragment) = KINDS.get(&kind.plural) {
        fragment.default(object);
    }
    on(object, "status", |status| {
        items(status, "conditions")
            .for_each(|condition| always(condition, condition_times(&kind.plural)));
    });
    match kind.plural.as_str() {
        "clusterroles" | "roles" => rules(object),
        "clusterrolebindings" | "rolebindings" => subjects(object),
        "customresourcedefinitions" => definition(object),
        "daemonsets" => workload::daemon_set(object, create),
        "deployments" => workload::deployment(object),
        "endpointslices" => always(object, &["endpoints", "ports"]),
        "events" => always(object, &["firstTimestamp", "lastTimestamp", "eventTime"]),
        "horizontalpodautoscalers" => {
            on(object, "status", |status| always(status, &["currentMetrics"]));
        }
        "jobs" => workload::job(object, create),
        "cronjobs" => on(object, "spec.jobTemplate.spec.template.spec", pod::pod_spec),
        "limitranges" => {
            on(object, "spec", |spec| items(spec, "limits").for_each(limit_range_item));
        }
        "namespaces" => namespace(object, create),
        "networkpolicies" => on(object, "spec", policy_types),
        "nodes" => on(object, "status", node),
        "persistentvolumeclaims" => on(object, "spec", |spec| part("claimSpec", spec)),
        "persistentvolumes" => persistent_volume(object, create),
        "pods" => pod::pod(object, create),
        "podtemplates" => on(object, "template.spec", pod::pod_spec),
        "replicasets" => on(object, "spec.template.spec", pod::pod_spec),
        "replicationcontrollers" => workload::replication_controller(object),
        "secrets" => secret(object),
        "services" => on(object, "spec", service::service),
        "statefulsets" => workload::stateful_set(object),
        _ => {}
    }
}

/// Parses a file of named fragments.
fn fragments(text: &str) -> BTreeMap<String, Schema> {
    let fragments: BTreeMap<String, Value> =
        serde_json::from_str(text).expect("the fragments must be JSON");
    fragments
        .into_iter()
        .map(|(name, fragment)| {
            (name, Schema::parse(&fragment).expect("a fragment must be a structural schema"))
        })
        .collect()
}

/// Applies a shared fragment to a part of an object, if the part is present.
fn part(name: &str, value: &mut Value) {
    if value.is_object() {
        PARTS.get(name).expect("a shared fragment must exist").default(value);
    }
}

/// Removes fields that are null, as decoding into Go structs does. The schema of a definition and
/// the data of a controller revision are untyped, and keep their nulls.
fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            for (name, value) in fields {
                if name != "openAPIV3Schema" && name != "data" {
                    strip_nulls(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// Runs a function on the value at a dotted path, if it exists. If a client sent another type than
/// an object on the way, validation reports it.
fn on(value: &mut Value, path: &str, change: impl FnOnce(&mut Value)) {
    if let Some(found) = path.split('.').try_fold(value, |value, name| value.get_mut(name)) {
        change(found);
    }
}

/// The items of a list field.
fn items<'a>(value: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Returns a string field that is not empty.
fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Sets a field that is missing.
fn fill(value: &mut Value, field: &str, default: Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.entry(field).or_insert(default);
    }
}

/// Sets a field.
fn set(value: &mut Value, field: &str, new: Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.insert(field.to_owned(), new);
    }
}

/// Removes a field.
fn remove(value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(field);
    }
}

/// Sets missing fields to null, as the real server writes them.
fn always(value: &mut Value, fields: &[&str]) {
    for field in fields {
        fill(value, field, Value::Null);
    }
}

/// Copies the entries of `from` that are missing in `to`, such as quantities from limits to
/// requests.
fn inherit(to: &mut Value, from: &Value) {
    if let (Some(to), Some(from)) = (to.as_object_mut(), from.as_object()) {
        for (name, value) in from {
            to.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// Whether a map is missing or has no entries.
fn is_empty(value: Option<&Value>) -> bool {
    value.and_then(Value::as_object).is_none_or(Map::is_empty)
}

/// Returns the times of a condition that the real server writes as null if they are unknown.
fn condition_times(plural: &str) -> &'static [&'static str] {
    match plural {
        "daemonsets" | "namespaces" | "replicasets" | "replicationcontrollers" | "statefulsets" => {
            &["lastTransitionTime"]
        }
        "deployments" => &["lastTransitionTime", "lastUpdateTime"],
        "jobs" | "persistentvolumeclaims" | "pods" => &["lastProbeTime", "lastTransitionTime"],
        "nodes" => &["lastHeartbeatTime", "lastTransitionTime"],
        _ => &[],
    }
}

/// Labels a namespace with its name. A new one also gets the `kubernetes` finalizer.
fn namespace(object: &mut Value, create: bool) {
    if let Some(name) = text(&object["metadata"], "name").map(str::to_owned) {
        on(object, "metadata", |metadata| fill(metadata, "labels", json!({})));
        on(object, "metadata.labels", |labels| {
            set(labels, "kubernetes.io/metadata.name", json!(name));
        });
    }
    if create {
        on(object, "spec", |spec| fill(spec, "finalizers", json!([])));
        on(object, "spec.finalizers", |finalizers| {
            if let Some(finalizers) = finalizers.as_array_mut()
                && !finalizers.iter().any(|finalizer| finalizer == "kubernetes")
            {
                finalizers.push(json!("kubernetes"));
            }
        });
    }
}

/// The allocatable resources of a node default to its capacity.
fn node(status: &mut Value) {
    if let Some(capacity) = status.get("capacity").cloned() {
        fill(status, "allocatable", capacity);
    }
}

/// Moves the `stringData` of a secret into its `data`. Validation reports a value that is not a
/// string.
fn secret(object: &mut Value) {
    let plain = match object.get_mut("stringData").map(Value::take) {
        Some(Value::Object(plain)) => plain,
        Some(other) => return set(object, "stringData", other),
        None => return,
    };
    remove(object, "stringData");
    if plain.is_empty() {
        return;
    }
    fill(object, "data", json!({}));
    for (key, value) in plain {
        let encoded =
            value.as_str().map_or(value.clone(), |text| json!(BASE64_STANDARD.encode(text)));
        on(object, "data", |data| set(data, &key, encoded));
    }
}

/// Sets `lastPhaseTransitionTime` on a new volume.
fn persistent_volume(object: &mut Value, create: bool) {
    on(object, "spec", |spec| part("volume", spec));
    if create {
        let now = object["metadata"]["creationTimestamp"].clone();
        on(object, "status", |status| fill(status, "lastPhaseTransitionTime", now));
    }
}

/// Derives the defaults and requests of containers in a limit range from its limits.
fn limit_range_item(item: &mut Value) {
    if item["type"] != "Container" {
        return;
    }
    fill(item, "default", json!({}));
    fill(item, "defaultRequest", json!({}));
    for (field, from) in
        [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")]
    {
        let from = item[from].clone();
        on(item, field, |amounts| inherit(amounts, &from));
    }
    for field in ["default", "defaultRequest"] {
        if is_empty(item.get(field)) {
            remove(item, field);
        }
    }
}

/// Removes empty lists from a role and its rules: a role without rules is written with `rules:
/// null`.
fn rules(object: &mut Value) {
    drop_empty_list(object, "rules");
    for rule in items(object, "rules") {
        for list in ["apiGroups", "resources", "resourceNames", "nonResourceURLs"] {
            drop_empty_list(rule, list);
        }
    }
    always(object, &["rules"]);
}

/// Removes an empty list, as the real server does when it stores an object.
fn drop_empty_list(value: &mut Value, field: &str) {
    if value.get(field).and_then(Value::as_array).is_some_and(Vec::is_empty) {
        remove(value, field);
    }
}

/// Fills in the API group of RBAC for roles, users and groups. Service accounts are in the core
/// group.
fn subjects(object: &mut Value) {
    drop_empty_list(object, "subjects");
    on(object, "roleRef", |role| {
        if text(role, "apiGroup").is_none() {
            set(role, "apiGroup", json!("rbac.authorization.k8s.io"));
        }
    });
    for subject in items(object, "subjects") {
        if matches!(text(subject, "kind"), Some("User" | "Group")) {
            fill(subject, "apiGroup", json!("rbac.authorization.k8s.io"));
        }
    }
}

/// A network policy applies to ingress, and to egress if it has rules for it.
fn policy_types(spec: &mut Value) {
    let egress =
        spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    fill(
        spec,
        "policyTypes",
        if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) },
    );
}

/// Fills in the names that a definition may leave out, and `storedVersions`.
fn definition(object: &mut Value) {
    on(object, "spec.names", |names| {
        if let Some(kind) = text(names, "kind").map(str::to_owned) {
            fill(names, "singular", json!(kind.to_lowercase()));
            fill(names, "listKind", json!(format!("{kind}List")));
        }
    });
    let stored = object["spec"]["versions"]
        .as_array()
        .and_then(|versions| versions.iter().find(|version| version["storage"] == true))
        .and_then(|version| version.get("name"))
        .map_or(Value::Null, |name| json!([name]));
    on(object, "status", |status| {
        fill(status, "storedVersions", stored);
        always(status, &["conditions"]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;
    use crate::kinds::registry::Resource;

    /// Objects that were sent to kube-apiserver v1.36.3 with `dryRun=All`, and its answers, which
    /// `cargo xtask record observed` records.
    fn observed() -> Vec<Value> {
        serde_json::from_str(include_str!("defaults/observed.json"))
            .expect("the observations must be JSON")
    }

    /// Returns the resource at a path like `/apis/apps/v1/namespaces/default/deployments`.
    fn resource(registry: &Registry, path: &str) -> Resource {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (group, version) =
            if parts[0] == "api" { ("", parts[1]) } else { (parts[1], parts[2]) };
        let plural = parts[parts.len() - 1];
        registry.resource(group, version, plural).expect("the kind must be built in")
    }

    /// Removes the parts of an answer that this server leaves out; see the module docs.
    fn remove_known_differences(answer: &mut Value, sent: &Value) {
        match answer["kind"].as_str() {
            Some("Service") => on(answer, "spec", |spec| {
                if sent["spec"].get("clusterIP").is_none() {
                    remove(spec, "clusterIP");
                    remove(spec, "clusterIPs");
                }
                items(spec, "ports").for_each(|port| remove(port, "nodePort"));
            }),
            Some("PersistentVolume" | "PersistentVolumeClaim") => {
                on(answer, "metadata", |metadata| remove(metadata, "finalizers"));
            }
            Some("Node") => {
                let taints = sent["spec"].get("taints").cloned();
                on(answer, "spec", |spec| match taints {
                    Some(taints) => set(spec, "taints", taints),
                    None => remove(spec, "taints"),
                });
            }
            Some("Pod") => on(answer, "spec", |spec| {
                let sent = sent["spec"]["containers"].as_array().into_iter().flatten();
                for (container, sent) in items(spec, "containers").zip(sent) {
                    let sent = &sent["resources"];
                    on(container, "resources", |resources| {
                        for field in ["limits", "requests"] {
                            if let Some(amounts) = sent.get(field) {
                                set(resources, field, amounts.clone());
                            }
                        }
                    });
                }
            }),
            _ => {}
        }
    }

    #[test]
    fn objects_are_filled_in_as_by_the_real_server() {
        let registry = Registry::new();
        for case in observed() {
            let name = case["case"].as_str().unwrap_or_default();
            let resource = resource(&registry, case["path"].as_str().unwrap_or_default());
            let mut answer = case["answer"].clone();
            remove_known_differences(&mut answer, &case["sent"]);
            let mut object = case["sent"].clone();
            for field in ["uid", "creationTimestamp", "namespace", "generation"] {
                if let Some(value) = answer["metadata"].get(field).cloned() {
                    on(&mut object, "metadata", |metadata| set(metadata, field, value));
                }
            }
            resource.entry.versions[resource.index].to_stored(&mut object);
            default_builtin(&resource.entry, &mut object, true);
            let once = object.clone();
            default_builtin(&resource.entry, &mut object, false);
            assert_eq!(object, once, "{name}: a second time changes nothing");
            resource.entry.versions[resource.index].to_shown(&mut object);
            assert_eq!(object, answer, "{name}");
            let generation = answer["metadata"].get("generation").is_some();
            assert_eq!(resource.entry.rules.generation.counts(), generation, "{name}");
        }
    }

    #[test]
    fn every_stored_kind_was_observed() {
        let paths: Vec<String> = observed().iter().map(|case| case["path"].to_string()).collect();
        for entry in Registry::new()
            .iter()
            .filter(|entry| entry.rules.verbs.names(Origin::BuiltIn).len() > 1)
        {
            let end = format!("/{}\"", entry.plural);
            assert!(paths.iter().any(|path| path.ends_with(&end)), "{}", entry.plural);
        }
    }

    #[test]
    fn values_of_wrong_types_are_not_changed() {
        let registry = Registry::new();
        for entry in registry.iter() {
            for nonsense in [
                json!(null),
                json!("text"),
                json!(1),
                json!([1, null, "x"]),
                json!({"template": 1}),
            ] {
                for field in [
                    "metadata",
                    "spec",
                    "status",
                    "data",
                    "stringData",
                    "template",
                    "subjects",
                    "roleRef",
                ] {
                    let mut object = json!({"metadata": {"name": "x"}});
                    set(&mut object, field, nonsense.clone());
                    default_builtin(&entry.declared, &mut object, true);
                    crate::kinds::validate_builtin(&entry.declared, &object);
                }
            }
        }
    }
}
