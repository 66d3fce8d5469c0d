//! The schemas of the built-in kinds as the real server publishes them, in the text format that the
//! API server reads.
//!
//! The head of `schemas.txt` describes the format. The file contains the schemas of the kinds of
//! `shapes.txt`, of their lists, and of [`MORE`], with all schemas that these refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

/// Types that no kind refers to, but operations do.
const MORE: &[&str] = &[
    "io.k8s.api.authentication.v1.TokenRequest",
    "io.k8s.api.core.v1.Binding",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
];

/// The actions that are recorded with their parameters.
const ACTIONS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "post", "put"];

/// Parameters are left out if their path contains one of these: subresources that this server does
/// not have.
const LEFT_OUT: &[&str] = &["/log", "/proxy"];

/// The extension of a schema that names its kind.
const KIND: &str = "x-kubernetes-group-version-kind";

/// A collector of schemas.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    /// The schemas of all documents, by their full names.
    all: BTreeMap<String, Value>,
    /// The parameters of operations, by their names; `fieldManager/patch` is the one of patches.
    parameters: BTreeMap<String, Value>,
}

impl Schemas {
    /// Adds the schemas and parameters of one document.
    ///
    /// # Errors
    /// If it is not an `OpenAPI` document.
    pub(super) fn add_document(&mut self, document: &Value) -> Result<()> {
        let schemas = document["components"]["schemas"].as_object();
        for (name, schema) in schemas.context("an OpenAPI document has no schemas")? {
            self.all.insert(name.clone(), schema.clone());
        }
        let paths = document["paths"].as_object().context("an OpenAPI document has no paths")?;
        for (path, item) in paths {
            if !LEFT_OUT.iter().any(|part| path.contains(part)) {
                self.add_parameters(item);
            }
        }
        Ok(())
    }

    /// Returns the whole text after the head. `kinds` are versions and kinds.
    ///
    /// # Errors
    /// If a schema is missing.
    pub(super) fn finish(self, kinds: &BTreeSet<(&str, &str)>) -> Result<String> {
        let wanted = |schema: &Value| {
            let known = schema[KIND].as_array().into_iter().flatten();
            known.into_iter().any(|one| {
                let text = |field: &str| one[field].as_str().unwrap_or_default();
                let version = match text("group") {
                    "" => text("version").to_owned(),
                    group => format!("{group}/{}", text("version")),
                };
                let kind = text("kind");
                let item = kind.strip_suffix("List").unwrap_or(kind);
                kinds.contains(&(version.as_str(), kind)) || kinds.contains(&(&version, item))
            })
        };
        let roots = self.all.iter().filter(|(_, schema)| wanted(schema)).map(|(name, _)| &**name);
        let reached = self.reach(roots.chain(MORE.iter().copied()))?;
        let shared = shared(reached.values());
        let mut text = String::new();
        for (value, number) in &shared {
            writeln!(text, "@{number} {value}")?;
        }
        for (name, parameter) in &self.parameters {
            writeln!(text, "parameter {name} {parameter}")?;
        }
        for (name, schema) in reached {
            let mut head = schema.as_object().cloned().context("a schema is no object")?;
            let properties = head.remove("properties");
            // Options list all groups that use them, which depends on the document.
            if name.ends_with(".DeleteOptions") {
                head.remove(KIND);
            }
            writeln!(text, "{name} {}", Value::Object(head))?;
            for (property, schema) in
                properties.as_ref().and_then(Value::as_object).into_iter().flatten()
            {
                let schema = schema.to_string();
                match shared.get(&schema) {
                    Some(number) => writeln!(text, " {property} @{number}")?,
                    None => writeln!(text, " {property} {schema}")?,
                }
            }
        }
        Ok(text)
    }

    /// Returns the root schemas and all schemas that they refer to, directly or indirectly.
    fn reach<'a>(
        &'a self,
        roots: impl Iterator<Item = &'a str>,
    ) -> Result<BTreeMap<&'a str, &'a Value>> {
        let mut waiting: Vec<&str> = roots.collect();
        let mut reached = BTreeMap::new();
        while let Some(name) = waiting.pop() {
            let (name, schema) =
                self.all.get_key_value(name).with_context(|| format!("{name} has no schema"))?;
            if reached.insert(name.as_str(), schema).is_none() {
                add_references(schema, &mut waiting);
            }
        }
        Ok(reached)
    }

    fn add_parameters(&mut self, item: &Value) {
        let common = item["parameters"].as_array().into_iter().flatten();
        let operations = item.as_object().into_iter().flatten();
        let known = |operation: &Value| {
            ACTIONS.iter().any(|action| operation["x-kubernetes-action"] == *action)
        };
        let mut found: Vec<(bool, &Value)> = Vec::new();
        let mut is_known = false;
        for (method, operation) in operations.filter(|(_, operation)| known(operation)) {
            is_known = true;
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            found.extend(parameters.map(|parameter| (method == "patch", parameter)));
        }
        if is_known {
            found.extend(common.map(|parameter| (false, parameter)));
        }
        for (is_patch, parameter) in found {
            let name = parameter["name"].as_str().unwrap_or_default();
            // The description of this parameter names the kind, so it is not shared.
            if name == "name" {
                continue;
            }
            let suffix = if is_patch && name == "fieldManager" { "/patch" } else { "" };
            self.parameters.insert(format!("{name}{suffix}"), parameter.clone());
        }
    }
}

/// Returns the properties that several schemas have in common, with their numbers.
fn shared<'a>(schemas: impl Iterator<Item = &'a &'a Value>) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for schema in schemas {
        for property in schema["properties"].as_object().map(Map::values).into_iter().flatten() {
            *counts.entry(property.to_string()).or_default() += 1;
        }
    }
    let several = counts.into_iter().filter(|(text, count)| *count > 1 && text.len() > 40);
    several.zip(1..).map(|((text, _), number)| (text, number)).collect()
}

fn add_references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            found.extend(name.and_then(|name| name.strip_prefix("#/components/schemas/")));
            fields.values().for_each(|value| add_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| add_references(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_are_written_with_their_properties_and_what_they_reach() {
        let long = json!({"description": "The same words in two places.", "type": "string"});
        let kind = json!([{"group": "g", "version": "v1", "kind": "A"}]);
        let mut all = json!({
            "a": {"type": "object", "properties": {"x": long, "y": {"$ref": "#/components/schemas/b"}}},
            "b": {"type": "object", "properties": {"z": long}},
            "c": {"type": "object"},
        });
        all["a"][KIND] = kind;
        for name in MORE {
            all[*name] = json!({"type": "object"});
        }
        let mut schemas = Schemas::default();
        let patch =
            json!({"x-kubernetes-action": "patch", "parameters": [{"name": "fieldManager"}]});
        let paths = json!({"/a": {"patch": patch}});
        schemas
            .add_document(&json!({"components": {"schemas": all}, "paths": paths}))
            .expect("it is a document");
        let text = schemas.finish(&BTreeSet::from([("g/v1", "A")])).expect("all are there");
        assert!(text.starts_with("@1 {\"description\""), "{text}");
        assert!(text.contains("\nparameter fieldManager/patch {"), "{text}");
        assert!(text.contains("\n x @1\n y {\"$ref\""), "{text}");
        assert!(text.contains("\nb {\"type\":\"object\"}\n z @1\n"), "{text}");
        assert!(!text.contains("\nc "), "{text}");
    }
}
