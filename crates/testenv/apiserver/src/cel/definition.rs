//! The rules of a definition: read, checked and compiled, with the paths and error texts of the
//! real server.

use serde_json::{Value as Json, json};

use super::Rules;
use super::binding::{Binding, is_embedded};
use super::field_path;
use super::parse;
use super::rule::Rule;
use crate::field_error::{FieldError, go_json};
use crate::schema::structural::parts;

/// Compiles the rules of a schema and of all schemas below it.
pub(super) fn compile(
    schema: &Json,
    path: &str,
    known: &[FieldError],
) -> (Option<Rules>, Vec<FieldError>) {
    if !has_entries(schema) {
        return (None, Vec::new());
    }
    let compiled = parse::on_parser_stack(|| {
        let mut compiler = Compiler { known, errors: Vec::new() };
        let place = SchemaPosition { path, root: true, uncorrelated: None };
        let rules = compiler.place(schema, place);
        (rules, compiler.errors)
    });
    compiled.unwrap_or_else(|| {
        let why = "internal error: the rules cannot be compiled";
        (None, vec![FieldError::internal(path.to_owned(), why)])
    })
}

/// Whether the schema or one below it has rules.
fn has_entries(schema: &Json) -> bool {
    let additional = &schema["additionalProperties"];
    entries(schema).next().is_some()
        || schema["items"].is_object() && has_entries(&schema["items"])
        || additional.is_object() && has_entries(additional)
        || schema["properties"].as_object().is_some_and(|fields| fields.values().any(has_entries))
}

fn entries(schema: &Json) -> impl Iterator<Item = (usize, &Json)> {
    parts(schema, "x-kubernetes-validations")
}

/// The position of a schema in the definition.
#[derive(Clone, Copy)]
struct SchemaPosition<'a> {
    path: &'a str,
    /// Whether the values are resources.
    root: bool,
    /// The path of the nearest enclosing list whose items cannot be correlated with old ones (it is
    /// not of the type `map`), so that rules below it cannot use `oldSelf`.
    uncorrelated: Option<&'a str>,
}

struct Compiler<'a> {
    known: &'a [FieldError],
    errors: Vec<FieldError>,
}

impl Compiler<'_> {
    /// Compiles the rules of this schema and of those below it. Schemas in `allOf`, `anyOf`,
    /// `oneOf` and `not` are skipped: a structural schema has no rules there.
    fn place(&mut self, schema: &Json, place: SchemaPosition<'_>) -> Option<Rules> {
        let SchemaPosition { path, root, .. } = place;
        let inside = |name: &str| format!("{path}.{name}");
        let mut rules = Rules {
            binding: Binding::read(schema, root),
            own: Vec::new(),
            items: None,
            keys: None,
            properties: std::collections::BTreeMap::new(),
            additional: None,
        };
        let additional = &schema["additionalProperties"];
        if additional.is_object() {
            let path = inside("additionalProperties");
            let below = SchemaPosition { path: &path, root: is_embedded(additional), ..place };
            rules.additional = self.place(additional, below).map(Box::new);
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = inside(&format!("properties[{name}]"));
            let below = SchemaPosition { path: &path, root: is_embedded(field), ..place };
            if let Some(found) = self.place(field, below) {
                rules.properties.insert(name.clone(), found);
            }
        }
        let items = &schema["items"];
        let is_keyed = schema["x-kubernetes-list-type"] == "map";
        if items.is_object() {
            let below = SchemaPosition {
                path: &inside("items"),
                root: is_embedded(items),
                uncorrelated: if is_keyed { place.uncorrelated } else { Some(path) },
            };
            rules.items = self.place(items, below).map(Box::new);
        }
        rules.keys = is_keyed.then(|| {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            keys.filter_map(Json::as_str).map(str::to_owned).collect()
        });
        self.own(schema, place, &mut rules);
        let has_some = !rules.own.is_empty()
            || rules.items.is_some()
            || rules.additional.is_some()
            || !rules.properties.is_empty();
        has_some.then_some(rules)
    }

    /// Compiles the rules of this schema itself.
    fn own(&mut self, schema: &Json, place: SchemaPosition<'_>, rules: &mut Rules) {
        if entries(schema).next().is_none() || self.is_known(place.path) {
            return;
        }
        let path = format!("{}.x-kubernetes-validations", place.path);
        let Some(declared) = rules.binding.declared("selfType") else {
            self.errors.push(FieldError::internal(
                path,
                "internal error: failed to construct type information for x-kubernetes-validations \
                 rules: unable to convert structural schema to CEL declarations",
            ));
            return;
        };
        for (index, entry) in entries(schema) {
            let at = format!("{path}[{index}]");
            let field = entry["fieldPath"].as_str().unwrap_or_default();
            let field = field_path::normalise(field, schema).unwrap_or_default();
            let (rule, faults) = Rule::compile(entry, &declared, field);
            let shown = shown(entry);
            if let Some(why) = &faults.rule {
                self.errors.push(FieldError::invalid_as(format!("{at}.rule"), &shown, why));
            }
            if let Some(why) = &faults.message {
                let field = format!("{at}.messageExpression");
                self.errors.push(FieldError::invalid_as(field, &shown, why));
            }
            match (rule.uses_old, place.uncorrelated) {
                (true, Some(list)) => {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                    );
                    let source = entry["rule"].as_str().unwrap_or_default();
                    self.errors.push(FieldError::invalid_str(
                        format!("{at}.rule"),
                        source,
                        &detail,
                    ));
                }
                (false, _) if !entry["optionalOldSelf"].is_null() => {
                    let detail = "may not be set if oldSelf is not used in rule";
                    let value = &entry["optionalOldSelf"];
                    let field = format!("{at}.optionalOldSelf");
                    self.errors.push(FieldError::invalid(field, value, detail));
                }
                _ => {}
            }
            rules.own.push(rule);
        }
    }

    /// Whether there is an error already for this schema or one below it.
    fn is_known(&self, path: &str) -> bool {
        let is_below = |field: &str| {
            field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.known.iter().any(|error| is_below(&error.field))
    }
}

/// Formats an entry as the real server prints its own type.
fn shown(entry: &Json) -> String {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    let fields = [
        ("Rule", json!(text("rule"))),
        ("Message", json!(text("message"))),
        ("MessageExpression", json!(text("messageExpression"))),
        ("Reason", entry["reason"].clone()),
        ("FieldPath", json!(text("fieldPath"))),
        ("OptionalOldSelf", entry["optionalOldSelf"].clone()),
    ];
    let fields =
        fields.map(|(name, value)| format!("{}:{}", go_json(&name.into()), go_json(&value)));
    format!("{{{}}}", fields.join(","))
}

/// Checks the entries of a schema, except for their expressions.
pub(crate) fn check_entries(schema: &Json, path: &str, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    for (index, entry) in entries(schema) {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        let at = |name: &str| format!("{path}.x-kubernetes-validations[{index}].{name}");
        let invalid =
            |name: &str, detail: &str| FieldError::invalid_str(at(name), text(name), detail);
        let (rule, message) = (text("rule").trim(), text("message").trim());
        if rule.is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !text("message").is_empty() && message.is_empty() {
            errors.push(invalid("message", "must be non-empty if specified"));
        } else if message.contains('\n') {
            errors.push(invalid("message", "must not contain line breaks"));
        } else if rule.contains('\n') && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), detail));
        }
        if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at("messageExpression"), detail));
        }
        if let Some(reason) = entry["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(at("reason"), &reason.into(), &REASONS));
        }
        let field = text("fieldPath");
        if field.is_empty() {
            continue;
        }
        if field.trim().is_empty() {
            errors.push(invalid("fieldPath", "must be non-empty if specified"));
        }
        if field.contains('\n') {
            errors.push(invalid("fieldPath", "must not contain line breaks"));
        }
        if field_path::normalise(field, schema).is_none() {
            errors.push(invalid("fieldPath", "must be a valid path"));
        }
    }
}
