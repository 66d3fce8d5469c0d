//! Empties a deleted namespace, and releases it when it has no objects left.

use serde_json::Value;

use crate::fields::is_terminating;
use crate::kinds::Registered;
use crate::object::Key;
use crate::state::{ObjectChange, State};
use crate::write::delete::DeleteOptions;

impl State {
    pub(super) fn settle_namespace(&mut self, kind: &Registered, touched: &ObjectChange) {
        let name = if kind.is("", "namespaces") {
            if touched.removed.is_some() {
                return;
            }
            touched.key.name()
        } else if touched.removed.is_some() {
            touched.key.namespace()
        } else {
            return;
        };
        let namespaces = self.registry.namespaces().clone();
        let key = Key::new("", name);
        let Some(namespace) = self.store.get(namespaces.storage, &key) else { return };
        if name.is_empty() || !is_terminating(&namespace.value()) {
            return;
        }
        if kind.is("", "namespaces") {
            for (kind, key) in self.store.namespace_content(name) {
                let Some(kind) = self.registry.by_id(kind).cloned() else { continue };
                self.delete_quietly(&kind, &key, &DeleteOptions::cascade(false));
            }
        }
        if self.store.namespace_is_empty(name) {
            self.rewrite(&namespaces, &key, |namespace| {
                let Some(spec) = namespace.get_mut("spec").and_then(Value::as_object_mut) else {
                    return;
                };
                let Some(Value::Array(finalizers)) = spec.get_mut("finalizers") else { return };
                finalizers.retain(|name| name != "kubernetes");
                if finalizers.is_empty() {
                    spec.remove("finalizers");
                }
            });
        }
    }
}
