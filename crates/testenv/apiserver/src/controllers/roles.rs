//! Aggregated cluster roles are filled with the rules of the roles that they select.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::object::{Key, Stored};
use crate::rbac::rule::GROUP;
use crate::selector::object::selects;
use crate::state::State;

/// Rounds in which aggregated roles are filled. People aggregate in two or three steps; whoever
/// builds a longer chain of roles waits for the next change of one.
const ROUNDS_MAX: usize = 64;

impl State {
    /// Fills all aggregated roles, if a cluster role has changed since they were filled last.
    ///
    /// One may select another, so it takes rounds. They go backwards: of the default roles, `admin`
    /// selects `edit`, and that one `view`. As many rounds as there are roles are enough, unless
    /// roles select each other in a circle: then rules may go round for ever, as they do on a real
    /// cluster.
    pub(super) fn aggregate_roles(&mut self) {
        let Some(names) = self.rbac.as_ref().and_then(|rbac| rbac.stale_aggregates()) else {
            return;
        };
        for _ in 0..=names.len().min(ROUNDS_MAX) {
            let changed = names.iter().rev().filter(|name| self.fill_role(name)).count();
            if changed == 0 {
                break;
            }
        }
        if let Some(rbac) = &mut self.rbac {
            std::sync::Arc::make_mut(rbac).set_aggregated();
        }
    }

    /// Whether the role was changed.
    fn fill_role(&mut self, name: &str) -> bool {
        let Some(kind) = self.registry.by_plural(GROUP, "clusterroles").cloned() else {
            return false;
        };
        let key = Key::new("", name);
        let Some(role) = self.store.get(kind.storage, &key).map(|role| role.value()) else {
            return false;
        };
        let (mut rules, mut seen) = (Vec::new(), BTreeSet::new());
        for selector in selectors(&role) {
            for (other, object) in self.store.objects(kind.storage, "") {
                if *other != key && selects(&selector, &labels_of(object)) {
                    for rule in rules_of(&object.value()) {
                        if seen.insert(rule.to_string()) {
                            rules.push(rule);
                        }
                    }
                }
            }
        }
        if rules == rules_of(&role) {
            return false;
        }
        self.rewrite(&kind, &key, |role| {
            let rules = if rules.is_empty() { Value::Null } else { Value::Array(rules) };
            role.insert("rules".into(), rules);
        });
        true
    }
}

fn rules_of(role: &Map<String, Value>) -> Vec<Value> {
    role.get("rules").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn labels_of(role: &Stored) -> Value {
    let labels = role.labels.iter();
    labels
        .map(|(key, value)| (key.to_string(), Value::from(&**value)))
        .collect::<Map<_, _>>()
        .into()
}

/// What an aggregated role selects. A selector that is invalid selects nothing.
fn selectors(role: &Map<String, Value>) -> Vec<Value> {
    let list = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    list.and_then(Value::as_array).cloned().unwrap_or_default()
}
