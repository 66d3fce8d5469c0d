//! Role-based access control: roles and bindings decide who may do what.
//!
//! [`rule`] says what one rule allows, [`index`] who holds which rules, [`escalation`] what nobody
//! may grant who does not hold it ([`coverage`] compares). [`defaults`] are the roles that every
//! cluster has. The state holds an [`Rbac`] only if the server was built with it; otherwise nothing
//! here runs.

mod coverage;
pub(crate) mod defaults;
mod escalation;
pub(crate) mod index;
pub(crate) mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use self::index::{Index, Missing};
use self::rule::{Attributes, GROUP, PolicyRule};
use crate::kind::Kind;
use crate::object::Key;
use crate::user::User;

/// Members of this group may do everything, whatever the roles say.
pub(crate) const MASTERS: &str = "system:masters";

/// The authorizer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rbac {
    index: Index,
    /// Cluster roles that are filled with the rules of others.
    aggregates: BTreeSet<String>,
    /// Whether a cluster role has changed since they were filled.
    stale: bool,
}

/// Whether something is allowed, and why or why not. The reason may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

impl Rbac {
    /// Takes note of an object that was stored.
    pub(crate) fn note(&mut self, kind: &Kind, key: &Key, object: &Map<String, Value>) {
        self.index.note(kind, key, object);
        if kind.is(GROUP, "clusterroles") {
            self.stale = true;
            match object.get("aggregationRule") {
                Some(Value::Object(_)) => self.aggregates.insert(key.name().to_owned()),
                _ => self.aggregates.remove(key.name()),
            };
        }
    }

    /// Takes note of an object that is gone.
    pub(crate) fn forget(&mut self, kind: &Kind, key: &Key) {
        self.index.forget(kind, key);
        if kind.is(GROUP, "clusterroles") {
            self.stale = true;
            self.aggregates.remove(key.name());
        }
    }

    /// The aggregated roles, if they may have to be filled again.
    pub(crate) fn stale_aggregates(&self) -> Option<BTreeSet<String>> {
        self.stale.then(|| self.aggregates.clone())
    }

    /// The aggregated roles are filled.
    pub(crate) fn set_aggregated(&mut self) {
        self.stale = false;
    }

    /// Whether a user may do something.
    pub(crate) fn decide(&self, user: &User, request: &Attributes<'_>) -> Decision {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut problems = Vec::new();
        for grant in self.index.grants(user, request.namespace()) {
            match &grant.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(request)) => {
                    let reason = format!("RBAC: allowed by {}", grant.source());
                    return Decision { allowed: true, reason };
                }
                Ok(_) => {}
                Err(missing) => problems.push(missing.message()),
            }
        }
        let reason = aggregate(problems).map(|why| format!("RBAC: {why}"));
        Decision { allowed: false, reason: reason.unwrap_or_default() }
    }

    /// All rules that a user holds in a namespace, and the roles that were not found on the way.
    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<Missing>) {
        let (mut rules, mut lost) = (Vec::new(), Vec::new());
        for grant in self.index.grants(user, namespace) {
            match grant.rules {
                Ok(held) => rules.extend_from_slice(held),
                Err(missing) => lost.push(missing),
            }
        }
        (rules, lost)
    }
}

/// Several errors as one, each once, as Go's aggregate prints them.
pub(crate) fn aggregate(problems: impl IntoIterator<Item = String>) -> Option<String> {
    let mut unique: Vec<String> = Vec::new();
    for problem in problems {
        if !unique.contains(&problem) {
            unique.push(problem);
        }
    }
    match unique.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
