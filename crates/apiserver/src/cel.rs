//! Rules in CEL, the `x-kubernetes-validations` of custom resources.
//!
//! A rule is compiled when its definition is accepted: parsed (`parse`, by the `cel` crate),
//! checked against the types of its schema (`check`, `types`, `declarations`, `binding`), and kept
//! as a tree (`ast`). On a write it is evaluated (`eval`, `call`, `convert`) on the values of the
//! object (`value`); the functions of the Kubernetes libraries are those of `kube-cel` (`library`).
//! [`Rules`] stand beside the schema, place by place.
//!
//! Evaluation counts what it costs, and ends with an error when it costs too much: for one
//! expression, and for all rules of one write. It never looks at a clock.

mod ast;
mod binding;
mod call;
mod check;
mod convert;
mod declarations;
mod definition;
mod eval;
mod field_path;
mod issue;
mod library;
mod literal;
mod parse;
mod rule;
mod types;
mod value;

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::field_error::{FieldError, NO_FIELD};
use crate::schema::Before;
use binding::Binding;
pub(crate) use definition::check_entries;
use rule::{Bound, Rule, Verdict};

/// What all rules of one write may cost together, as on the real server.
const WRITE_BUDGET: u64 = 10_000_000;

/// The rules of a schema, place by place.
#[derive(Debug)]
pub(crate) struct Rules {
    binding: Binding,
    /// Of the place itself.
    own: Vec<Rule>,
    items: Option<Box<Rules>>,
    /// The fields that tell the items of a list apart.
    keys: Option<Vec<String>>,
    properties: BTreeMap<String, Rules>,
    additional: Option<Box<Rules>>,
}

/// What the rules say about a write.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<FieldError>,
    /// What is wrong, but was so before and has not changed.
    pub(crate) warnings: Vec<String>,
}

impl Rules {
    /// Reads and compiles the rules of a schema; none if there are none. The paths of errors start
    /// with `path`; places below which `known` says that something is wrong are not looked at.
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
        before: Option<Before<'_>>,
    ) -> Findings {
        let mut walk = Walk { findings: Findings::default(), budget: WRITE_BUDGET };
        let ratchet = Ratchet { current: before, parent: None };
        // An end of the budget is among the findings.
        let _ = walk.look(self, "", new, old, ratchet);
        walk.findings
    }

    /// Evaluates all rules on the default of a field.
    pub(crate) fn check_default(&self, path: &str, value: &Json) -> Vec<FieldError> {
        let mut walk = Walk { findings: Findings::default(), budget: WRITE_BUDGET };
        let _ = walk.look(self, path, value, None, Ratchet::default());
        walk.findings.errors
    }

    /// The rules at a field that is declared by name.
    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name)
    }

    /// The rules at the items of a list.
    pub(crate) fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }
}

/// The old value at a path, for ratcheting: an unchanged value that breaks a rule is a warning.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    /// The old value; `None` if the value is new, or cannot be correlated with an old one.
    current: Option<Before<'a>>,
    /// The nearest ancestor with a known old value: its old and its new value.
    parent: Option<(Before<'a>, &'a Json)>,
}

impl<'a> Ratchet<'a> {
    fn is_unchanged(&self, new: &Json) -> bool {
        match (self.current, self.parent) {
            (Some(before), _) => before.is(new),
            (None, Some((before, new))) => before.is(new),
            (None, None) => false,
        }
    }

    fn field(self, name: &str, new: &'a Json) -> Self {
        match self.current {
            None => self,
            // The type is the same before and after an update, so that it says nothing.
            Some(_) if self.parent.is_none() && matches!(name, "apiVersion" | "kind") => {
                Self::default()
            }
            Some(before) => Self { current: before.field(name), parent: Some((before, new)) },
        }
    }

    fn item(self, item: &Json, new: &'a Json) -> Self {
        match self.current {
            None => self,
            Some(before) => Self { current: before.item(item), parent: Some((before, new)) },
        }
    }
}

/// The budget is used up.
struct Exhausted;

struct Walk {
    findings: Findings,
    budget: u64,
}

impl Walk {
    fn look<'a>(
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
                for (name, field) in fields {
                    let old = old.and_then(|old| old.get(name));
                    let ratchet = ratchet.field(name, new);
                    if let Some(rules) = &rules.additional {
                        self.look(rules, &format!("{path}[{name}]"), field, old, ratchet)?;
                    }
                }
                for (name, field) in fields {
                    let Some(rules) = rules.properties.get(name) else { continue };
                    let old = old.and_then(|old| old.get(name));
                    let path =
                        if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.look(rules, &path, field, old, ratchet.field(name, new))?;
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
        let held = old.and_then(Json::as_array);
        for (index, item) in items.iter().enumerate() {
            let old = match (&rules.keys, held) {
                (Some(keys), Some(held)) => held.iter().find(|one| has_same_keys(keys, one, item)),
                _ => None,
            };
            self.look(inner, &format!("{path}[{index}]"), item, old, ratchet.item(item, new))?;
        }
        Ok(())
    }

    /// The rules of one place.
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
        let bound = Bound {
            new: rules.binding.value(new),
            old: old.filter(|_| looks_back).map(|old| rules.binding.value(old)),
        };
        for rule in &rules.own {
            if rule.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            match rule.evaluate(&bound, &mut self.budget) {
                Verdict::Passed => {}
                Verdict::Failed(detail) => {
                    let shown = !matches!(kind.as_str(), "object" | "array");
                    let error = rule.error(path, shown.then_some(new), &detail);
                    if !rule.uses_old && ratchet.is_unchanged(new) {
                        self.findings.warnings.push(error.to_string());
                    } else {
                        self.findings.errors.push(error);
                    }
                }
                Verdict::Broken(detail) => self.findings.errors.push(broken(&detail)),
                Verdict::Over(detail) => {
                    self.findings.errors.push(broken(&detail));
                    return Err(Exhausted);
                }
            }
        }
        Ok(())
    }
}

fn has_same_keys(keys: &[String], a: &Json, b: &Json) -> bool {
    let is_key = |value: &Json| !matches!(value, Json::Null | Json::Array(_) | Json::Object(_));
    a.is_object() && keys.iter().all(|key| is_key(&a[key]) && a[key] == b[key])
}

/// The path as errors have it: that of the root is no field.
fn or_nil(path: &str) -> String {
    if path.is_empty() { NO_FIELD.to_owned() } else { path.to_owned() }
}

#[cfg(test)]
mod tests;
