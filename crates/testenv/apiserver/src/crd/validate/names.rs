//! The names of a definition.

use serde_json::Value;

use super::text;
use crate::field_error::FieldError;
use crate::metadata::names::dns1035_label;

/// Checks the form of the names that are set.
pub(super) fn check_names(names: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["plural", "singular"] {
        check(text(names, name), &format!("{path}.{name}"), errors);
    }
    for name in ["kind", "listKind"] {
        let value = text(names, name);
        if let Some(wrong) = joined(&value.to_lowercase()).filter(|_| !value.is_empty()) {
            let detail = format!("may have mixed case, but should otherwise match: {wrong}");
            errors.push(FieldError::invalid_str(format!("{path}.{name}"), value, &detail));
        }
    }
    check_all(names, "shortNames", path, errors);
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid_str(format!("{path}.listKind"), list_kind, detail));
    }
    check_all(names, "categories", path, errors);
}

/// Returns all errors of a label, joined into one message.
pub(super) fn joined(name: &str) -> Option<String> {
    let wrong = dns1035_label(name);
    (!wrong.is_empty()).then(|| wrong.join(","))
}

fn check(value: &str, field: &str, errors: &mut Vec<FieldError>) {
    if let Some(wrong) = joined(value).filter(|_| !value.is_empty()) {
        errors.push(FieldError::invalid_str(field, value, &wrong));
    }
}

fn check_all(names: &Value, name: &str, path: &str, errors: &mut Vec<FieldError>) {
    for (index, value) in names[name].as_array().into_iter().flatten().enumerate() {
        let value = value.as_str().unwrap_or_default();
        if let Some(wrong) = joined(value) {
            errors.push(FieldError::invalid_str(format!("{path}.{name}[{index}]"), value, &wrong));
        }
    }
}
