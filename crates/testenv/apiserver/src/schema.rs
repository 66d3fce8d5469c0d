//! Structural schemas of custom resources: validation, pruning and defaulting.
//!
//! A schema is parsed once, when a definition is accepted. Then it prunes, defaults and validates
//! objects, in this order. CEL rules come last ([`Schema::check_rules`]). Where the real server
//! visits the fields of an object in random order, errors are sorted by field name here.

pub(crate) mod before;
mod defaults;
mod embedded;
mod format;
mod keywords;
mod lists;
pub(crate) mod node;
mod outcome;
pub(crate) mod pattern;
mod prune;
mod scalar;
pub(crate) mod structural;
mod validate;
pub(crate) mod value_type;

use serde_json::Value;

use crate::cel::Rules;
use crate::field_error::{
    FieldError, NO_FIELD, NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID,
};
use before::OldValue;
use node::Node;

/// The structural schema of one version of a custom resource.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Node,
    /// `None` if the schema has no rules.
    rules: Option<Rules>,
}

impl Schema {
    /// Parses the `openAPIV3Schema` of a definition. The paths of errors start with that name.
    pub(crate) fn parse(schema: &Value) -> Result<Self, Vec<FieldError>> {
        Self::parse_at(schema, "openAPIV3Schema")
    }

    /// Parses a schema, with `path` at the start of the paths of errors.
    pub(crate) fn parse_at(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        if !schema.is_object() {
            let detail = format!("{path} must be an object");
            return Err(vec![FieldError::type_invalid(path, schema, &detail)]);
        }
        let root = Node::read(schema);
        let mut errors = Vec::new();
        if !keywords::has_unsupported(schema) {
            errors = structural::check(schema, path);
            if errors.is_empty() {
                check_defaults(&root, path, false, &mut errors);
            }
        }
        let is_structural = errors.is_empty() && !keywords::has_unsupported(schema);
        let keywords = keywords::check(schema, path);
        let mut rules = None;
        if is_structural {
            let (compiled, wrong) = Rules::compile(schema, path, &keywords);
            if let Some(compiled) = compiled.as_ref().filter(|_| wrong.is_empty()) {
                check_rules_of_defaults(&root, compiled, path, &mut errors);
            }
            errors.extend(keywords);
            errors.extend(wrong);
            rules = compiled;
        } else {
            errors.extend(keywords);
        }
        if errors.is_empty() && keywords::has_unsupported(schema) {
            let detail = "OpenAPIV3Schema 'schema' is not supported";
            errors.push(FieldError::invalid_str(path, "", detail));
        }
        if errors.is_empty() { Ok(Self { root, rules }) } else { Err(errors) }
    }

    /// Removes unknown fields and returns their paths, sorted. The type meta and metadata of the
    /// object are left alone.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Returns the schema of whole objects.
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// Fills in the defaults of missing fields.
    pub(crate) fn default(&self, object: &mut Value) {
        defaults::apply(&self.root, object);
    }

    /// Validates a new object, except for its metadata.
    pub(crate) fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, object, None, "");
        embedded::check(&self.root, object, "", &mut errors);
        lists::check(&self.root, object, "", &mut errors);
        errors
    }

    /// Validates an update, except for its metadata. Errors in unchanged values are ignored.
    pub(crate) fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, new, Some(old), "");
        embedded::check(&self.root, new, "", &mut errors);
        self.check_new_lists(new, old, &mut errors);
        errors
    }

    /// Validates an update of the status, and nothing else.
    pub(crate) fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(node), Some(status)) = (self.root.properties.get("status"), new.get("status"))
        {
            errors = validate::validate(node, status, old.get("status"), "status");
        }
        self.check_new_lists(new, old, &mut errors);
        errors
    }

    /// Checks lists for duplicates, unless the old object had some already.
    fn check_new_lists(&self, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        let mut before = Vec::new();
        lists::check(&self.root, old, "", &mut before);
        if before.is_empty() {
            lists::check(&self.root, new, "", errors);
        }
    }

    /// Evaluates the rules on an object, after its other errors are known. After certain errors the
    /// real server skips the rules, and reports that. Returns warnings: rules that are not met by
    /// unchanged values.
    pub(crate) fn check_rules(
        &self,
        new: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
    ) -> Vec<String> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let blocks = |error: &FieldError| {
            [NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID].contains(&error.reason)
        };
        if errors.iter().any(blocks) {
            errors.push(rules_not_checked());
            return Vec::new();
        }
        let found = rules.check(new, old, old.map(|old| OldValue::new(&self.root, old)));
        errors.extend(found.errors);
        found.warnings
    }
}

/// Returns the last error when rules were skipped because of other errors.
fn rules_not_checked() -> FieldError {
    FieldError::invalid(
        NO_FIELD,
        &Value::Null,
        "some validation rules were not checked because the object was invalid; correct the existing errors to \
         complete validation",
    )
}

/// Checks that defaults follow their schema.
fn check_defaults(node: &Node, path: &str, in_meta: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        let field = format!("{path}.default");
        if !in_meta && prune::has_unknown(node, default) {
            errors.push(FieldError::invalid(&field, default, "must not have unknown fields"));
        }
        let mut found = Vec::new();
        if !in_meta {
            embedded::check(node, default, &field, &mut found);
        }
        if found.is_empty() {
            found = validate::validate(node, default, None, &field);
        }
        errors.append(&mut found);
    }
    if let Some(items) = &node.items {
        check_defaults(items, &format!("{path}.items"), in_meta, errors);
    }
    for (name, property) in &node.properties {
        let meta = node.embedded && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let path = format!("{path}.properties[{name}]");
        check_defaults(property, &path, in_meta || meta, errors);
    }
}

/// Checks that defaults meet their rules.
fn check_rules_of_defaults(node: &Node, rules: &Rules, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        errors.extend(rules.check_default(&format!("{path}.default"), default));
    }
    if let (Some(items), Some(rules)) = (&node.items, rules.items()) {
        check_rules_of_defaults(items, rules, &format!("{path}.items"), errors);
    }
    for (name, property) in &node.properties {
        if let Some(rules) = rules.property(name) {
            let path = format!("{path}.properties[{name}]");
            check_rules_of_defaults(property, rules, &path, errors);
        }
    }
}

#[cfg(test)]
mod tests;
