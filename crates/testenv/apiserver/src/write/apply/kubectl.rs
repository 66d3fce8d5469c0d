//! From `kubectl apply` to `kubectl apply --server-side`.
//!
//! The former keeps what it applied in an annotation and writes by other means than apply, so that
//! the latter would be in conflict with it. The server knows: fields that are as the annotation
//! says are kubectl's own.

use serde_json::{Map, Value};

use super::compare::{Comparison, applied};
use super::managers::{Conflict, Fields};
use crate::fields::metadata_mut;

/// The name under which kubectl applies.
pub(crate) const KUBECTL: &str = "kubectl";

/// Where `kubectl apply` keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The conflicts that are left when kubectl is not in conflict with itself.
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

/// Brings the annotation up to date, if the object has one.
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
