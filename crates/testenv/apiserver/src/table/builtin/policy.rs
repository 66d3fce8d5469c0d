//! Pod disruption budgets and autoscalers.

use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::cells::{NONE, UNSET, list, name, number, quantity, text, with_more};

/// How many metrics of an autoscaler a cell shows.
const SHOWN: usize = 2;

const UNKNOWN: &str = "<unknown>";

pub(super) static DISRUPTION_BUDGETS: BuiltIn =
    BuiltIn::new(columns::PODDISRUPTIONBUDGETS, |object, now| {
        let spec = &object["spec"];
        json!([
            name(object),
            int_or_text(&spec["minAvailable"]),
            int_or_text(&spec["maxUnavailable"]),
            number(&object["status"]["disruptionsAllowed"]),
            now.age(object),
        ])
    });

pub(super) static AUTOSCALERS: BuiltIn =
    BuiltIn::new(columns::HORIZONTALPODAUTOSCALERS, |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let target = &spec["scaleTargetRef"];
        let least = &spec["minReplicas"];
        json!([
            name(object),
            format!("{}/{}", text(&target["kind"]), text(&target["name"])),
            metrics(list(&spec["metrics"]), list(&status["currentMetrics"])),
            least.as_i64().map_or_else(|| UNSET.to_owned(), |least| least.to_string()),
            number(&spec["maxReplicas"]),
            number(&status["currentReplicas"]),
            now.age(object),
        ])
    });

fn int_or_text(value: &Value) -> String {
    match value {
        Value::Null => "N/A".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats metrics as current and target values.
fn metrics(specs: &[Value], statuses: &[Value]) -> String {
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let shown = specs.iter().enumerate().take(SHOWN).map(|(index, spec)| {
        let status = statuses.get(index).unwrap_or(&Value::Null);
        metric(spec, status)
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match specs.len().saturating_sub(SHOWN) {
        0 => shown,
        more => with_more(&shown, more),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    match text(&spec["type"]) {
        "External" => total(&spec["external"], &status["external"]),
        "Object" => total(&spec["object"], &status["object"]),
        "Pods" => {
            let current = measured(&status["pods"], "averageValue");
            format!("{current}/{}", amount(&spec["pods"]["target"]["averageValue"]))
        }
        "Resource" => share(&spec["resource"], &status["resource"]),
        "ContainerResource" => share(&spec["containerResource"], &status["containerResource"]),
        _ => "<unknown type>".to_owned(),
    }
}

/// Formats a metric with a total or an average target.
fn total(spec: &Value, status: &Value) -> String {
    let average = &spec["target"]["averageValue"];
    if average.is_null() {
        let current = measured(status, "value");
        return format!("{current}/{}", amount(&spec["target"]["value"]));
    }
    let current = match &status["current"]["averageValue"] {
        Value::Null => UNKNOWN.to_owned(),
        current => quantity(current),
    };
    format!("{current}/{} (avg)", quantity(average))
}

/// Formats a metric of a resource: a quantity, or a percentage of the request.
fn share(spec: &Value, status: &Value) -> String {
    let (resource, target) = (text(&spec["name"]), &spec["target"]);
    if !target["averageValue"].is_null() {
        let current = measured(status, "averageValue");
        return format!("{resource}: {current}/{}", quantity(&target["averageValue"]));
    }
    let percent = |value: &Value, otherwise: &str| {
        value.as_i64().map_or_else(|| otherwise.to_owned(), |percent| format!("{percent}%"))
    };
    let current = percent(&status["current"]["averageUtilization"], UNKNOWN);
    format!("{resource}: {current}/{}", percent(&target["averageUtilization"], "<auto>"))
}

fn measured(status: &Value, field: &str) -> String {
    if status.is_null() { UNKNOWN.to_owned() } else { amount(&status["current"][field]) }
}

/// Formats a quantity as Go prints a pointer to one.
fn amount(value: &Value) -> String {
    if value.is_null() { "<nil>".to_owned() } else { quantity(value) }
}
