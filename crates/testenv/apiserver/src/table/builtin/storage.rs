//! Volumes, claims and storage classes.

use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::cells::{UNSET, given_or, is_terminating, list, name, quantity, text};

/// Access modes and their short names, in the order of the cell.
const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

/// The annotations that make a class the default. Either is enough.
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

pub(super) static VOLUMES: BuiltIn = BuiltIn::new(columns::PERSISTENTVOLUMES, |object, now| {
    let (spec, status) = (&object["spec"], &object["status"]);
    json!([
        name(object),
        quantity(&spec["capacity"]["storage"]),
        access_modes(&spec["accessModes"]),
        text(&spec["persistentVolumeReclaimPolicy"]),
        phase(object),
        claim(&spec["claimRef"]),
        class(object),
        given_or(&spec["volumeAttributesClassName"], UNSET),
        text(&status["reason"]),
        now.age(object),
        given_or(&spec["volumeMode"], UNSET),
    ])
});

pub(super) static CLAIMS: BuiltIn = BuiltIn::new(columns::PERSISTENTVOLUMECLAIMS, |object, now| {
    let (spec, status) = (&object["spec"], &object["status"]);
    let volume = text(&spec["volumeName"]);
    // Without a volume, capacity and modes are unknown.
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (quantity(&status["capacity"]["storage"]), access_modes(&status["accessModes"]))
    };
    json!([
        name(object),
        phase(object),
        volume,
        capacity,
        modes,
        class(object),
        given_or(&spec["volumeAttributesClassName"], UNSET),
        now.age(object),
        given_or(&spec["volumeMode"], UNSET),
    ])
});

pub(super) static CLASSES: BuiltIn = BuiltIn::new(columns::STORAGECLASSES, |object, now| {
    let annotations = &object["metadata"]["annotations"];
    let is_default = IS_DEFAULT.iter().any(|key| annotations[*key] == "true");
    json!([
        format!("{}{}", name(object), if is_default { " (default)" } else { "" }),
        text(&object["provisioner"]),
        given_or(&object["reclaimPolicy"], "Delete"),
        given_or(&object["volumeBindingMode"], "Immediate"),
        object["allowVolumeExpansion"] == true,
        now.age(object),
    ])
});

fn phase(object: &Value) -> &str {
    if is_terminating(object) { "Terminating" } else { text(&object["status"]["phase"]) }
}

fn claim(reference: &Value) -> String {
    if reference.is_null() {
        return String::new();
    }
    format!("{}/{}", text(&reference["namespace"]), text(&reference["name"]))
}

/// Returns the class of a volume or claim. The old annotation has precedence over the field.
fn class(object: &Value) -> &str {
    let annotated = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    given_or(annotated, text(&object["spec"]["storageClassName"]))
}

fn access_modes(modes: &Value) -> String {
    let held = ACCESS_MODES.iter().filter(|(mode, _)| list(modes).iter().any(|one| one == mode));
    held.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
