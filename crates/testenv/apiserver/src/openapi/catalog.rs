//! The schemas of built-in kinds, and the parameters of operations, read from `schemas.txt`.
//!
//! The head of the file describes its format. The file is split into lines once; a line is parsed
//! when a document needs it.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// The content of the file, parsed for the first document and not when the server starts.
pub(super) static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| Catalog::parse(include_str!("schemas.txt")));

/// The package of the types that all groups share.
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The extension of a schema that names its kind.
pub(super) const KIND: &str = "x-kubernetes-group-version-kind";

/// The lines of the file, by name.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    shared: HashMap<&'static str, &'static str>,
    parameters: HashMap<&'static str, &'static str>,
    schemas: HashMap<&'static str, Lines>,
    /// Full names by group, version and kind.
    kinds: HashMap<(String, String, String), &'static str>,
}

/// A schema in the text of the file.
#[derive(Debug)]
struct Lines {
    head: &'static str,
    properties: Vec<(&'static str, &'static str)>,
}

impl Catalog {
    /// Returns the full name of the type of a kind.
    pub(super) fn type_of(&self, group: &str, version: &str, kind: &str) -> Option<&'static str> {
        let key = (group.to_owned(), version.to_owned(), kind.to_owned());
        self.kinds.get(&key).copied()
    }

    /// Returns a schema by its full name.
    pub(super) fn schema(&self, name: &str) -> Option<Value> {
        let lines = self.schemas.get(name)?;
        let mut schema = value(lines.head);
        if !lines.properties.is_empty() {
            let property = |&(name, text): &(&str, &'static str)| {
                let text = if text.starts_with('@') { self.shared[text] } else { text };
                (name.to_owned(), value(text))
            };
            let properties: Map<String, Value> = lines.properties.iter().map(property).collect();
            schema["properties"] = Value::Object(properties);
        }
        Some(schema)
    }

    /// Returns a query or path parameter by its name in the file.
    pub(super) fn parameter(&self, name: &str) -> Value {
        value(self.parameters.get(name).expect("a parameter of an operation must be in the file"))
    }

    fn parse(text: &'static str) -> Self {
        let mut catalog = Self::default();
        let mut open: Option<(&'static str, Lines)> = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let is_property = line.starts_with(' ');
            let (name, rest) =
                line.trim_start().split_once(' ').expect("a line must have two words");
            if is_property {
                let (_, lines) = open.as_mut().expect("properties must follow their schema");
                lines.properties.push((name, rest));
            } else if name.starts_with('@') {
                catalog.shared.insert(name, rest);
            } else if name == "parameter" {
                let (name, rest) = rest.split_once(' ').expect("a parameter must have a schema");
                catalog.parameters.insert(name, rest);
            } else {
                catalog.file(open.replace((name, Lines { head: rest, properties: Vec::new() })));
            }
        }
        catalog.file(open);
        catalog
    }

    fn file(&mut self, schema: Option<(&'static str, Lines)>) {
        let Some((name, lines)) = schema else { return };
        if lines.head.contains(KIND) {
            let head = value(lines.head);
            for kind in head[KIND].as_array().into_iter().flatten() {
                let text = |field: &str| kind[field].as_str().unwrap_or_default().to_owned();
                self.kinds.insert((text("group"), text("version"), text("kind")), name);
            }
        }
        self.schemas.insert(name, lines);
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("the file must hold JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Verbs;
    use crate::kinds::builtin;

    #[test]
    fn every_line_can_be_read_and_every_kind_is_there() {
        for name in CATALOG.schemas.keys() {
            assert!(CATALOG.schema(name).is_some_and(|schema| schema.is_object()), "{name}");
        }
        for name in CATALOG.parameters.keys() {
            assert!(CATALOG.parameter(name)["in"].is_string(), "{name}");
        }
        for kind in builtin() {
            let find = |name: &str| CATALOG.type_of(&kind.group, &kind.storage().name, name);
            assert!(find(&kind.kind).is_some(), "{}", kind.kind);
            let has_list = kind.rules.verbs != Verbs::CreateOnly;
            assert_eq!(find(&kind.list_kind).is_some(), has_list, "{}", kind.list_kind);
        }
    }
}
