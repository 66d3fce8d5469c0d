//! `pods/binding`: a scheduler's decision.

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::field_error::FieldError;
use crate::state::{State, Target};

impl State {
    /// Puts a pod on a node; one that is on a node already stays there. The generation stays, too.
    pub(crate) fn bind(
        &mut self,
        target: &Target,
        node: &str,
        dry_run: bool,
    ) -> Result<(), Failure> {
        if node.is_empty() {
            let error = FieldError::required("target.name", "");
            return Err(Failure::invalid("", "Binding", &target.name, &[error]));
        }
        let pod = self.existing(target)?.value();
        let held = pod.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str);
        if let Some(held) = held.filter(|held| !held.is_empty()) {
            let why = format!("pod {} is already assigned to node {held:?}", target.name);
            return Err(Failure::conflict("", "pods/binding", &target.name, &why));
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
