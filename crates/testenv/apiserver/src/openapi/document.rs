//! One document: the paths of a group and version, and the schemas that they refer to.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::catalog::{CATALOG, KIND, META};
use super::custom;
use super::operation::resource_list;
use super::paths::Paths;
use crate::kind::{Kind, Origin, Version};
use crate::kinds::registry::Group;

/// Returns the document of a group and version; `definitions` are the specs of the group's custom
/// kinds.
pub(super) fn document(group: &Group, version: &str, definitions: &[Value]) -> Value {
    let kinds = group.kinds.iter().filter_map(|kind| Some((&kind.declared, kind.served(version)?)));
    let is_custom = group.kinds.iter().all(|kind| kind.origin == Origin::Custom);
    let name = friendly(&group.name);
    let mut parts = Parts::default();
    if !is_custom {
        let root = root(&group.name, version);
        parts.paths.insert(root, resource_list(&name, version));
    }
    for (kind, version) in kinds {
        parts.add(kind, version, &name, definitions);
    }
    let schemas = parts.schemas(&group.name, version, is_custom);
    let info = if is_custom {
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    } else {
        json!({"title": "Kubernetes", "version": "1.36"})
    };
    let mut components = json!({ "schemas": schemas });
    if !is_custom {
        components["securitySchemes"] = json!({"BearerToken": {
            "type": "apiKey",
            "description": "Bearer Token authentication",
            "name": "authorization",
            "in": "header",
        }});
    }
    json!({"openapi": "3.0.0", "info": info, "paths": parts.paths, "components": components})
}

/// The collected parts of a document.
#[derive(Default)]
struct Parts {
    paths: BTreeMap<String, Value>,
    /// Schemas of custom kinds.
    custom: BTreeMap<String, Value>,
}

impl Parts {
    fn add(&mut self, kind: &Kind, version: &Version, group: &str, definitions: &[Value]) {
        let (object, list);
        if kind.is_builtin() {
            let find = |name: &str| CATALOG.type_of(&kind.group, &version.name, name);
            let Some(found) = find(&kind.kind) else { return };
            object = found.to_owned();
            list = find(&kind.list_kind).unwrap_or_default().to_owned();
        } else {
            let prefix = reversed(&kind.group);
            object = format!("{prefix}.{}.{}", version.name, kind.kind);
            list = format!("{prefix}.{}.{}", version.name, kind.list_kind);
            let schema = schema_of(definitions, kind, version);
            self.custom.insert(object.clone(), custom::object(kind, version, schema));
            self.custom.insert(list.clone(), custom::list(kind, version, &object));
        }
        let paths = Paths { kind, version, group, object: &object, list: &list };
        self.paths.extend(paths.items());
    }

    /// Returns all schemas that the paths refer to, directly or through other schemas.
    fn schemas(&self, group: &str, version: &str, is_custom: bool) -> Map<String, Value> {
        let mut waiting = Vec::new();
        self.paths.values().for_each(|item| add_references(item, &mut waiting));
        let mut schemas = Map::new();
        while let Some(name) = waiting.pop() {
            if schemas.contains_key(&name) {
                continue;
            }
            let known = self.custom.get(&name).cloned().or_else(|| CATALOG.schema(&name));
            let Some(mut schema) = known else { continue };
            if name == format!("{META}.DeleteOptions") {
                schema[KIND] = options_of(group, version, is_custom);
            }
            add_references(&schema, &mut waiting);
            schemas.insert(name, schema);
        }
        schemas
    }
}

/// Returns the schema in the definition of a kind for one of its versions.
fn schema_of<'a>(definitions: &'a [Value], kind: &Kind, version: &Version) -> Option<&'a Value> {
    let definition =
        definitions.iter().find(|spec| spec["names"]["plural"] == kind.plural.as_str())?;
    let mut versions = definition["versions"].as_array()?.iter();
    versions.find(|one| one["name"] == version.name.as_str())?.get("schema")?.get("openAPIV3Schema")
}

/// Returns the kinds of `DeleteOptions`: in the core group, and in the group of the document.
fn options_of(group: &str, version: &str, is_custom: bool) -> Value {
    let of = |group: &str, version: &str| json!({"group": group, "kind": "DeleteOptions", "version": version});
    if group.is_empty() || is_custom {
        json!([of("", "v1")])
    } else {
        json!([of("", "v1"), of(group, version)])
    }
}

fn add_references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            let name = name.and_then(|name| name.strip_prefix("#/components/schemas/"));
            found.extend(name.map(str::to_owned));
            fields.values().for_each(|value| add_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| add_references(item, found)),
        _ => {}
    }
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}/") } else { format!("/apis/{group}/{version}/") }
}

/// Returns the form of a group in tags and operation ids: `rbacAuthorization` for
/// `rbac.authorization.k8s.io`.
fn friendly(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut name = String::new();
    let mut starts = false;
    for character in group.chars() {
        if !character.is_ascii_alphanumeric() {
            starts = true;
        } else if std::mem::take(&mut starts) {
            name.push(character.to_ascii_uppercase());
        } else {
            name.push(character);
        }
    }
    name
}

/// Returns `dev.windlass.example` for `example.windlass.dev`.
fn reversed(group: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_for_operations_and_for_types() {
        assert_eq!(friendly(""), "core");
        assert_eq!(friendly("rbac.authorization.k8s.io"), "rbacAuthorization");
        assert_eq!(friendly("my-group.example.dev"), "myGroupExampleDev");
        assert_eq!(reversed("example.windlass.dev"), "dev.windlass.example");
    }
}
