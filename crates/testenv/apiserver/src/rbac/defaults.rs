//! The roles and bindings that every cluster has from the start.
//!
//! `defaults.jsonl` was recorded from kube-apiserver v1.36.3: one object per line, without the
//! fields that all of them share. `tests/tests/default_roles.rs` compares it with the real server
//! and can record it again.

use serde_json::{Map, Value, json};

use super::rule::GROUP;
use crate::fields::{metadata_mut, text};
use crate::object::Key;
use crate::state::State;

const DEFAULTS: &str = include_str!("defaults.jsonl");

impl State {
    /// Stores the default roles and bindings. They are valid and complete, except for what
    /// `mark` adds, so they are stored without admission and validation.
    pub(crate) fn create_default_roles(&mut self) {
        let now = self.clock.now();
        for (plural, mut object) in recorded() {
            let kind = self.registry.by_plural(GROUP, plural).cloned();
            let kind = kind.expect("the kinds of rbac must be built in");
            mark(&mut object, &self.ids.uid(), &now);
            let key = Key::new(text(&object, "namespace"), text(&object, "name"));
            self.put(&kind, &key, object);
        }
    }
}

/// Returns the objects of the file, with the plurals of their kinds.
pub(super) fn recorded() -> impl Iterator<Item = (&'static str, Map<String, Value>)> {
    DEFAULTS.lines().map(|line| {
        let object = serde_json::from_str(line);
        let mut object: Map<String, Value> = object.expect("a recorded role must be JSON");
        let plural = match object.remove("kind").as_ref().and_then(Value::as_str) {
            Some("ClusterRole") => "clusterroles",
            Some("ClusterRoleBinding") => "clusterrolebindings",
            Some("Role") => "roles",
            _ => "rolebindings",
        };
        (plural, object)
    })
}

/// Adds the fields that the real server sets on every object that it creates itself.
fn mark(object: &mut Map<String, Value>, uid: &str, now: &str) {
    if object.contains_key("aggregationRule") {
        object.insert("rules".into(), Value::Null);
    }
    let metadata = metadata_mut(object);
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), now.into());
    metadata.insert(
        "annotations".into(),
        json!({"rbac.authorization.kubernetes.io/autoupdate": "true"}),
    );
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/bootstrapping"] = json!("rbac-defaults");
}
