//! `CustomResourceDefinition`: the kind that a definition declares, and the status of a definition.

pub(crate) mod validate;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::kind::{Kind, Origin, Rules, Scale, Version};
use crate::kinds::by_preference;
use crate::schema::Schema;
use crate::table::custom::CustomColumns;
use crate::webhook::conversion::Conversion;
use crate::write::condition;

/// Fills in the defaults and the status of a new definition.
pub(crate) fn prepare_create(crd: &mut Map<String, Value>) {
    let mut value = Value::Object(std::mem::take(crd));
    validate::default(&mut value);
    value["status"] = json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": storage_version(&value).into_iter().collect::<Vec<_>>(),
    });
    if let Value::Object(filled) = value {
        *crd = filled;
    }
}

/// Returns the kind that a valid definition declares.
pub(crate) fn kind_of(crd: &Map<String, Value>) -> Option<Kind> {
    let spec = crd.get("spec")?;
    let names = spec.get("names")?;
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let texts = |field: &str| -> Vec<String> {
        let list = names.get(field).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let kind = text(names, "kind")?;
    let mut versions: Vec<Version> =
        spec.get("versions")?.as_array()?.iter().filter_map(version_of).collect();
    versions.sort_by(|a, b| by_preference(&a.name, &b.name));
    Some(Kind {
        group: text(spec, "group")?,
        plural: text(names, "plural")?,
        singular: text(names, "singular").unwrap_or_else(|| kind.to_lowercase()),
        list_kind: text(names, "listKind").unwrap_or_else(|| format!("{kind}List")),
        kind,
        short_names: texts("shortNames"),
        categories: texts("categories"),
        namespaced: spec.get("scope")? == "Namespaced",
        origin: Origin::Custom,
        versions,
        rules: Rules::custom(),
        stored_as: None,
        conversion: spec.get("conversion").and_then(Conversion::read).map(Arc::new),
    })
}

fn version_of(version: &Value) -> Option<Version> {
    let flag = |field: &str| version.get(field).and_then(Value::as_bool).unwrap_or(false);
    let subresources = version.get("subresources");
    let schema = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
    let scale = subresources.and_then(|subresources| subresources.get("scale"));
    let path =
        |scale: &Value, field: &str| scale.get(field).and_then(Value::as_str).map(str::to_owned);
    Some(Version {
        name: version.get("name")?.as_str()?.to_owned(),
        served: flag("served"),
        storage: flag("storage"),
        status: subresources.is_some_and(|subresources| subresources.get("status").is_some()),
        scale: scale.and_then(|scale| {
            Some(Scale {
                spec_replicas: path(scale, "specReplicasPath")?,
                status_replicas: path(scale, "statusReplicasPath")?,
                label_selector: path(scale, "labelSelectorPath"),
            })
        }),
        subresources: Vec::new(),
        declared_schema: schema.map(read_schema),
        selectable: selectable(version),
        columns: Some(CustomColumns::of(version)),
        renames: &[],
    })
}

/// Parses a schema. Definitions with an invalid schema are refused, so this error is a safeguard:
/// if such a definition is stored all the same, its objects cannot be written, because they could
/// not be validated.
fn read_schema(schema: &Value) -> Result<Arc<Schema>, String> {
    Schema::parse(schema).map(Arc::new).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join(", ")
    })
}

fn selectable(version: &Value) -> Vec<String> {
    let fields = version.get("selectableFields").and_then(Value::as_array).into_iter().flatten();
    let paths = fields.filter_map(|field| field.get("jsonPath")?.as_str());
    paths.map(|path| path.trim_start_matches('.').to_owned()).collect()
}

/// Returns the status of a condition, if it exists.
pub(crate) fn condition<'a>(crd: &'a Map<String, Value>, condition_type: &str) -> Option<&'a str> {
    let conditions = crd.get("status")?.get("conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == condition_type)?.get("status")?.as_str()
}

/// Notes in the status that the names are accepted. The kind is served next.
pub(crate) fn accept_names(crd: &mut Map<String, Value>, now: &str) {
    set_condition(crd, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now);
    if condition(crd, "Established") != Some("True") {
        let message = "the initial names have been accepted";
        set_condition(crd, "Established", "False", "Installing", message, now);
    }
    refresh_status(crd);
}

/// Notes in the status that the kind is served.
pub(crate) fn establish(crd: &mut Map<String, Value>, now: &str) {
    if condition(crd, "Established") != Some("True") {
        let message = "the initial names have been accepted";
        set_condition(crd, "Established", "True", "InitialNamesAccepted", message, now);
    }
}

/// Notes in the status that another kind already has one of the names.
pub(crate) fn refuse_names(
    crd: &mut Map<String, Value>,
    mut accepted: Map<String, Value>,
    reason: &str,
    message: &str,
    now: &str,
) {
    // These two fields are always written.
    for field in ["plural", "kind"] {
        accepted.entry(field).or_insert_with(|| "".into());
    }
    status_mut(crd).insert("acceptedNames".into(), accepted.into());
    set_condition(crd, "NamesAccepted", "False", reason, message, now);
    if condition(crd, "Established") != Some("True") {
        let message = "not all names are accepted";
        set_condition(crd, "Established", "False", "NotAccepted", message, now);
    }
}

/// Updates the parts of the status that follow from the spec.
pub(crate) fn refresh_status(crd: &mut Map<String, Value>) {
    let names = crd.get("spec").and_then(|spec| spec.get("names")).cloned().unwrap_or_default();
    let storage = storage_version(&Value::Object(crd.clone()));
    let status = status_mut(crd);
    status.insert("acceptedNames".into(), names);
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let (Some(stored), Some(storage)) = (stored.as_array_mut(), storage)
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
}

fn storage_version(crd: &Value) -> Option<Value> {
    let versions = crd["spec"]["versions"].as_array()?;
    versions
        .iter()
        .find(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
}

fn set_condition(
    crd: &mut Map<String, Value>,
    condition_type: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let condition = json!({
        "type": condition_type,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    });
    condition::set(status_value_mut(crd), condition);
}

fn status_mut(crd: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let status = status_value_mut(crd);
    status.as_object_mut().expect("the status is an object")
}

/// Returns the status, which is an object afterwards.
fn status_value_mut(crd: &mut Map<String, Value>) -> &mut Value {
    let status = crd.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    status
}
