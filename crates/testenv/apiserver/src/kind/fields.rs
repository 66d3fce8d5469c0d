//! Field selectors: which fields a kind can be selected by, and the value of an object's field.
//!
//! A field label is checked and translated to its stored name once per request
//! ([`Kind::field_label`]). The value is read for each object in its stored form
//! ([`Kind::field_value`]). Both follow the real server, down to its three wordings of "unknown
//! label".

use serde_json::Value;

use super::{Kind, Origin, Version};

impl Kind {
    /// Returns the stored name of a label of this version, or the message of the 400 for it.
    pub(crate) fn field_label(&self, version: &Version, label: &str) -> Result<String, String> {
        if label == "metadata.name"
            || (label == "metadata.namespace" && self.selects_by_namespace(version))
        {
            return Ok(label.to_owned());
        }
        if !version.selectable.iter().any(|known| known == label) {
            return Err(self.unknown_label(version, label));
        }
        if label == "spec.host" && self.is("", "pods") {
            return Ok("spec.nodeName".to_owned());
        }
        let (first, rest) =
            label.split_once('.').map_or((label, None), |(first, rest)| (first, Some(rest)));
        let first = version
            .renames
            .iter()
            .find(|(_, shown)| *shown == first)
            .map_or(first, |(stored, _)| *stored);
        Ok(rest.map_or_else(|| first.to_owned(), |rest| format!("{first}.{rest}")))
    }

    /// Returns the value of a stored object's field; `label` comes from [`Kind::field_label`].
    pub(crate) fn field_value(&self, object: &Value, label: &str) -> String {
        if self.origin == Origin::BuiltIn {
            match (self.kind.as_str(), label) {
                ("Pod", "spec.hostNetwork") | ("Node", "spec.unschedulable") => {
                    return (at(object, label) == Some(&Value::Bool(true))).to_string();
                }
                ("Pod", "status.podIP") => return text(object["status"]["podIPs"][0].get("ip")),
                ("Pod", "status.podIPs") => return String::new(),
                ("Job", "status.successful") => return count(object["status"].get("succeeded")),
                ("ReplicationController", "status.replicas") => return count(at(object, label)),
                ("Event", "source") => {
                    let component = text(object["source"].get("component"));
                    return if component.is_empty() {
                        text(object.get("reportingComponent"))
                    } else {
                        component
                    };
                }
                _ => {}
            }
        }
        text(at(object, label))
    }

    /// Returns whether `metadata.namespace` can be selected by. Kinds with selectable fields of
    /// their own, and custom kinds, support it only if they are namespaced; all others always do.
    fn selects_by_namespace(&self, version: &Version) -> bool {
        self.namespaced || (self.origin == Origin::BuiltIn && version.selectable.is_empty())
    }

    /// Returns the real server's message for an unknown label.
    fn unknown_label(&self, version: &Version, label: &str) -> String {
        if self.origin == Origin::BuiltIn && version.selectable.is_empty() {
            format!(
                "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )
        } else if self.is("batch", "jobs") {
            format!("field label {label:?} not supported for Job")
        } else {
            format!("field label not supported: {label}")
        }
    }
}

/// Returns the value at a dotted path.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, name| value.get(name))
}

/// Returns a scalar as the text that a selector compares with. A missing value is the empty text.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns a number as text. A missing number is zero.
fn count(value: Option<&Value>) -> String {
    value.and_then(Value::as_i64).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::builtin;

    fn find(group: &str, plural: &str) -> Kind {
        builtin()
            .into_iter()
            .find(|kind| kind.is(group, plural))
            .expect("the kind must be in the table")
    }

    fn label(group: &str, plural: &str, label: &str) -> Result<String, String> {
        let kind = find(group, plural);
        kind.field_label(kind.storage(), label)
    }

    #[test]
    fn labels_are_translated_to_what_is_stored() {
        assert_eq!(label("", "pods", "spec.host").as_deref(), Ok("spec.nodeName"));
        assert_eq!(
            label("events.k8s.io", "events", "regarding.name").as_deref(),
            Ok("involvedObject.name")
        );
        assert_eq!(
            label("events.k8s.io", "events", "reportingController").as_deref(),
            Ok("reportingComponent")
        );
        assert_eq!(
            label("", "persistentvolumes", "metadata.namespace").as_deref(),
            Ok("metadata.namespace")
        );
    }

    #[test]
    fn unknown_labels_get_the_wording_of_the_real_server() {
        let known = "is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
        let refused = |group, plural, text| {
            label(group, plural, text).expect_err("the label must be unknown")
        };
        assert_eq!(refused("", "pods", "status.foo"), "field label not supported: status.foo");
        assert_eq!(
            refused("", "nodes", "metadata.namespace"),
            "field label not supported: metadata.namespace"
        );
        assert_eq!(
            refused("batch", "jobs", "spec.x"),
            "field label \"spec.x\" not supported for Job"
        );
        assert_eq!(
            refused("apps", "replicasets", "status.replicas"),
            format!("\"status.replicas\" {known}")
        );
        assert_eq!(
            refused("events.k8s.io", "events", "involvedObject.name"),
            "field label not supported: involvedObject.name"
        );
    }

    #[test]
    fn missing_fields_have_zero_values() {
        let pod = json!({"spec": {}, "status": {"podIPs": [{"ip": "10.0.0.1"}]}});
        let pods = find("", "pods");
        assert_eq!(pods.field_value(&pod, "spec.hostNetwork"), "false");
        assert_eq!(pods.field_value(&pod, "spec.nodeName"), "");
        assert_eq!(pods.field_value(&pod, "status.podIP"), "10.0.0.1");
        assert_eq!(find("batch", "jobs").field_value(&json!({}), "status.successful"), "0");
        let event = json!({"source": {}, "reportingComponent": "c"});
        assert_eq!(find("", "events").field_value(&event, "source"), "c");
    }
}
