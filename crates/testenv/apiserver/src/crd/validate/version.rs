//! The versions of a definition: schema, subresources, printer columns and selectable fields.
//!
//! Each is checked once at the top if all versions share it, and at each version otherwise.

use serde_json::Value;

use super::{is_true, shared, text};
use crate::field_error::{FieldError, go_json};
use crate::schema::Schema;

const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
const MAX_SELECTABLE_FIELDS: usize = 8;

/// The keywords that are allowed at the root of a schema with a status subresource: their Go names
/// and their JSON names.
const ALLOWED_AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];

/// Validates the fields of one version that differ between versions.
pub(super) fn check_own(spec: &Value, version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    check_deprecation(version, path, errors);
    if shared(spec, "schema").is_none() {
        let status = has_status(&version["subresources"]);
        check_schema(&version["schema"], status, &format!("{path}.schema"), errors);
    }
    if shared(spec, "subresources").is_none() {
        check_subresources(&version["subresources"], &format!("{path}.subresources"), errors);
    }
    if shared(spec, "additionalPrinterColumns").is_none() {
        let path = format!("{path}.additionalPrinterColumns");
        check_columns(&version["additionalPrinterColumns"], &path, errors);
    }
    if shared(spec, "selectableFields").is_none() {
        let path = format!("{path}.selectableFields");
        check_selectable(&version["selectableFields"], &version["schema"], &path, errors);
    }
}

/// Validates the fields that are the same in all versions.
pub(super) fn check_shared(spec: &Value, errors: &mut Vec<FieldError>) {
    if let Some(schema) = shared(spec, "schema") {
        let status =
            super::versions(spec).iter().any(|version| has_status(&version["subresources"]));
        check_schema(schema, status, "spec.validation", errors);
    }
    if let Some(subresources) = shared(spec, "subresources") {
        check_subresources(subresources, "spec.subresources", errors);
    }
    if let Some(columns) = shared(spec, "additionalPrinterColumns") {
        check_columns(columns, "spec.additionalPrinterColumns", errors);
    }
    if let Some(selectable) = shared(spec, "selectableFields") {
        let schema = shared(spec, "schema").unwrap_or(&Value::Null);
        check_selectable(selectable, schema, "spec.selectableFields", errors);
    }
}

fn has_status(subresources: &Value) -> bool {
    subresources["status"].is_object()
}

fn check_deprecation(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let detail = if !is_true(version, "deprecated") {
        "can only be set for deprecated versions"
    } else if warning.len() > 256 {
        "must be <= 256 characters long"
    } else if warning.is_empty() {
        "must not be an empty string"
    } else {
        return;
    };
    let field = format!("{path}.deprecationWarning");
    errors.push(FieldError::invalid_as(field, &go_json(&warning.into()), detail));
}

/// Validates a schema. `path` is the path of the object that holds it.
fn check_schema(holder: &Value, status: bool, path: &str, errors: &mut Vec<FieldError>) {
    let schema = &holder["openAPIV3Schema"];
    if schema.is_null() {
        return;
    }
    let path = format!("{path}.openAPIV3Schema");
    if status {
        check_root(schema, &path, errors);
    }
    if is_true(schema, "nullable") {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{path}.nullable"), detail));
    }
    if let Err(found) = Schema::parse_at(schema, &path) {
        errors.extend(found);
    }
}

/// Checks the root of a schema with a status subresource. The status is validated on its own, so
/// keywords that concern the whole object are not allowed there.
fn check_root(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid_str(
            format!("{path}.type"),
            kind,
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
        return;
    }
    let says_nothing =
        |value: &Value| matches!(value, Value::Null | Value::Bool(false)) || value == "";
    let odd = schema.as_object().into_iter().flatten().any(|(keyword, value)| {
        !says_nothing(value) && ALLOWED_AT_ROOT.iter().all(|(_, allowed)| allowed != keyword)
    });
    if odd {
        let names: Vec<_> = ALLOWED_AT_ROOT.iter().map(|(name, _)| *name).collect();
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            names.join(" ")
        );
        errors.push(FieldError::invalid(path, schema, &detail));
    }
}

fn check_subresources(subresources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let scale = &subresources["scale"];
    if scale.is_null() {
        return;
    }
    for (name, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let value = text(scale, name);
        let field = format!("{path}.scale.{name}");
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if !value.starts_with('.') {
            errors.push(not_a_path(&field, value));
        } else if !is_under(value, root) {
            let detail = format!("should be a json path under {root}");
            errors.push(FieldError::invalid_str(field, value, &detail));
        }
    }
    let selector = text(scale, "labelSelectorPath");
    let field = format!("{path}.scale.labelSelectorPath");
    if !selector.is_empty() && !selector.starts_with('.') {
        errors.push(not_a_path(&field, selector));
    } else if !selector.is_empty() && !is_under(selector, ".spec") && !is_under(selector, ".status")
    {
        let detail = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid_str(field, selector, detail));
    }
}

fn is_under(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'))
}

fn not_a_path(field: &str, value: &str) -> FieldError {
    FieldError::invalid_str(field, value, "must be a simple json path starting with .")
}

fn check_columns(columns: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{index}]");
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        let kind = text(column, "type");
        let detail = format!("must be one of {COLUMN_TYPES}");
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{path}.type"), &detail));
        } else if !COLUMN_TYPES.split(',').any(|one| one == kind) {
            errors.push(FieldError::invalid_str(format!("{path}.type"), kind, &detail));
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|one| one == format) {
            let detail = format!("must be one of {COLUMN_FORMATS}");
            errors.push(FieldError::invalid_str(format!("{path}.format"), format, &detail));
        }
        let json_path = text(column, "jsonPath");
        let field = format!("{path}.JSONPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if !json_path.starts_with('.') {
            errors.push(not_a_path(&field, json_path));
        }
    }
}

fn check_selectable(selectable: &Value, holder: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let paths: Vec<&str> =
        selectable.as_array().into_iter().flatten().map(|field| text(field, "jsonPath")).collect();
    if paths.is_empty() {
        return;
    }
    let schema = &holder["openAPIV3Schema"];
    if holder.is_null() {
        let detail = "may only be set when validations.schema is included";
        errors.push(FieldError::invalid_str(path, "", detail));
        return;
    }
    let mut unique: Vec<&str> = Vec::new();
    for (index, json_path) in paths.into_iter().enumerate() {
        let field = format!("{path}[{index}].jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let found = match find(schema, json_path) {
            Ok(found) => found,
            Err(error) => {
                let detail = format!("is an invalid path: {error}");
                errors.push(FieldError::invalid_str(field, json_path, &detail));
                continue;
            }
        };
        if is_under(json_path, ".metadata") || json_path == ".metadata" {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid_str(&field, json_path, detail));
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.push(FieldError::invalid_str(&field, json_path, detail));
        }
        if unique.contains(&json_path) {
            errors.push(FieldError::duplicate(field, &json_path.into()));
        } else {
            unique.push(json_path);
        }
    }
    if unique.len() > MAX_SELECTABLE_FIELDS {
        let max = i64::try_from(MAX_SELECTABLE_FIELDS).unwrap_or(i64::MAX);
        errors.push(FieldError::too_many(path, unique.len(), max));
    }
}

/// Returns the schema of the field at `path`, which starts with a dot.
fn find<'a>(schema: &'a Value, path: &str) -> Result<&'a Value, String> {
    if path.contains(['[', ']']) {
        return Err("array notation is not allowed".to_owned());
    }
    let Some(names) = path.strip_prefix('.') else {
        return Err(format!(
            "expected [ or . but got: {}",
            path.split('.').next().unwrap_or_default()
        ));
    };
    let mut found = schema;
    for name in names.split('.') {
        if name.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        found = match (found["properties"].get(name), &found["additionalProperties"]) {
            (Some(property), _) => property,
            // Without declared properties, every name leads to the schema of
            // `additionalProperties`.
            (None, Value::Null) => return Err("does not refer to a valid field".to_owned()),
            (None, _) if found["properties"].is_object() => {
                return Err("does not refer to a valid field".to_owned());
            }
            (None, additional) => additional,
        };
    }
    Ok(found)
}
