//! Whether a node satisfies a pod's `nodeSelector` and required node affinity.

use kube::ResourceExt as _;
use serde_json::Value;

use crate::objects::{Node, Pod};

pub(super) fn matches_affinity(pod: &Pod, node: &Node) -> bool {
    let wanted = pod.spec["nodeSelector"].as_object().into_iter().flatten();
    let has = |(key, value): (&String, &Value)| {
        node.labels().get(key).is_some_and(|label| *value == **label)
    };
    let affinity = &pod.spec["affinity"]["nodeAffinity"];
    let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let mut wanted = wanted;
    let matches_terms = match terms.as_array() {
        Some(terms) => terms.iter().any(|term| matches_term(term, node)),
        None => true,
    };
    wanted.all(has) && matches_terms
}

/// A term without requirements matches nothing.
fn matches_term(term: &Value, node: &Node) -> bool {
    let list = |field: &str| term[field].as_array().map_or(&[][..], Vec::as_slice);
    let (labels, fields) = (list("matchExpressions"), list("matchFields"));
    let of_labels = |requirement: &Value| {
        let key = requirement["key"].as_str().unwrap_or_default();
        holds(requirement, node.labels().get(key).map(String::as_str))
    };
    // `metadata.name` is the only field that upstream supports.
    let of_name = |requirement: &Value| {
        requirement["key"] == "metadata.name" && holds(requirement, Some(&node.name_any()))
    };
    !(labels.is_empty() && fields.is_empty())
        && labels.iter().all(of_labels)
        && fields.iter().all(of_name)
}

fn holds(requirement: &Value, label: Option<&str>) -> bool {
    let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
    let is_listed = || values.iter().any(|value| label.is_some_and(|label| value == label));
    let numbers = || {
        let bound: i64 = values.first()?.as_str()?.parse().ok()?;
        Some((label?.parse::<i64>().ok()?, bound))
    };
    match requirement["operator"].as_str() {
        Some("In") => is_listed(),
        Some("NotIn") => !is_listed(),
        Some("Exists") => label.is_some(),
        Some("DoesNotExist") => label.is_none(),
        Some("Gt") => numbers().is_some_and(|(label, bound)| label > bound),
        Some("Lt") => numbers().is_some_and(|(label, bound)| label < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use serde_json::json;

    use super::*;

    fn node() -> Node {
        let labels = json!({"zone": "a", "cores": "8"});
        serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}}))
            .expect("a node")
    }

    fn fits(spec: &Value) -> bool {
        let pod = json!({"metadata": {}, "spec": spec});
        matches_affinity(&serde_json::from_value(pod).expect("a pod"), &node())
    }

    fn required(terms: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}})
    }

    #[test]
    fn selector_wants_all_labels() {
        assert!(fits(&json!({})));
        assert!(fits(&json!({"nodeSelector": {"zone": "a", "cores": "8"}})));
        assert!(!fits(&json!({"nodeSelector": {"zone": "a", "cores": "4"}})));
        assert!(!fits(&json!({"nodeSelector": {"gpu": "yes"}})));
    }

    #[test]
    fn all_requirements_of_one_term_must_match() {
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let term = |expressions: &[Value]| json!({"matchExpressions": expressions});
        let (good, bad) =
            (expression("zone", "In", &["a", "b"]), expression("zone", "NotIn", &["a"]));
        assert!(fits(&required(&json!([term(from_ref(&bad)), term(from_ref(&good))]))));
        assert!(!fits(&required(&json!([term(&[good, bad])]))));
        assert!(fits(&required(&json!([term(&[expression("cores", "Gt", &["4"])])]))));
        assert!(!fits(&required(&json!([term(&[expression("cores", "Lt", &["4"])])]))));
        assert!(fits(&required(&json!([term(&[expression("gpu", "DoesNotExist", &[])])]))));
        assert!(!fits(&required(&json!([term(&[expression("gpu", "Exists", &[])])]))));
        assert!(!fits(&required(&json!([{}]))));
        let name = json!([{"matchFields": [expression("metadata.name", "In", &["n"])]}]);
        assert!(fits(&required(&name)));
    }
}
