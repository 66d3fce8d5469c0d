//! The roles and bindings that every cluster has from the start.
//!
//! `defaults.jsonl` was recorded from kube-apiserver v1.36.3, one object in a line, without what
//! all of them have in common. `tests/tests/default_roles.rs` compares it with the real server and
//! records it anew.

use serde_json::{Map, Value, json};

use super::index::GROUP;
use crate::fields::{metadata_mut, text};
use crate::state::State;
use crate::target::Target;
use crate::write::apply::tracking::{Tracking, Writer};

const DEFAULTS: &str = include_str!("defaults.jsonl");

impl State {
    /// Stores the default roles and bindings.
    pub(crate) fn create_default_roles(&mut self) {
        for line in DEFAULTS.lines() {
            let mut object: Map<String, Value> =
                serde_json::from_str(line).expect("a recorded role must be JSON");
            let plural = match object.remove("kind").as_ref().and_then(Value::as_str) {
                Some("ClusterRole") => "clusterroles",
                Some("ClusterRoleBinding") => "clusterrolebindings",
                Some("Role") => "roles",
                _ => "rolebindings",
            };
            let kind = self.registry.by_plural(GROUP, plural);
            let target = Target {
                kind: kind.expect("the kinds of rbac must be built in").clone(),
                version: 0,
                namespace: text(&object, "namespace").to_owned(),
                name: String::new(),
                subresource: String::new(),
            };
            mark(&mut object);
            self.create(&target, object, false, Tracking::By(Writer::default()))
                .expect("a recorded role must be valid");
        }
    }
}

/// What the real server says of every object that it made itself.
fn mark(object: &mut Map<String, Value>) {
    let metadata = metadata_mut(object);
    metadata.insert(
        "annotations".into(),
        json!({"rbac.authorization.kubernetes.io/autoupdate": "true"}),
    );
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/bootstrapping"] = json!("rbac-defaults");
}
