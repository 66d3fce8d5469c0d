//! Validation of events. An event with an `eventTime` is a new one.

use serde_json::{Value, json};

use super::values::text;
use crate::field_error::FieldError;
use crate::kind::Kind;

/// The length limits of a new event's fields.
const LIMITS: [(&str, usize); 4] =
    [("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)];

/// The real server's second error for an empty qualified name, besides "required".
const NO_NAME: &str = "name part must be non-empty";
const NOT_A_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Validates an event. Through `events.k8s.io`, only new ones are accepted.
pub(super) fn event(kind: &Kind, object: &Value, errors: &mut Vec<FieldError>) {
    let strict = kind.group == "events.k8s.io";
    let namespace = text(&object["metadata"], "namespace").unwrap_or_default();
    let about = text(&object["involvedObject"], "namespace").unwrap_or_default();
    let new = text(object, "eventTime").is_some();
    let agrees = match (about.is_empty(), new) {
        (true, false) => matches!(namespace, "" | "default"),
        (true, true) => matches!(namespace, "default" | "kube-system"),
        (false, false) => about == namespace,
        (false, true) => true,
    };
    if !agrees {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", &json!(about), detail));
    }
    if new {
        new_event(
            object,
            if strict { "reportingController" } else { "reportingComponent" },
            errors,
        );
    }
    if strict {
        check_new_only(object, new, errors);
    }
}

/// Checks that a new event names its reporter, the action and the reason.
fn new_event(object: &Value, controller: &str, errors: &mut Vec<FieldError>) {
    if text(object, "reportingComponent").is_none() {
        errors.push(FieldError::required(controller, ""));
        for detail in [NO_NAME, NOT_A_NAME] {
            errors.push(FieldError::invalid(controller, &json!(""), detail));
        }
    }
    for (field, max) in LIMITS {
        match text(object, field) {
            None if field != "message" => errors.push(FieldError::required(field, "")),
            Some(text) if text.len() > max => {
                let detail = format!("can have at most {max} characters");
                errors.push(FieldError::invalid(field, &json!(""), &detail));
            }
            _ => {}
        }
    }
}

/// Rejects old events, and the fields of old events in new ones.
fn check_new_only(object: &Value, new: bool, errors: &mut Vec<FieldError>) {
    if !new {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(object, "type").unwrap_or_default();
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", &json!(""), &format!("has invalid value: {kind}")));
    }
    for field in ["firstTimestamp", "lastTimestamp"] {
        if text(object, field).is_some() {
            errors.push(FieldError::invalid(field, &json!(""), "needs to be unset"));
        }
    }
    if object["count"].as_i64().is_some_and(|count| count != 0) {
        errors.push(FieldError::invalid("count", &json!(""), "needs to be unset"));
    }
    if ["component", "host"].iter().any(|field| text(&object["source"], field).is_some()) {
        errors.push(FieldError::invalid("source", &json!(""), "needs to be unset"));
    }
}
