//! Validation of `metadata.ownerReferences`.

use serde_json::Value;

use super::text;
use crate::field_error::{FieldError, go_json};

const FIELD: &str = "metadata.ownerReferences";

/// Checks that every reference names its owner in full, no owner is an event, and at most one owner
/// is the controller.
pub(super) fn check(meta: &Value, errors: &mut Vec<FieldError>) {
    let references = meta["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut controller: Option<String> = None;
    for reference in references {
        check_one(reference, errors);
        if reference["controller"] != Value::Bool(true) {
            continue;
        }
        let this = format!("{}/{}", text(reference, "kind"), text(reference, "name"));
        match &controller {
            None => controller = Some(this),
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                     and {this}"
                );
                errors.push(FieldError::invalid_as(FIELD, &render_all(references), &detail));
            }
        }
    }
}

fn check_one(reference: &Value, errors: &mut Vec<FieldError>) {
    let api_version = text(reference, "apiVersion");
    // Go treats a version with more than one slash as invalid.
    let version = match api_version.split('/').collect::<Vec<_>>()[..] {
        [version] | [_, version] => version,
        _ => "",
    };
    let mut invalid = |name: &str, detail: &str| {
        let field = format!("{FIELD}.{name}");
        errors.push(FieldError::invalid_str(field, text(reference, name), detail));
    };
    if version.is_empty() {
        invalid("apiVersion", "version must not be empty");
    }
    for name in ["kind", "name", "uid"] {
        if text(reference, name).is_empty() {
            invalid(name, "must not be empty");
        }
    }
    if api_version == "v1" && text(reference, "kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid_as(FIELD, &render(reference), detail));
    }
}

fn render_all(references: &[Value]) -> String {
    let rendered: Vec<_> = references.iter().map(render).collect();
    format!("[{}]", rendered.join(","))
}

/// Renders a reference as Go prints the struct: its fields in the order of their declaration.
fn render(reference: &Value) -> String {
    let mut fields = Vec::new();
    for name in ["apiVersion", "kind", "name", "uid"] {
        fields.push(format!("\"{name}\":{}", go_json(&text(reference, name).into())));
    }
    for name in ["controller", "blockOwnerDeletion"] {
        if let Value::Bool(flag) = reference[name] {
            fields.push(format!("\"{name}\":{flag}"));
        }
    }
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(references: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(&json!({"ownerReferences": references}), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_controllers_are_refused_as_recorded() {
        assert_eq!(
            errors(&json!([
                {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true},
                {"apiVersion": "v1", "kind": "A", "name": "b", "uid": "2", "controller": true},
            ])),
            [
                "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"A\",\"name\":\"a\",\
                 \"uid\":\"1\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"A\",\"name\":\"b\",\"uid\":\"2\",\
                 \"controller\":true}]: Only one reference can have Controller set to true. Found \"true\" in \
                 references for A/a and A/b"
            ]
        );
    }

    #[test]
    fn a_reference_names_its_owner_in_full() {
        assert_eq!(
            errors(&json!([{"apiVersion": "apps/"}])),
            [
                "metadata.ownerReferences.apiVersion: Invalid value: \"apps/\": version must not be empty",
                "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
            ]
        );
    }

    #[test]
    fn event_cannot_be_an_owner() {
        let found =
            errors(&json!([{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"}]));
        assert_eq!(
            found,
            [
                "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\
              \"uid\":\"1\"}: /v1, Kind=Event is disallowed from being an owner"
            ]
        );
    }
}
