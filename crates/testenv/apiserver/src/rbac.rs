//! Role-based access control: authorizes requests by roles and bindings.
//!
//! [`rule`] evaluates one rule, [`index`] finds the rules of a user, [`escalation`] prevents users
//! from granting rights that they do not hold ([`coverage`] compares rights), and [`defaults`] has
//! the roles of every cluster. The state has an [`Rbac`] only if the server was built with it;
//! otherwise nothing here runs.

mod coverage;
pub(crate) mod defaults;
mod escalation;
pub(crate) mod index;
pub(crate) mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use self::index::{Index, MissingRole};
use self::rule::{Attributes, GROUP, PolicyRule};
use crate::kind::Kind;
use crate::object::Key;
use crate::user::User;

/// Members of this group may do everything, whatever the roles allow.
pub(crate) const MASTERS: &str = "system:masters";

/// The authorizer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rbac {
    index: Index,
    /// The names of the cluster roles with an aggregation rule.
    aggregates: BTreeSet<String>,
    /// Whether a cluster role has changed since these were filled.
    stale: bool,
}

/// Whether a request is allowed, and why or why not. The reason may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

impl Rbac {
    /// Updates the index with an object that was stored.
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

    /// Updates the index after an object was removed.
    pub(crate) fn forget(&mut self, kind: &Kind, key: &Key) {
        self.index.forget(kind, key);
        if kind.is(GROUP, "clusterroles") {
            self.stale = true;
            self.aggregates.remove(key.name());
        }
    }

    /// Returns the aggregated roles, if they may have to be filled again.
    pub(crate) fn stale_aggregates(&self) -> Option<BTreeSet<String>> {
        self.stale.then(|| self.aggregates.clone())
    }

    /// Notes that the aggregated roles are filled.
    pub(crate) fn set_aggregated(&mut self) {
        self.stale = false;
    }

    /// Decides whether a user may make a request.
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

    /// Returns all rules that a user holds in a namespace, and the bound roles that do not exist.
    pub(crate) fn rules_of(
        &self,
        user: &User,
        namespace: &str,
    ) -> (Vec<PolicyRule>, Vec<MissingRole>) {
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

/// Joins errors as Go's aggregate prints them, each once.
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
