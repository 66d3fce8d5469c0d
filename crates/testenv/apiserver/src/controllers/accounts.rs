//! Creates the service account `default` in every namespace, if the server is configured to. On a
//! real cluster kube-controller-manager does this.

use serde_json::{Map, json};

use crate::fields::is_terminating;
use crate::kinds::Registered;
use crate::object::Key;
use crate::state::{ObjectChange, State};
use crate::target::Target;
use crate::write::apply::tracking::{Tracking, Writer};

/// The account of pods that name no account.
const DEFAULT: &str = "default";

impl State {
    pub(super) fn settle_account(&mut self, kind: &Registered, touched: &ObjectChange) {
        let namespace = match &touched.removed {
            None if kind.is("", "namespaces") => touched.key.name(),
            Some(_) if kind.is("", "serviceaccounts") && touched.key.name() == DEFAULT => {
                touched.key.namespace()
            }
            _ => return,
        };
        let namespaces = self.registry.namespaces();
        let found = self.store.get(namespaces.storage, &Key::new("", namespace));
        let Some(accounts) = self.registry.by_plural("", "serviceaccounts").cloned() else {
            return;
        };
        let exists = self.store.get(accounts.storage, &Key::new(namespace, DEFAULT)).is_some();
        if exists || found.is_none_or(|found| is_terminating(&found.value())) {
            return;
        }
        let target = Target {
            kind: accounts,
            version: 0,
            namespace: namespace.to_owned(),
            name: String::new(),
            subresource: String::new(),
        };
        let account = Map::from_iter([("metadata".to_owned(), json!({"name": DEFAULT}))]);
        let made = self.create(&target, account, false, Tracking::By(Writer::default()));
        debug_assert!(made.is_ok(), "a default service account must be valid: {made:?}");
    }
}
