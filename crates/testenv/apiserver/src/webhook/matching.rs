//! Selects the webhooks for a write: by rules, selectors and conditions.

use serde_json::Value;

use super::attributes::{Attributes, Operation};
use super::hook::{Hook, Rule};
use crate::cel::Subject;
use crate::failure::Failure;
use crate::kinds::Registered;
use crate::selector::object::selects;

/// The properties of a write that rules match.
#[derive(Clone, Copy)]
pub(crate) struct RuleInput<'a> {
    pub(crate) of: &'a Registered,
    /// The version of the path.
    pub(crate) version: &'a str,
    pub(crate) subresource: &'a str,
    /// For a namespace, its own name.
    pub(crate) namespace: &'a str,
    pub(crate) operation: Operation,
}

impl Hook {
    /// Returns the version in which the webhook wants the objects of a write, or `None` if its
    /// rules do not match.
    pub(crate) fn version_for<'a>(&self, place: &RuleInput<'a>) -> Option<&'a str> {
        let RuleInput { of, version: requested, .. } = *place;
        let is_clustered = place.namespace.is_empty() || of.is("", "namespaces");
        let matches = |rule: &Rule, version: &str| {
            rule.covers_scope(is_clustered)
                && has(&rule.operations, place.operation.name())
                && has(&rule.groups, &of.group)
                && has(&rule.versions, version)
                && rule.covers_resource(&of.plural, place.subresource)
        };
        if self.rules.iter().any(|rule| matches(rule, requested)) {
            return Some(requested);
        }
        if !self.matches_equivalent {
            return None;
        }
        let others =
            of.versions.iter().filter(|version| version.served && version.name != requested);
        let others: Vec<&str> = others.map(|version| version.name.as_str()).collect();
        self.rules
            .iter()
            .find_map(|rule| others.iter().copied().find(|version| matches(rule, version)))
    }

    /// Returns whether the selectors match, given the labels of the namespace.
    pub(super) fn selects(&self, write: &Attributes, namespace_labels: &Value) -> bool {
        let is_namespace = write.of.is("", "namespaces");
        let has_one = !write.namespace.is_empty() || is_namespace;
        if has_one && !self.namespace_selector.is_null() {
            let writes_it = is_namespace
                && write.subresource.is_empty()
                && write.operation != Operation::Delete;
            let labels =
                if writes_it { &write.object["metadata"]["labels"] } else { namespace_labels };
            if !selects(&self.namespace_selector, labels) {
                return false;
            }
        }
        if self.object_selector.as_object().is_none_or(serde_json::Map::is_empty) {
            return true;
        }
        let matches = |object: &Value| {
            object.is_object() && selects(&self.object_selector, &object["metadata"]["labels"])
        };
        matches(&write.object) || matches(&write.old)
    }

    /// Returns whether the conditions hold for a write whose objects are in `version`.
    ///
    /// # Errors
    /// A 403 if a condition fails to evaluate and the failure policy is not `Ignore`.
    pub(super) fn meets_conditions(
        &self,
        write: &Attributes,
        version: &str,
    ) -> Result<bool, Failure> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let request = Value::Object(write.request(version));
        let subject = Subject { object: &write.object, old_object: &write.old, request: &request };
        let mut errors = Vec::new();
        for condition in &self.conditions {
            match condition.holds(&subject) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => errors.push(why),
            }
        }
        if errors.is_empty() || self.ignores_failure {
            return Ok(errors.is_empty());
        }
        let why =
            if errors.len() == 1 { errors.remove(0) } else { format!("[{}]", errors.join(", ")) };
        let resource = &write.resource;
        Err(Failure::forbidden(&resource.group, &resource.name, &write.name, &why))
    }
}

impl Rule {
    fn covers_scope(&self, is_clustered: bool) -> bool {
        match self.scope.as_str() {
            "Namespaced" => !is_clustered,
            "Cluster" => is_clustered,
            _ => true,
        }
    }

    fn covers_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|wanted| {
            let (name, part) = wanted.split_once('/').unwrap_or((wanted, ""));
            (name == "*" || name == resource) && (part == "*" || part == subresource)
        })
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}
