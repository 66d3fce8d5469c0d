//! Which nodes a pod fits on, and the message of kube-scheduler if it fits on none.
//!
//! Considers cordons, taints, `nodeSelector` and required node affinity, but not resources: made-up
//! nodes hold any number of pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt as _;
use serde_json::Value;

use super::affinity::matches_affinity;
use crate::objects::{Node, Pod, Taint};

/// The taint that a cordoned node also has.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Returns the fitting node with the fewest pods; among several, the first by name.
///
/// # Errors
/// The message for the pod's condition.
pub(super) fn choose(
    pod: &Pod,
    nodes: &[Arc<Node>],
    load: &BTreeMap<String, usize>,
) -> Result<String, String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let mut fitting = Vec::new();
    for node in nodes {
        match mismatch_reason(pod, node) {
            None => fitting.push(node.name_any()),
            Some(reason) => *reasons.entry(reason).or_default() += 1,
        }
    }
    let pods_on = |name: &String| load.get(name).copied().unwrap_or(0);
    let least = fitting
        .into_iter()
        .min_by(|one, two| (pods_on(one), one.as_str()).cmp(&(pods_on(two), two.as_str())));
    least.ok_or_else(|| unschedulable_message(nodes.len(), &reasons))
}

/// Returns why the pod does not fit on the node, checking in kube-scheduler's order.
fn mismatch_reason(pod: &Pod, node: &Node) -> Option<&'static str> {
    let cordon = Taint {
        key: UNSCHEDULABLE.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node.spec.unschedulable == Some(true) && !is_tolerated(pod, &cordon) {
        return Some("node(s) were unschedulable");
    }
    let keeps_away = |taint: &&Taint| ["NoSchedule", "NoExecute"].contains(&&*taint.effect);
    if node.spec.taints.iter().filter(keeps_away).any(|taint| !is_tolerated(pod, taint)) {
        return Some("node(s) had untolerated taint(s)");
    }
    if !matches_affinity(pod, node) {
        return Some("node(s) didn't match Pod's node affinity/selector");
    }
    None
}

fn is_tolerated(pod: &Pod, taint: &Taint) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tolerates = |toleration: &Value| {
        let (key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
        let fits_value = match toleration["operator"].as_str() {
            Some("Exists") => true,
            None | Some("" | "Equal") => text(&toleration["value"]) == taint.value,
            Some(_) => false,
        };
        let is_for_all = key.is_empty() && toleration["operator"] == "Exists";
        (effect.is_empty() || effect == taint.effect)
            && (is_for_all || key == taint.key)
            && fits_value
    };
    pod.spec["tolerations"].as_array().into_iter().flatten().any(tolerates)
}

/// Returns kube-scheduler's message when no node fits.
fn unschedulable_message(total: usize, reasons: &BTreeMap<&str, usize>) -> String {
    if total == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut counted: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counted.sort();
    format!(
        "0/{total} nodes are available: {}. no new claims to deallocate, preemption: 0/{total} \
         nodes are available: {total} Preemption is not helpful for scheduling.",
        counted.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, spec: &Value) -> Arc<Node> {
        let labels = json!({"kubernetes.io/hostname": name});
        let node = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        Arc::new(serde_json::from_value(node).expect("a node"))
    }

    fn pod(spec: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a pod")
    }

    fn tainted() -> Value {
        json!({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]})
    }

    fn chosen(pod: &Pod, nodes: &[Arc<Node>]) -> Result<String, String> {
        choose(pod, nodes, &BTreeMap::new())
    }

    #[test]
    fn least_loaded_node_is_taken_and_then_the_first() {
        let nodes = [node("b", &json!({})), node("a", &json!({})), node("c", &json!({}))];
        let load = |loads: &[(&str, usize)]| -> BTreeMap<String, usize> {
            loads.iter().map(|(name, pods)| ((*name).to_owned(), *pods)).collect()
        };
        let any = pod(&json!({}));
        assert_eq!(choose(&any, &nodes, &load(&[])).as_deref(), Ok("a"));
        let loads = load(&[("a", 2), ("b", 1), ("c", 1)]);
        assert_eq!(choose(&any, &nodes, &loads).as_deref(), Ok("b"));
    }

    #[test]
    fn cordoned_node_takes_only_those_that_tolerate_it() {
        let nodes = [node("a", &json!({"unschedulable": true}))];
        assert!(chosen(&pod(&json!({})), &nodes).is_err());
        let toleration = json!({"key": UNSCHEDULABLE, "operator": "Exists"});
        let tolerant = pod(&json!({"tolerations": [toleration]}));
        assert_eq!(chosen(&tolerant, &nodes).as_deref(), Ok("a"));
    }

    #[test]
    fn tolerations_match_key_value_and_effect() {
        let nodes = [node("a", &tainted())];
        let fits =
            |toleration: Value| chosen(&pod(&json!({"tolerations": [toleration]})), &nodes).is_ok();
        assert!(fits(json!({"key": "gpu", "value": "yes"})));
        assert!(fits(json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"})));
        assert!(fits(json!({"operator": "Exists"})));
        assert!(!fits(json!({"key": "gpu", "value": "no"})));
        assert!(!fits(json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"})));
        assert!(!fits(json!({"key": "disk", "operator": "Exists"})));
        let soft = json!({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]});
        assert!(chosen(&pod(&json!({})), &[node("a", &soft)]).is_ok());
    }

    #[test]
    fn complaint_is_that_of_the_real_scheduler() {
        let nodes = [
            node("a", &json!({"unschedulable": true})),
            node("b", &tainted()),
            node("c", &json!({})),
        ];
        let pod = pod(&json!({"nodeSelector": {"kubernetes.io/hostname": "d"}}));
        assert_eq!(
            chosen(&pod, &nodes).expect_err("no node fits"),
            "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 \
             node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to \
             deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for \
             scheduling."
        );
        let none = chosen(&pod, &[]).expect_err("there is none");
        assert_eq!(none, "no nodes available to schedule pods");
    }
}
