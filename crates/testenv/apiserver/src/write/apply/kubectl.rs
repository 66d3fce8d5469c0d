//! Migration from `kubectl apply` to `kubectl apply --server-side`.
//!
//! Client-side apply keeps the configuration in an annotation, and writes with patches. A later
//! server-side apply would conflict with those writes. So a field that still has its value from the
//! annotation counts as kubectl's own.

use serde_json::{Map, Value};

use super::compare::{Comparison, applied};
use super::managers::{Conflict, Fields};
use crate::fields::metadata_mut;

/// The manager name of kubectl.
pub(crate) const KUBECTL: &str = "kubectl";

/// The annotation in which `kubectl apply` keeps the configuration.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the conflicts without the fields that kubectl itself wrote.
pub(crate) fn left(fields: &Fields<'_>, live: &Value, conflicts: &[Conflict]) -> Vec<Conflict> {
    let last = last_applied(live.get("metadata"))
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(last) = last.filter(|last| last["apiVersion"] == fields.version.as_str()) else {
        return conflicts.to_vec();
    };
    let place = fields.place();
    let since = Comparison::new(place, &last, live);
    let own = applied(place, &last).difference(&since.written()).difference(&since.removed);
    let left = conflicts.iter().map(|conflict| Conflict {
        fields: conflict.fields.difference(&own),
        manager: conflict.manager.clone(),
    });
    left.filter(|conflict| !conflict.fields.is_empty()).collect()
}

/// Updates the annotation, if the object has one.
pub(crate) fn annotate(object: &mut Map<String, Value>, config: &Value) {
    if last_applied(object.get("metadata")).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations")
        && let Some(annotations) = annotations.as_object_mut()
    {
        annotations.remove(LAST_APPLIED);
    }
    let annotations = metadata_mut(object).get_mut("annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.insert(LAST_APPLIED.to_owned(), format!("{config}\n").into());
    }
}

fn last_applied(metadata: Option<&Value>) -> Option<&str> {
    let annotation = metadata?.get("annotations")?.get(LAST_APPLIED)?;
    annotation.as_str().filter(|text| !text.is_empty())
}
