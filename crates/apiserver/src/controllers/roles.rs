//! Aggregated cluster roles are filled with the rules of the roles that they select.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::object::Key;
use crate::rbac::index::GROUP;
use crate::selector::label::LabelSelector;
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
                if *other != key && selector.matches(&object.labels) {
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

/// What an aggregated role selects. A selector that is invalid selects nothing.
fn selectors(role: &Map<String, Value>) -> Vec<LabelSelector> {
    let list = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|selector| LabelSelector::parse(&written(selector)).ok()).collect()
}

/// A selector as a query writes it: `a=b,c in (d,e),!f`.
fn written(selector: &Value) -> String {
    let mut terms = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let values = values.join(",");
        terms.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}
