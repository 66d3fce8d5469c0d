//! The fields in which two states of an object differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_nesting::{SHALLOW_MAX, StackError, depth, from_slice, with_stack_for};

use super::FieldChange;
use crate::objects::SERVER_METADATA;

/// The field that identifies an element of a list of objects: the first of these that all have.
const LIST_KEYS: [&str; 3] = ["name", "type", "key"];

/// What is shown instead of the content of a Secret.
const HIDDEN: &str = "(hidden)";

/// What is shown instead of a value that could not be dropped on any thread.
const DEEP: &str = "(nested too deeply to be shown)";

/// The annotation in which `kubectl apply` keeps the whole object, a Secret's content included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields in which two states of an object differ, in the order of their paths. Fields that
/// only the server or kubectl writes are left out. If `is_secret`, values of the data are not
/// shown.
///
/// # Errors
/// Returns an error if there is no stack for objects of this depth.
pub(super) fn field_changes(
    old: &[u8],
    new: &[u8],
    is_secret: bool,
) -> Result<Vec<FieldChange>, StackError> {
    with_stack_for(depth(old).max(depth(new)), || {
        let object = |json| from_slice(json).unwrap_or_default();
        let mut changes = changes_between(&object(old), &object(new), is_secret);
        for change in &mut changes {
            leave_out_deep(change);
        }
        changes
    })
}

/// The same, on a thread whose stack is large enough.
fn changes_between(old: &Value, new: &Value, is_secret: bool) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let (old, new) = (without_server_fields(old), without_server_fields(new));
    compare(String::new(), Some(&old), Some(&new), &mut changes);
    if is_secret {
        for change in &mut changes {
            hide(change);
        }
    }
    changes
}

fn without_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !SERVER_METADATA.contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    object
}

fn compare(path: String, old: Option<&Value>, new: Option<&Value>, to: &mut Vec<FieldChange>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let fields: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            for field in fields {
                compare(joined(&path, field), old.get(field), new.get(field), to);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            let by_key = list_key(old, new)
                .and_then(|key| Some((elements_by(key, old)?, elements_by(key, new)?)));
            let Some((old_elements, new_elements)) = by_key else {
                for position in 0..old.len().max(new.len()) {
                    compare(
                        format!("{path}[{position}]"),
                        old.get(position),
                        new.get(position),
                        to,
                    );
                }
                return;
            };
            let before = to.len();
            let keys: BTreeSet<_> = old_elements.keys().chain(new_elements.keys()).collect();
            for key in keys {
                let (old, new) = (old_elements.get(key), new_elements.get(key));
                compare(format!("{path}[{key}]"), old.copied(), new.copied(), to);
            }
            if to.len() == before {
                // The same elements in another order.
                to.push(change(path, Some(&Value::from(old.clone())), Some(&new.clone().into())));
            }
        }
        _ => to.push(change(path, old, new)),
    }
}

/// The field by which the elements of both lists are told apart.
fn list_key(old: &[Value], new: &[Value]) -> Option<&'static str> {
    LIST_KEYS.into_iter().find(|key| old.iter().chain(new).all(|element| element[key].is_string()))
}

/// The elements by the value of their key; `None` if two have the same.
fn elements_by<'v>(key: &str, list: &'v [Value]) -> Option<BTreeMap<&'v str, &'v Value>> {
    let named = list.iter().filter_map(|element| Some((element[key].as_str()?, element)));
    let elements: BTreeMap<_, _> = named.collect();
    (elements.len() == list.len()).then_some(elements)
}

/// The path of a field. A name with dots or slashes is put into brackets.
fn joined(path: &str, field: &str) -> String {
    let is_plain = field.chars().all(|char| char.is_ascii_alphanumeric() || "_-$".contains(char));
    match (path.is_empty(), is_plain) {
        (true, true) => field.to_owned(),
        (false, true) => format!("{path}.{field}"),
        (_, false) => format!("{path}[{field:?}]"),
    }
}

fn change(path: String, old: Option<&Value>, new: Option<&Value>) -> FieldChange {
    FieldChange { path, old: old.cloned(), new: new.cloned() }
}

/// Hides the values of a change, if they are or contain the data of a Secret.
fn hide(change: &mut FieldChange) {
    let is_within = |field: &str| {
        change
            .path
            .strip_prefix(field)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    if is_within("data") || is_within("stringData") {
        for value in [&mut change.old, &mut change.new].into_iter().flatten() {
            *value = HIDDEN.into();
        }
    }
}

/// Replaces the values of a change that are nested deeply.
fn leave_out_deep(change: &mut FieldChange) {
    for value in [&mut change.old, &mut change.new].into_iter().flatten() {
        if depth(value.to_string().as_bytes()) > SHALLOW_MAX {
            *value = DEEP.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(old: &Value, new: &Value, is_secret: bool) -> Vec<String> {
        let (old, new) = (old.to_string(), new.to_string());
        let changes = field_changes(old.as_bytes(), new.as_bytes(), is_secret);
        changes.expect("a stack").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fields_are_named_by_their_path() {
        let old = json!({"spec": {"replicas": 1, "paused": true, "same": {"a": 1}}});
        let new = json!({"spec": {"replicas": 2, "same": {"a": 1}, "name": "x"}});
        assert_eq!(
            shown(&old, &new, false),
            [r#"spec.name: "x" is added"#, "spec.paused: true is removed", "spec.replicas: 1 -> 2"]
        );
    }

    #[test]
    fn elements_of_a_list_are_compared_by_name() {
        let container = |name: &str, image: &str| json!({"name": name, "image": image});
        let old = json!({"containers": [container("web", "a:1"), container("log", "b:1")]});
        let new = json!({"containers": [container("log", "b:1"), container("web", "a:2")]});
        assert_eq!(shown(&old, &new, false), [r#"containers[web].image: "a:1" -> "a:2""#]);
        let new = json!({"containers": [container("log", "b:1"), container("web", "a:1")]});
        assert_eq!(shown(&old, &new, false).len(), 1, "another order is a difference");
    }

    #[test]
    fn lists_without_names_are_compared_by_position() {
        let old = json!({"args": ["-v", "1"], "twice": [{"name": "a"}, {"name": "a"}]});
        let new = json!({"args": ["-v", "2", "-q"], "twice": [{"name": "a"}]});
        assert_eq!(
            shown(&old, &new, false),
            [
                r#"args[1]: "1" -> "2""#,
                r#"args[2]: "-q" is added"#,
                r#"twice[1]: {"name":"a"} is removed"#
            ]
        );
    }

    #[test]
    fn what_only_the_server_writes_is_left_out() {
        let old =
            json!({"metadata": {"resourceVersion": "1", "uid": "a", "labels": {"a.b/c": "1"}}});
        let new =
            json!({"metadata": {"resourceVersion": "2", "uid": "b", "labels": {"a.b/c": "2"}}});
        assert_eq!(shown(&old, &new, false), [r#"metadata.labels["a.b/c"]: "1" -> "2""#]);
    }

    #[test]
    fn content_of_a_secret_is_never_shown() {
        let copy = |data: &str| json!({ LAST_APPLIED: format!("{{\"data\":\"{data}\"}}") });
        let secret = |data: &str| {
            json!({
                "data": {"password": data, "other": "same"},
                "stringData": data,
                "metadata": {"annotations": copy(data), "labels": {"a": data.len()}},
            })
        };
        for (old, new) in [
            (secret("hunter2"), secret("correct horse")),
            (secret("hunter2"), json!({"metadata": {}})),
            (json!({}), secret("hunter2")),
            (json!({"dataVolume": 1}), secret("hunter2")),
        ] {
            let shown = shown(&old, &new, true).join("\n");
            assert!(!shown.contains("hunter2") && !shown.contains("horse"), "{shown}");
        }
        let shown = shown(&secret("1"), &secret("22"), true).join("\n");
        assert!(shown.contains("metadata.labels.a: 1 -> 2"), "{shown}");
        assert!(shown.contains(r#"data.password: "(hidden)" -> "(hidden)""#), "{shown}");
    }
}
