//! `pods/binding`: the scheduler assigns a pod to a node, and the pod gets the topology labels of
//! the node.

use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::field_error::FieldError;
use crate::fields::{is_terminating, metadata_mut, text};
use crate::object::Key;
use crate::state::State;
use crate::target::Target;

/// The labels that a pod gets from its node.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

impl State {
    /// Assigns a pod to a node. A pod that has a node is rejected. The generation does not change.
    pub(crate) fn bind(
        &mut self,
        target: &Target,
        binding: &Value,
        dry_run: bool,
    ) -> Result<(), Failure> {
        let given = |part: &str, field: &str| binding[part][field].as_str().unwrap_or_default();
        let node = given("target", "name");
        if !matches!(given("metadata", "name"), name if name.is_empty() || name == target.name) {
            return Err(Failure::bad_request("name in URL does not match name in Binding object"));
        }
        if node.is_empty() {
            let error = FieldError::required("target.name", "");
            return Err(Failure::invalid("", "Binding", &target.name, &[error]));
        }
        let pod = self.existing(target)?.value();
        let refuse = |why: &str| Err(Failure::conflict("", "pods/binding", &target.name, why));
        let uid = given("metadata", "uid");
        if !uid.is_empty() && uid != text(&pod, "uid") {
            return refuse(&format!("the UID in the binding ({uid}) is not that of the pod"));
        }
        if is_terminating(&pod) {
            return refuse(&format!(
                "pod {} is being deleted, cannot be assigned to a host",
                target.name
            ));
        }
        let held = pod.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str);
        if let Some(held) = held.filter(|held| !held.is_empty()) {
            return refuse(&format!("pod {} is already assigned to node {held:?}", target.name));
        }
        let gates = pod.get("spec").and_then(|spec| spec["schedulingGates"].as_array());
        if gates.is_some_and(|gates| !gates.is_empty()) {
            return refuse(&format!("pod {} has non-empty .spec.schedulingGates", target.name));
        }
        if !dry_run {
            let mut pod = pod;
            let spec = pod.entry("spec").or_insert_with(|| Value::Object(Map::new()));
            spec["nodeName"] = node.into();
            self.copy_topology_labels(&mut pod, node);
            set_scheduled(&mut pod, &self.clock.now());
            self.put(&target.kind, &target.key(), pod);
        }
        Ok(())
    }

    /// Copies the topology labels of the node to the pod. They replace the pod's own.
    fn copy_topology_labels(&self, pod: &mut Map<String, Value>, node: &str) {
        let Some(nodes) = self.registry.resource("", "v1", "nodes") else { return };
        let Some(node) = self.store.get(nodes.entry.storage, &Key::new("", node)) else { return };
        let node = node.value();
        let labels = node.get("metadata").and_then(|metadata| metadata.get("labels"));
        for label in TOPOLOGY {
            let Some(value) = labels.and_then(|labels| labels.get(label)) else { continue };
            let labels = metadata_mut(pod).entry("labels").or_insert_with(|| json!({}));
            labels[label] = value.clone();
        }
    }
}

/// Sets the `PodScheduled` condition to true. A condition that is true already is left alone.
fn set_scheduled(pod: &mut Map<String, Value>, now: &str) {
    let status = pod.entry("status").or_insert_with(|| json!({}));
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
        Some(held) if held["status"] == "True" => {}
        Some(held) => *held = scheduled,
        None => conditions.push(scheduled),
    }
}
