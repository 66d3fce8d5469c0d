//! From `OpenAPI` schemas to shapes, in the text that the API server reads.
//!
//! The head of `shapes.txt` describes the text. Types are called by the last parts of their names,
//! as in `core.v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`; only those that a kind reaches are
//! written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::golang::{Found, Omitted, Sources};

/// Types that decode themselves, and what they are called in a shape.
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

/// What a later merge needs to know of a field: the name in `OpenAPI`, and the one in a shape.
const MERGING: &[(&str, &str)] = &[
    ("x-kubernetes-list-type", "list"),
    ("x-kubernetes-list-map-keys", "keys"),
    ("x-kubernetes-map-type", "map"),
    ("x-kubernetes-patch-strategy", "patch"),
    ("x-kubernetes-patch-merge-key", "mergekey"),
];

/// Shapes in the making.
#[derive(Debug)]
pub(super) struct Shapes {
    sources: Sources,
    /// The schemas of all documents, by their full names.
    schemas: BTreeMap<String, Value>,
    /// The full names of the types to write, by their short ones.
    reached: BTreeMap<String, String>,
    /// Those of them that have not been looked at.
    waiting: BTreeSet<String>,
}

impl Shapes {
    /// No shapes yet.
    pub(super) fn new(sources: Sources) -> Self {
        let (schemas, reached, waiting) = Default::default();
        Self { sources, schemas, reached, waiting }
    }

    /// Adds the schemas of one document.
    ///
    /// # Errors
    /// If it has none.
    pub(super) fn add_document(&mut self, document: &Value) -> Result<()> {
        let schemas = document["components"]["schemas"].as_object();
        let schemas = schemas.context("an OpenAPI document has no schemas")?;
        let schemas = schemas.iter().map(|(name, schema)| (name.clone(), schema.clone()));
        self.schemas.extend(schemas);
        Ok(())
    }

    /// Adds a kind, and says what its type is called.
    ///
    /// # Errors
    /// If no schema is of that kind.
    pub(super) fn add_kind(&mut self, version: &str, kind: &str) -> Result<String> {
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let is_kind = |schema: &Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            // Options that are common to all groups say that they are of every group.
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

    /// The text of all types that were reached.
    ///
    /// # Errors
    /// If a schema is of a form that shapes do not have.
    pub(super) fn finish(mut self) -> Result<String> {
        let mut types = BTreeMap::new();
        while let Some(full) = self.waiting.pop_first() {
            let text = self.object(&full).with_context(|| format!("{full} has no shape"))?;
            types.insert(short(&full), text);
        }
        Ok(types.into_values().collect())
    }

    /// A type with its fields.
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

    /// The shape of a value.
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

    /// The name of a list or map, as it stands in a shape, and what it is.
    fn unnamed(&mut self, go_type: &str) -> Result<(String, String)> {
        Ok(match self.sources.definition(go_type)? {
            Some(definition) => (format!("{}=", shown(go_type)), definition),
            None => (String::new(), go_type.to_owned()),
        })
    }

    /// Notes that a type is to be written, and says what it is called.
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

/// Whether JSON has the field also where nobody gave it: Go leaves out what is empty, and takes no
/// struct for empty.
fn is_always_there(found: &Found, shape: &str) -> bool {
    let is_struct = found.go_type.contains('.') && !shape.contains(['=', '[', '{']);
    match found.omitted {
        Omitted::Never => true,
        Omitted::Empty => is_struct && !found.go_type.starts_with('*'),
        Omitted::Zero => false,
    }
}

/// The full name of the type that a schema refers to, be it directly or with a default beside it.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema["$ref"].as_str();
    direct.or_else(|| schema["allOf"][0]["$ref"].as_str())?.strip_prefix("#/components/schemas/")
}

/// The words about merging that stand behind a field or a type.
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

/// A scalar, with the name of its type where that is another.
fn named(scalar: &str, go_type: &str) -> String {
    if go_type == scalar { scalar.to_owned() } else { format!("{}={scalar}", shown(go_type)) }
}

/// A type as Go shows it: with the last part of its package's path.
fn shown(go_type: &str) -> &str {
    go_type.rsplit('/').next().unwrap_or(go_type)
}

/// `core.v1.PodSpec`, of `io.k8s.api.core.v1.PodSpec`.
fn short(full: &str) -> String {
    let parts: Vec<&str> = full.split('.').collect();
    parts[parts.len().saturating_sub(3)..].join(".")
}

/// `k8s.io/api/core/v1.PodSpec`, of `io.k8s.api.core.v1.PodSpec`.
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
