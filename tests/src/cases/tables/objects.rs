//! Objects of built-in kinds, and helpers that create them.

use serde_json::{Value, json};

use super::with_fields;
use crate::Script;

impl Script {
    /// The collection of a kind in the namespace of the case.
    pub(super) fn collection(&self, group: &str, plural: &str) -> String {
        format!("{group}/namespaces/{}/{plural}", self.ns())
    }

    /// Creates an object in a collection and sets its status.
    pub(super) async fn given_with(&mut self, collection: &str, object: Value, status: Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.given(collection, object).await;
        if !status.is_null() {
            self.set_status(&format!("{collection}/{name}"), status).await;
        }
    }
}

/// An object of the core group.
pub(super) fn core(kind: &str, name: &str, content: Value) -> Value {
    object("v1", kind, name, content)
}

pub(super) fn object(api_version: &str, kind: &str, name: &str, content: Value) -> Value {
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    with_fields(object, content)
}
