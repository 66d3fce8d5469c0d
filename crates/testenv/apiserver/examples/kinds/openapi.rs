//! Converts `OpenAPI` schemas to shapes, in the text format that the API server reads.
//!
//! The head of `shapes.txt` describes the format. Types are named by the last parts of their full
//! names, as in `core.v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`. Only types that a kind refers
//! to, directly or indirectly, are written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::golang::{Found, Omitted, Sources};

/// Types that decode themselves, and their names in a shape.
const OPAQUE: &[(&str, &str)] = &[
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "any"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "schemas"),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
        "schemaOrBool",
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        "schemaOrTexts",
    ),
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "any"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "microtime"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "time"),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", "any"),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "intstr"),
];

/// The extensions of a schema about merging: the name in `OpenAPI`, and the name in a shape.
const MERGING: &[(&str, &str)] = &[
    ("x-kubernetes-list-type", "list"),
    ("x-kubernetes-list-map-keys", "keys"),
    ("x-kubernetes-map-type", "map"),
    ("x-kubernetes-patch-strategy", "patch"),
    ("x-kubernetes-patch-merge-key", "mergekey"),
];

/// A collector of shapes.
#[derive(Debug)]
pub(super) struct Shapes {
    sources: Sources,
    /// The schemas of all documents, by their full names.
    schemas: BTreeMap<String, Value>,
    /// The full names of the types to write, by their short names.
    reached: BTreeMap<String, String>,
    /// The types among these whose fields have not been read yet.
    waiting: BTreeSet<String>,
}

impl Shapes {
    /// Creates a collector without shapes.
    pub(super) fn new(sources: Sources) -> Self {
        let (schemas, reached, waiting) = Default::default();
        Self { sources, schemas, reached, waiting }
    }

    /// Adds the schemas of one document.
    ///
    /// # Errors
    /// If the document has no schemas.
    pub(super) fn add_document(&mut self, document: &Value) -> Result<()> {
        let schemas = document["components"]["schemas"].as_object();
        let schemas = schemas.context("an OpenAPI document has no schemas")?;
        let schemas = schemas.iter().map(|(name, schema)| (name.clone(), schema.clone()));
        self.schemas.extend(schemas);
        Ok(())
    }

    /// Adds a kind, and returns the name of its type.
    ///
    /// # Errors
    /// If no schema belongs to that kind.
    pub(super) fn add_kind(&mut self, version: &str, kind: &str) -> Result<String> {
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let is_kind = |schema: &Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            // Options that all groups share list the kinds of all groups.
            kinds.is_some_and(|kinds| {
                matches!(kinds.as_slice(), [one] if one["group"] == group
                    && one["version"] == version && one["kind"] == kind)
            })
        };
        let found = self.schemas.iter().find(|(_, schema)| is_kind(schema));
        let (full, _) =
            found.with_context(|| format!("no schema is of {group}/{version} {kind}"))?;
        self.reach(&full.clone())
    }

    /// Returns the text of all types that are referred to.
    ///
    /// # Errors
    /// If shapes cannot express a schema.
    pub(super) fn finish(mut self) -> Result<String> {
        let mut types = BTreeMap::new();
        while let Some(full) = self.waiting.pop_first() {
            let text = self.object(&full).with_context(|| format!("{full} has no shape"))?;
            types.insert(short(&full), text);
        }
        Ok(types.into_values().collect())
    }

    /// Returns the text of a type with its fields.
    fn object(&mut self, full: &str) -> Result<String> {
        let schema = self.schemas.get(full).cloned().context("it is in no document")?;
        let go_type = go_type(full)?;
        let mut text = short(full);
        text.push_str(&merging(&schema));
        text.push('\n');
        let fields: BTreeMap<&String, &Value> =
            schema["properties"].as_object().into_iter().flatten().collect();
        for (name, schema) in fields {
            let found = self.sources.field(&go_type, name)?;
            let shape = self.shape(schema, &found.go_type).with_context(|| name.clone())?;
            write!(text, " {name} {shape}{}", merging(schema))?;
            if is_always_there(&found, &shape) {
                text.push_str(" always");
            }
            if let Some(default) = schema["default"].as_str().filter(|text| !text.is_empty()) {
                write!(text, " default:{default}")?;
            }
            if !found.inline.is_empty() {
                write!(text, " in:{}", found.inline)?;
            }
            text.push('\n');
        }
        Ok(text)
    }

    /// Returns the shape of a value.
    fn shape(&mut self, schema: &Value, go_type: &str) -> Result<String> {
        let go_type = go_type.trim_start_matches('*');
        if let Some(full) = reference(schema) {
            let opaque = OPAQUE.iter().find(|(name, _)| *name == full);
            return opaque.map_or_else(|| self.reach(full), |(_, shape)| Ok((*shape).to_owned()));
        }
        let format = schema["format"].as_str().unwrap_or_default();
        match (schema["type"].as_str().unwrap_or_default(), format) {
            ("string", "byte") => Ok("bytes".to_owned()),
            ("string", "") => Ok(named("string", go_type)),
            ("boolean", _) => Ok(named("bool", go_type)),
            ("integer", "int32" | "int64") => Ok(named(format, go_type)),
            ("number", _) => Ok(named("float64", go_type)),
            ("array", _) => {
                let (name, list) = self.unnamed(go_type)?;
                let item = list.strip_prefix("[]").context("Go says that it is not a list")?;
                Ok(format!("{name}[]{}", self.shape(&schema["items"], item)?))
            }
            ("object", _) => {
                let (name, map) = self.unnamed(go_type)?;
                let map = map.strip_prefix("map[").and_then(|rest| rest.split_once(']'));
                let (key, value) = map.context("Go says that it is not a map")?;
                let key = if key == "string" { "" } else { shown(key) };
                let value = self.shape(&schema["additionalProperties"], value)?;
                Ok(format!("{name}{{{key}}}{value}"))
            }
            (other, format) => bail!("type {other:?}, format {format:?}"),
        }
    }

    /// Returns the prefix of a list or map for its shape, and the definition of its type.
    fn unnamed(&mut self, go_type: &str) -> Result<(String, String)> {
        Ok(match self.sources.definition(go_type)? {
            Some(definition) => (format!("{}=", shown(go_type)), definition),
            None => (String::new(), go_type.to_owned()),
        })
    }

    /// Queues a type, and returns its short name.
    fn reach(&mut self, full: &str) -> Result<String> {
        let name = short(full);
        match self.reached.insert(name.clone(), full.to_owned()) {
            None => {
                self.waiting.insert(full.to_owned());
            }
            Some(other) => ensure!(other == full, "{other} and {full} are both called {name}"),
        }
        Ok(name)
    }
}

/// Returns whether JSON always has the field, even if it was never set: `omitempty` leaves out
/// empty values, and a struct never counts as empty.
fn is_always_there(found: &Found, shape: &str) -> bool {
    let is_struct = found.go_type.contains('.') && !shape.contains(['=', '[', '{']);
    match found.omitted {
        Omitted::Never => true,
        Omitted::Empty => is_struct && !found.go_type.starts_with('*'),
        Omitted::Zero => false,
    }
}

/// Returns the full name of the type that a schema refers to, directly or with a default beside it.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema["$ref"].as_str();
    direct.or_else(|| schema["allOf"][0]["$ref"].as_str())?.strip_prefix("#/components/schemas/")
}

/// Returns the merge rules of a field or a type, as they are appended to its line.
fn merging(schema: &Value) -> String {
    let mut words = String::new();
    for (long, short) in MERGING {
        let value = match &schema[*long] {
            Value::String(text) => text.clone(),
            Value::Array(items) => {
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            _ => continue,
        };
        let _ = write!(words, " {short}:{value}");
    }
    words
}

/// Returns a scalar, with the name of its Go type if that differs.
fn named(scalar: &str, go_type: &str) -> String {
    if go_type == scalar { scalar.to_owned() } else { format!("{}={scalar}", shown(go_type)) }
}

/// Returns a type as Go prints it: with the last part of its package's path.
fn shown(go_type: &str) -> &str {
    go_type.rsplit('/').next().unwrap_or(go_type)
}

/// Returns `core.v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`.
fn short(full: &str) -> String {
    let parts: Vec<&str> = full.split('.').collect();
    parts[parts.len().saturating_sub(3)..].join(".")
}

/// Returns `k8s.io/api/core/v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`.
fn go_type(full: &str) -> Result<String> {
    let rest = full.strip_prefix("io.k8s.").context("it is not a type of Kubernetes")?;
    let (package, name) = rest.rsplit_once('.').context("it has no package")?;
    Ok(format!("k8s.io/{}.{name}", package.replace('.', "/")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_short_in_shapes_and_paths_in_go() {
        let full = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        assert_eq!(short(full), "meta.v1.ObjectMeta");
        let path = go_type(full).expect("it is a type of Kubernetes");
        assert_eq!(path, "k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta");
        assert_eq!(shown(&path), "v1.ObjectMeta");
    }

    #[test]
    fn only_types_that_are_named_carry_a_name() {
        assert_eq!(named("string", "string"), "string");
        assert_eq!(named("string", "k8s.io/api/core/v1.PullPolicy"), "v1.PullPolicy=string");
    }

    #[test]
    fn what_a_merge_needs_stands_behind_the_field() {
        let schema = json!({
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
            "x-kubernetes-patch-strategy": "merge,retainKeys",
        });
        assert_eq!(
            merging(&schema),
            " list:map keys:containerPort,protocol patch:merge,retainKeys"
        );
    }

    #[test]
    fn fields_that_go_always_writes_are_told() {
        let is_always_there = |go_type: &str, omitted, shape: &str| {
            let found = Found { go_type: go_type.to_owned(), inline: String::new(), omitted };
            is_always_there(&found, shape)
        };
        assert!(is_always_there("string", Omitted::Never, "string"));
        assert!(is_always_there("x/v1.PodSpec", Omitted::Empty, "core.v1.PodSpec"));
        assert!(!is_always_there("*x/v1.PodSpec", Omitted::Empty, "core.v1.PodSpec"));
        assert!(!is_always_there("x/v1.Time", Omitted::Zero, "time"));
        assert!(!is_always_there("x/v1.PullPolicy", Omitted::Empty, "v1.PullPolicy=string"));
        assert!(!is_always_there("[]x/v1.Container", Omitted::Empty, "[]core.v1.Container"));
    }

    #[test]
    fn references_are_found_beside_a_default() {
        let schema = json!({"default": {}, "allOf": [{"$ref": "#/components/schemas/a.b"}]});
        assert_eq!(reference(&schema), Some("a.b"));
        assert_eq!(reference(&json!({"type": "string"})), None);
    }
}
