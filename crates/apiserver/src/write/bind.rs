//! `pods/binding`: a scheduler's decision.

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::field_error::FieldError;
use crate::fields::{is_terminating, text};
use crate::state::State;
use crate::target::Target;

impl State {
    /// Puts a pod on a node; one that is on a node already stays there. The generation stays, too.
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
        if !dry_run {
            let mut pod = pod;
            let spec = pod.entry("spec").or_insert_with(|| Value::Object(Map::new()));
            spec["nodeName"] = node.into();
            self.put(&target.kind, &target.key(), pod);
        }
        Ok(())
    }
}
