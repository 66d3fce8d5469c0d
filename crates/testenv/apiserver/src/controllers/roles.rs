//! Fills aggregated cluster roles with the rules of the roles that they select.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::object::{Key, Stored};
use crate::rbac::rule::GROUP;
use crate::selector::object::selects;
use crate::state::State;

/// The maximum number of rounds. Two or three are usual; the rest of a longer chain of roles is
/// filled after the next change of a cluster role.
const ROUNDS_MAX: usize = 64;

impl State {
    /// Fills all aggregated roles, if a cluster role has changed since they were last filled.
    ///
    /// An aggregated role may select another one, so several rounds are needed. Each round visits
    /// the roles in reverse order of their names, which suits the default roles: `admin` selects
    /// `edit`, and `edit` selects `view`. As many rounds as there are roles are enough, unless
    /// roles select each other in a cycle: then the rules may change forever, as on a real cluster.
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

    /// Fills one role. Returns whether it was changed.
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

/// Returns the selectors of an aggregated role. An invalid selector selects nothing.
fn selectors(role: &Map<String, Value>) -> Vec<Value> {
    let list = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    list.and_then(Value::as_array).cloned().unwrap_or_default()
}
