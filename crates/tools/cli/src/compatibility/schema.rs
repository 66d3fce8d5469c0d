//! Checks whether a new schema accepts what the old one accepted.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Findings, is_true, missing};

/// A place in the schema of a version.
pub(super) struct SchemaPath<'a> {
    /// The definition and the version.
    pub(super) definition: &'a str,
    /// The field, such as `spec.ports[].name`; empty for the whole object.
    pub(super) field: String,
}

impl SchemaPath<'_> {
    fn child(&self, name: &str) -> Self {
        let field = match self.field.as_str() {
            "" => name.to_owned(),
            field => format!("{field}.{name}"),
        };
        Self { definition: self.definition, field }
    }

    fn elements(&self, sign: &str) -> Self {
        Self { definition: self.definition, field: format!("{}{sign}", self.field) }
    }

    fn text(&self) -> String {
        format!("{} {}", self.definition, self.field).trim_end().to_owned()
    }
}

/// Bounds that accept less if they grow.
const LOWER: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];

/// Bounds that accept less if they shrink.
const UPPER: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];

/// Keywords that may reject more once they are added or changed.
const EXACT: [&str; 7] = ["pattern", "format", "multipleOf", "not", "allOf", "anyOf", "oneOf"];

/// How server-side apply merges lists and maps. Any difference breaks.
const MERGE: [&str; 3] =
    ["x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"];

/// Unknown fields are stored, whatever they contain.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Flags that let a schema accept more. It breaks if one becomes `false`.
const FREEDOMS: [&str; 2] = ["nullable", PRESERVE];

/// Whether it is an embedded Kubernetes object: then its metadata is validated, otherwise it may be
/// dropped. Any difference breaks.
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Flags that let a schema accept less. It breaks if one becomes `true`.
const LIMITS: [&str; 3] = ["exclusiveMinimum", "exclusiveMaximum", "uniqueItems"];

/// Compares two schemas and everything below them.
pub(super) fn compare(place: &SchemaPath<'_>, old: &Value, new: &Value, findings: &mut Findings) {
    // This also ends the recursion: the elements of `anything()` are `anything()` again.
    if old == new {
        return;
    }
    types(place, old, new, findings);
    values(place, old, new, findings);
    bounds(place, old, new, findings);
    flags(place, old, new, findings);
    rules(place, old, new, findings);
    fields(place, old, new, findings);
    for (part, sign) in [("items", "[]"), ("additionalProperties", "{}")] {
        let place = place.elements(sign);
        match (elements(old, part), elements(new, part)) {
            (Some(old), Some(new)) => compare(&place, &old, &new, findings),
            (Some(_), None) if !old[part].is_null() => {
                findings.breaking(&place.text(), "its schema is gone");
            }
            // If the old schema allows no elements, none were stored. If it only preserves unknown
            // ones, `flags` or `types` reports the difference.
            _ => {}
        }
    }
}

/// The schema of the elements of a list or of the values of a map; `None` if none are allowed.
fn elements(schema: &Value, part: &str) -> Option<Value> {
    let is_open_list = part == "items" && schema["type"] == "array";
    match &schema[part] {
        Value::Null if is_open_list || is_true(&schema[PRESERVE]) => Some(anything()),
        Value::Null | Value::Bool(false) => None,
        Value::Bool(true) => Some(anything()),
        elements => Some(elements.clone()),
    }
}

/// A schema that accepts everything.
fn anything() -> Value {
    json!({PRESERVE: true})
}

/// Compares the types. `integer` to `number` is wider. A schema with `x-kubernetes-int-or-string`
/// has no `type`.
fn types(place: &SchemaPath<'_>, old: &Value, new: &Value, findings: &mut Findings) {
    let int_or_string = "x-kubernetes-int-or-string";
    let shown = |of: &Value| match &of["type"] {
        Value::String(name) => name.clone(),
        _ if is_true(&of[int_or_string]) => "integer or string".to_owned(),
        _ => "anything".to_owned(),
    };
    let (old, new) = (shown(old), shown(new));
    if old == new {
        return;
    }
    let is_wider = matches!(
        (old.as_str(), new.as_str()),
        (_, "anything") | ("integer", "number") | ("integer" | "string", "integer or string")
    );
    let what = format!("the type was {old}, and is {new}");
    if is_wider {
        findings.fine(&place.text(), what);
    } else {
        findings.breaking(&place.text(), what);
    }
}

/// Compares the allowed values and the defaults.
fn values(place: &SchemaPath<'_>, old: &Value, new: &Value, findings: &mut Findings) {
    let path = place.text();
    match (old["enum"].is_null(), new["enum"].is_null()) {
        (true, true) => {}
        (true, false) => findings.breaking(&path, format!("only {} is allowed now", new["enum"])),
        (false, true) => findings.fine(&path, "more than a few values are allowed now"),
        (false, false) => {
            for gone in missing(&old["enum"], &new["enum"]) {
                findings.breaking(&path, format!("the value {gone} is not allowed any more"));
            }
            for added in missing(&new["enum"], &old["enum"]) {
                findings.fine(&path, format!("the value {added} is allowed, too"));
            }
        }
    }
    if old["default"] != new["default"] {
        let shown = |of: &Value| if of.is_null() { "none".to_owned() } else { of.to_string() };
        let (old, new) = (shown(&old["default"]), shown(&new["default"]));
        findings.fine(&path, format!("the default was {old}, and is {new}"));
    }
}

fn bounds(place: &SchemaPath<'_>, old: &Value, new: &Value, findings: &mut Findings) {
    let lower = LOWER.iter().map(|name| (name, true));
    for (name, is_lower) in lower.chain(UPPER.iter().map(|name| (name, false))) {
        let (before, after) = (old[name].as_f64(), new[name].as_f64());
        let is_narrower = match (before, after) {
            (Some(before), Some(after)) if is_lower => after > before,
            (Some(before), Some(after)) => after < before,
            (None, Some(_)) => true,
            _ => false,
        };
        report(place, name, before != after, is_narrower, &old[name], &new[name], findings);
    }
    for name in EXACT {
        let (before, after) = (&old[name], &new[name]);
        report(place, name, before != after, !after.is_null(), before, after, findings);
    }
    for name in MERGE {
        let (before, after) = (&old[name], &new[name]);
        report(place, name, before != after, true, before, after, findings);
    }
}

fn flags(place: &SchemaPath<'_>, old: &Value, new: &Value, findings: &mut Findings) {
    let freedoms = FREEDOMS.iter().map(|name| (name, true));
    for (name, is_freedom) in freedoms.chain(LIMITS.iter().map(|name| (name, false))) {
        let (before, after) = (is_true(&old[name]), is_true(&new[name]));
        let (was, is) = (before.into(), after.into());
        report(place, name, before != after, before == is_freedom, &was, &is, findings);
    }
    let (before, after) = (is_true(&old[EMBEDDED]), is_true(&new[EMBEDDED]));
    report(place, EMBEDDED, before != after, true, &before.into(), &after.into(), findings);
}

fn report(
    place: &SchemaPath<'_>,
    name: &str,
    is_different: bool,
    is_breaking: bool,
    old: &Value,
    new: &Value,
    findings: &mut Findings,
) {
    if !is_different {
        return;
    }
    let shown = |of: &Value| if of.is_null() { "nothing".to_owned() } else { of.to_string() };
    let what = format!("{name} was {}, and is {}", shown(old), shown(new));
    findings.add(&place.text(), what, is_breaking);
}

/// Compares the CEL rules. Their messages may change.
fn rules(place: &SchemaPath<'_>, old: &Value, new: &Value, findings: &mut Findings) {
    let of = |schema: &Value| -> Vec<String> {
        let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
        rules.map(|rule| rule["rule"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let (old, new) = (of(old), of(new));
    for rule in new.iter().filter(|rule| !old.contains(rule)) {
        findings.breaking(&place.text(), format!("the rule `{rule}` is new"));
    }
    for rule in old.iter().filter(|rule| !new.contains(rule)) {
        findings.fine(&place.text(), format!("the rule `{rule}` is gone"));
    }
}

fn fields(place: &SchemaPath<'_>, old: &Value, new: &Value, findings: &mut Findings) {
    let none = Map::new();
    let of = |schema: &'_ Value| schema["properties"].as_object().cloned().unwrap_or(none.clone());
    let (old_fields, new_fields) = (of(old), of(new));
    for (name, old_field) in &old_fields {
        let place = place.child(name);
        match new_fields.get(name) {
            Some(new_field) => compare(&place, old_field, new_field, findings),
            None => findings.breaking(&place.text(), "the field is gone"),
        }
    }
    // The schema of fields that the old schema allowed without naming them.
    let old_others = elements(old, "additionalProperties");
    for (name, new_field) in &new_fields {
        if let (None, Some(old_field)) = (old_fields.get(name), &old_others) {
            compare(&place.child(name), old_field, new_field, findings);
        }
    }
    // Keys of a map may be required without being named in `properties`.
    let required = |schema: &Value| -> BTreeSet<String> {
        let names = schema["required"].as_array().into_iter().flatten();
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let (old_required, new_required) = (required(old), required(new));
    let names: BTreeSet<&String> =
        new_fields.keys().chain(&old_required).chain(&new_required).collect();
    for name in names {
        let (was, is) = (old_required.contains(name), new_required.contains(name));
        // The server sets defaults before it validates.
        let has_default = |fields: &Map<String, Value>| {
            fields.get(name).is_some_and(|field| !field["default"].is_null())
        };
        let had_to_be_given = was && !has_default(&old_fields);
        let must_be_given = is && !has_default(&new_fields) && !had_to_be_given;
        let is_new = new_fields.contains_key(name) && !old_fields.contains_key(name);
        let place = place.child(name).text();
        match (is_new, must_be_given) {
            (true, true) => findings.breaking(&place, "the field is new, and required"),
            (true, false) => findings.fine(&place, "the field is new"),
            (false, true) if was => {
                findings.breaking(&place, "the field is required, and has no default any more");
            }
            (false, true) => findings.breaking(&place, "the field is required now"),
            (false, false) if was && !is => {
                findings.fine(&place, "the field is not required any more");
            }
            (false, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compatibility::Finding;

    fn found(old: Value, new: Value) -> Vec<String> {
        let mut findings = Findings::default();
        let place = SchemaPath { definition: "shops.example.com v1", field: String::new() };
        let whole = |spec: Value| json!({"type": "object", "properties": {"spec": spec}});
        compare(&place, &whole(old), &whole(new), &mut findings);
        let texts = findings.0.iter().map(Finding::to_string);
        texts.map(|text| text.replace(": shops.example.com v1 ", " ")).collect()
    }

    fn with_field(field: &Value) -> Value {
        json!({"type": "object", "properties": {"a": field}})
    }

    #[test]
    fn removed_and_required_fields_break() {
        let one = with_field(&json!({"type": "string"}));
        let none = json!({"type": "object"});
        assert_eq!(found(one.clone(), none.clone()), ["incompatible spec.a: the field is gone"]);
        assert_eq!(found(none.clone(), one.clone()), ["compatible spec.a: the field is new"]);
        let mut required = one.clone();
        required["required"] = json!(["a"]);
        assert_eq!(
            found(none.clone(), required.clone()),
            ["incompatible spec.a: the field is new, and required"]
        );
        assert_eq!(
            found(one.clone(), required.clone()),
            ["incompatible spec.a: the field is required now"]
        );
        assert_eq!(
            found(required.clone(), one.clone()),
            ["compatible spec.a: the field is not required any more"]
        );
        required["properties"]["a"]["default"] = json!("x");
        assert_eq!(found(none, required), ["compatible spec.a: the field is new"]);
    }

    #[test]
    fn narrowed_types_and_values_break() {
        for (old, new, expected) in [
            (
                json!({"type": "string"}),
                json!({"type": "integer"}),
                &["incompatible spec.a: the type was string, and is integer"][..],
            ),
            (
                json!({"type": "integer"}),
                json!({"x-kubernetes-int-or-string": true}),
                &["compatible spec.a: the type was integer, and is integer or string"],
            ),
            (
                json!({"type": "string", "enum": ["x", "y"]}),
                json!({"type": "string", "enum": ["y", "z"]}),
                &[
                    "incompatible spec.a: the value \"x\" is not allowed any more",
                    "compatible spec.a: the value \"z\" is allowed, too",
                ],
            ),
            (
                json!({"type": "string"}),
                json!({"type": "string", "enum": ["x"]}),
                &["incompatible spec.a: only [\"x\"] is allowed now"],
            ),
            (
                json!({"type": "integer", "minimum": 1, "maximum": 10}),
                json!({"type": "integer", "minimum": 0, "maximum": 5}),
                &[
                    "compatible spec.a: minimum was 1, and is 0",
                    "incompatible spec.a: maximum was 10, and is 5",
                ],
            ),
            (
                json!({"type": "string"}),
                json!({"type": "string", "maxLength": 5}),
                &["incompatible spec.a: maxLength was nothing, and is 5"],
            ),
            (
                json!({"type": "string", "pattern": "^a$", "nullable": true}),
                json!({"type": "string"}),
                &[
                    "compatible spec.a: pattern was \"^a$\", and is nothing",
                    "incompatible spec.a: nullable was true, and is false",
                ],
            ),
        ] {
            assert_eq!(found(with_field(&old), with_field(&new)), expected);
        }
    }

    #[test]
    fn elements_of_lists_and_maps_are_compared() {
        let list = |of: Value| with_field(&json!({"type": "array", "items": of}));
        let one = json!({"type": "object", "properties": {"b": {"type": "string"}}});
        assert_eq!(
            found(list(one.clone()), list(json!({"type": "object"}))),
            ["incompatible spec.a[].b: the field is gone"]
        );
        let map = |of: &str| with_field(&json!({"additionalProperties": {"type": of}}));
        assert_eq!(
            found(map("number"), map("integer")),
            ["incompatible spec.a{}: the type was number, and is integer"]
        );
    }

    #[test]
    fn schema_for_values_that_could_be_anything_breaks() {
        let map = |of: Value| with_field(&json!({"type": "object", "additionalProperties": of}));
        let string = json!({"type": "string"});
        let narrower = "incompatible spec.a{}: the type was anything, and is string";
        assert_eq!(found(map(json!(true)), map(string.clone()))[0], narrower);
        assert_eq!(found(map(json!(true)), map(json!(true))), [""; 0]);
        assert_eq!(
            found(map(json!(true)), with_field(&json!({"type": "object"}))),
            ["incompatible spec.a{}: its schema is gone"]
        );
        let wider = found(map(string.clone()), map(json!(true)));
        assert_eq!(wider[0], "compatible spec.a{}: the type was string, and is anything");
        assert!(wider.iter().all(|it| it.starts_with("compatible")), "{wider:?}");
        // Values of unknown keys were not stored.
        assert_eq!(found(with_field(&json!({"type": "object"})), map(string.clone())), [""; 0]);

        let free = |more: Value| {
            let mut schema = json!({"type": "object", PRESERVE: true});
            schema
                .as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("one").clone());
            with_field(&schema)
        };
        assert_eq!(
            found(free(json!({})), free(json!({"additionalProperties": string})))[0],
            narrower
        );
        let small = json!({"properties": {"b": {"type": "integer", "maximum": 3}}});
        assert_eq!(
            found(free(json!({})), free(small)),
            [
                "incompatible spec.a.b: the type was anything, and is integer",
                "incompatible spec.a.b: maximum was nothing, and is 3",
                &format!("incompatible spec.a.b: {PRESERVE} was true, and is false"),
                "compatible spec.a.b: the field is new",
            ]
        );
        let list = |of: Value| {
            let mut schema = json!({"type": "array"});
            schema["items"] = of;
            with_field(&schema)
        };
        assert_eq!(
            found(list(Value::Null), list(json!({"type": "string"})))[0],
            "incompatible spec.a[]: the type was anything, and is string"
        );
    }

    #[test]
    fn key_that_a_map_must_have_breaks() {
        let map = |required: Value| {
            let values = json!({"type": "string"});
            let map =
                json!({"type": "object", "additionalProperties": values, "required": required});
            with_field(&map)
        };
        let none = map(json!([]));
        let one = map(json!(["k"]));
        assert_eq!(
            found(none.clone(), one.clone()),
            ["incompatible spec.a.k: the field is required now"]
        );
        assert_eq!(found(one, none), ["compatible spec.a.k: the field is not required any more"]);
    }

    #[test]
    fn required_field_that_loses_its_default_breaks() {
        let required =
            |field: Value| json!({"type": "object", "properties": {"a": field}, "required": ["a"]});
        let with = required(json!({"type": "string", "default": "x"}));
        let without = required(json!({"type": "string"}));
        assert_eq!(
            found(with.clone(), without.clone()),
            [
                "compatible spec.a: the default was \"x\", and is none",
                "incompatible spec.a: the field is required, and has no default any more",
            ]
        );
        assert_eq!(found(without, with), ["compatible spec.a: the default was none, and is \"x\""]);
    }

    #[test]
    fn becoming_an_embedded_resource_or_ceasing_to_be_one_breaks() {
        let plain = with_field(&json!({"type": "object"}));
        let embedded = with_field(&json!({"type": "object", EMBEDDED: true}));
        for (old, new) in [(&plain, &embedded), (&embedded, &plain)] {
            let found = found(old.clone(), new.clone());
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with("incompatible spec.a: x-kubernetes-embedded"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn new_rules_break_and_descriptions_do_not_matter() {
        let rule = |rule: &str, message: &str| {
            let rules = json!([{"rule": rule, "message": message}]);
            with_field(&json!({"type": "string", "x-kubernetes-validations": rules}))
        };
        assert_eq!(found(rule("a", "x"), rule("a", "y")), [""; 0]);
        assert_eq!(
            found(rule("a", "x"), rule("b", "x")),
            ["incompatible spec.a: the rule `b` is new", "compatible spec.a: the rule `a` is gone"]
        );
        let described = with_field(&json!({"type": "string", "description": "A field."}));
        assert_eq!(found(with_field(&json!({"type": "string"})), described), [""; 0]);
    }
}
