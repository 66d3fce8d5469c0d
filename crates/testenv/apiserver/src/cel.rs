//! CEL rules: the `x-kubernetes-validations` of custom resources.
//!
//! A rule is compiled when its definition is accepted: it is parsed (`depth`, `parse`, with the
//! `cel` crate), checked against the types of its schema (`check`, `types`, `declarations`,
//! `binding`), and kept as a tree (`ast`). On a write it is evaluated (`eval`, `call`, `stop`,
//! `convert`, `format`) on the values of the object (`value`, `identity`, `weight`). The functions
//! of the Kubernetes libraries come from `kube-cel` (`library`). [`Rules`] is a tree with the same
//! shape as the schema. `crates/testenv/APISERVER.md` says why the rest of `kube-cel` is not used.
//!
//! The match conditions of webhooks are compiled and evaluated in the same way (`condition`).
//!
//! Evaluation counts its cost, and fails beyond a limit: for one expression, and for all rules of
//! one write. It does not use a clock.

mod ast;
mod binding;
mod call;
mod check;
mod condition;
mod convert;
mod declarations;
mod definition;
mod depth;
mod eval;
mod field_path;
mod format;
mod identity;
mod issue;
mod keywords;
mod library;
mod literal;
mod parse;
mod rule;
mod stop;
mod types;
mod value;
mod weight;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::field_error::{FieldError, NO_FIELD};
use crate::schema::before::{KeyedItems, OldItems, OldValue};
use binding::Binding;
pub(crate) use condition::{Condition, Subject};
pub(crate) use definition::check_entries;
use rule::{Rule, RuleInput, RuleOutcome};

/// The cost limit for all rules of one write, as on the real server.
const WRITE_BUDGET: u64 = 10_000_000;

/// The rules of a schema and of the schemas below it.
#[derive(Debug)]
pub(crate) struct Rules {
    binding: Binding,
    /// The rules of this schema itself.
    own: Vec<Rule>,
    items: Option<Box<Rules>>,
    /// The key fields of the items, if this is a keyed list.
    keys: Option<Vec<String>>,
    properties: BTreeMap<String, Rules>,
    additional: Option<Box<Rules>>,
}

/// The result of evaluating the rules on a write.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<FieldError>,
    /// The messages of rules that unchanged values violate.
    pub(crate) warnings: Vec<String>,
}

impl Rules {
    /// Compiles the rules of a schema. Returns `None` if there are none. The paths of errors start
    /// with `path`. Schemas that `known` has errors for are skipped.
    pub(crate) fn compile(
        schema: &Json,
        path: &str,
        known: &[FieldError],
    ) -> (Option<Self>, Vec<FieldError>) {
        definition::compile(schema, path, known)
    }

    /// Evaluates all rules on a new or changed object.
    pub(crate) fn check(
        &self,
        new: &Json,
        old: Option<&Json>,
        before: Option<OldValue<'_>>,
    ) -> Findings {
        let mut walk = RuleWalk { findings: Findings::default(), budget: WRITE_BUDGET };
        let ratchet = Ratchet { current: before, parent: None };
        // If the budget runs out, that is among the findings.
        let _ = walk.evaluate_tree(self, "", new, old, ratchet);
        walk.findings
    }

    /// Evaluates all rules on the default of a field.
    pub(crate) fn check_default(&self, path: &str, value: &Json) -> Vec<FieldError> {
        let mut walk = RuleWalk { findings: Findings::default(), budget: WRITE_BUDGET };
        let _ = walk.evaluate_tree(self, path, value, None, Ratchet::default());
        walk.findings.errors
    }

    /// Returns the rules of a declared field.
    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name)
    }

    /// Returns the rules of the items of a list.
    pub(crate) fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }
}

/// The old value at a path, for ratcheting: if an unchanged value violates a rule, that is only a
/// warning.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    /// The old value; `None` if the value is new, or cannot be correlated with an old one.
    current: Option<OldValue<'a>>,
    /// The nearest ancestor with a known old value.
    parent: Option<&'a Ancestor<'a>>,
}

/// A value above the current one, with its old and its new value.
struct Ancestor<'a> {
    before: OldValue<'a>,
    new: &'a Json,
    /// Whether both are equal. Computed once for all values below.
    unchanged: OnceCell<bool>,
}

impl<'a> Ratchet<'a> {
    fn is_unchanged(&self, new: &Json) -> bool {
        match (self.current, self.parent) {
            (Some(before), _) => before.is_same_as(new),
            (None, Some(above)) => {
                *above.unchanged.get_or_init(|| above.before.is_same_as(above.new))
            }
            (None, None) => false,
        }
    }

    /// Returns this value as the ancestor of the values below it.
    fn ancestor(self, new: &'a Json) -> Option<Ancestor<'a>> {
        self.current.map(|before| Ancestor { before, new, unchanged: OnceCell::new() })
    }

    /// Returns the ratchet of a field of this value. If the old value is unknown, so is that of the
    /// field, and the ancestor stays the same.
    fn of_field<'b>(self, name: &str, here: Option<&'b Ancestor<'b>>) -> Ratchet<'b>
    where
        'a: 'b,
    {
        match self.current {
            None => self,
            // The type meta never changes, so it does not take part in ratcheting.
            Some(_) if self.parent.is_none() && matches!(name, "apiVersion" | "kind") => {
                Ratchet::default()
            }
            Some(before) => Ratchet { current: before.field(name), parent: here },
        }
    }

    /// Returns the ratchet of an item of this list. `held` are the old items.
    fn of_item<'b>(
        self,
        item: &Json,
        held: Option<&OldItems<'b>>,
        here: Option<&'b Ancestor<'b>>,
    ) -> Ratchet<'b>
    where
        'a: 'b,
    {
        match self.current {
            None => self,
            Some(_) => Ratchet { current: held.and_then(|held| held.find(item)), parent: here },
        }
    }
}

/// The budget is used up.
struct Exhausted;

struct RuleWalk {
    findings: Findings,
    budget: u64,
}

impl RuleWalk {
    fn evaluate_tree<'a>(
        &mut self,
        rules: &Rules,
        path: &str,
        new: &'a Json,
        old: Option<&Json>,
        ratchet: Ratchet<'a>,
    ) -> Result<(), Exhausted> {
        if new.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.evaluate(rules, path, new, old, ratchet)?;
        match new {
            Json::Array(items) => self.items(rules, path, new, items, old, ratchet),
            Json::Object(fields) => {
                let here = ratchet.ancestor(new);
                for (name, field) in fields {
                    let old = old.and_then(|old| old.get(name));
                    let ratchet = ratchet.of_field(name, here.as_ref());
                    if let Some(rules) = &rules.additional {
                        self.evaluate_tree(rules, &format!("{path}[{name}]"), field, old, ratchet)?;
                    }
                }
                for (name, field) in fields {
                    let Some(rules) = rules.properties.get(name) else { continue };
                    let old = old.and_then(|old| old.get(name));
                    let path =
                        if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    let ratchet = ratchet.of_field(name, here.as_ref());
                    self.evaluate_tree(rules, &path, field, old, ratchet)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn items<'a>(
        &mut self,
        rules: &Rules,
        path: &str,
        new: &'a Json,
        items: &'a [Json],
        old: Option<&Json>,
        ratchet: Ratchet<'a>,
    ) -> Result<(), Exhausted> {
        let Some(inner) = &rules.items else { return Ok(()) };
        let old = match (&rules.keys, old.and_then(Json::as_array)) {
            (Some(keys), Some(held)) => Some(KeyedItems::new(keys, held)),
            _ => None,
        };
        let held = ratchet.current.and_then(OldValue::items);
        let here = ratchet.ancestor(new);
        for (index, item) in items.iter().enumerate() {
            let old = old.as_ref().and_then(|old| old.find(item));
            let ratchet = ratchet.of_item(item, held.as_ref(), here.as_ref());
            self.evaluate_tree(inner, &format!("{path}[{index}]"), item, old, ratchet)?;
        }
        Ok(())
    }

    /// Evaluates the rules of one schema on a value.
    fn evaluate(
        &mut self,
        rules: &Rules,
        path: &str,
        new: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Exhausted> {
        if rules.own.is_empty() {
            return Ok(());
        }
        let kind = &rules.binding.type_name;
        let broken = |detail: &str| FieldError::invalid_str(or_nil(path), kind, detail);
        if self.budget == 0 {
            self.findings.errors.push(broken(&rule::out_of_budget()));
            return Err(Exhausted);
        }
        let looks_back = rules.own.iter().any(|rule| rule.uses_old);
        let bound = RuleInput {
            new: rules.binding.value(new),
            old: old.filter(|_| looks_back).map(|old| rules.binding.value(old)),
        };
        for rule in &rules.own {
            if rule.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            match rule.evaluate(&bound, &mut self.budget) {
                RuleOutcome::Passed => {}
                RuleOutcome::Failed(detail) => {
                    let shown = !matches!(kind.as_str(), "object" | "array");
                    let error = rule.error(path, shown.then_some(new), &detail);
                    if !rule.uses_old && ratchet.is_unchanged(new) {
                        self.findings.warnings.push(error.to_string());
                    } else {
                        self.findings.errors.push(error);
                    }
                }
                RuleOutcome::EvaluationFailed(detail) => self.findings.errors.push(broken(&detail)),
                RuleOutcome::BudgetExceeded(detail) => {
                    self.findings.errors.push(broken(&detail));
                    return Err(Exhausted);
                }
            }
        }
        Ok(())
    }
}

/// Returns the path for errors. The root has no field.
fn or_nil(path: &str) -> String {
    if path.is_empty() { NO_FIELD.to_owned() } else { path.to_owned() }
}

#[cfg(test)]
mod tests;
