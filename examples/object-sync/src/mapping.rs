//! What a target looks like: a copy of its source, or what the mappings make of it. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::core::TypeMeta;
use serde_json::{Map, Value, json};

use crate::path::{Path, PathError};
use crate::sync::{Mapping, Reference};

/// What kubectl keeps in an object about that very object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Why no target can be made of a source. No message shows the content of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// A path is wrong.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A mapping has no path at all.
    #[error("a mapping needs fromFieldPath, toFieldPath or both")]
    Empty,
    /// The target may not have this from a mapping.
    #[error(
        "{0:?} cannot be set: of the metadata labels and annotations can, and neither apiVersion, \
         kind nor status"
    )]
    NotAllowed(String),
    /// What becomes the target is not of its kind.
    #[error(
        "{path:?} of the source must be a {kind} of {api_version}, with its apiVersion and kind"
    )]
    OtherKind {
        /// Where it is.
        path: String,
        /// The kind of the target.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// Labels or annotations are something else.
    #[error("the {0} of the target would not be texts")]
    NotTexts(&'static str),
}

/// The target, without a namespace.
///
/// # Errors
/// Returns an error if a mapping is invalid, or does not fit the source.
pub fn target(
    of: &Reference,
    mappings: &[Mapping],
    source: &Value,
) -> Result<DynamicObject, MappingError> {
    let mut built = if mappings.is_empty() { copy(source) } else { json!({}) };
    for mapping in mappings {
        map(of, mapping, source, &mut built)?;
    }
    finish(of, built)
}

fn map(
    of: &Reference,
    mapping: &Mapping,
    source: &Value,
    built: &mut Value,
) -> Result<(), MappingError> {
    let parse = |path: &Option<String>| path.as_deref().map(str::parse::<Path>).transpose();
    match (parse(&mapping.from_field_path)?, parse(&mapping.to_field_path)?) {
        (None, None) => return Err(MappingError::Empty),
        (Some(from), None) => {
            let inner = from.find(source).unwrap_or(&Value::Null);
            if inner["apiVersion"] != *of.api_version || inner["kind"] != *of.kind {
                return Err(MappingError::OtherKind {
                    path: mapping.from_field_path.clone().unwrap_or_default(),
                    kind: of.kind.clone(),
                    api_version: of.api_version.clone(),
                });
            }
            *built = copy(inner);
        }
        (None, Some(to)) => allowed(&to)?.set(built, copy(source))?,
        (Some(from), Some(to)) => {
            let to = allowed(&to)?;
            // What the source does not have, the target does not get.
            if let Some(value) = from.find(source) {
                to.set(built, value.clone())?;
            }
        }
    }
    Ok(())
}

/// The path, if a target may have something there.
fn allowed(path: &Path) -> Result<&Path, MappingError> {
    let is_allowed = match (path.field(0), path.field(1)) {
        (Some("apiVersion" | "kind" | "status"), _) => false,
        // A name, an owner or a finalizer could reach what is not the user's.
        (Some("metadata"), part) => matches!(part, Some("labels" | "annotations")),
        _ => true,
    };
    if is_allowed { Ok(path) } else { Err(MappingError::NotAllowed(path.to_string())) }
}

/// An object without what belongs to that very object: of its metadata, only name, labels and
/// annotations.
fn copy(object: &Value) -> Value {
    let mut copy = object.clone();
    if let Some(metadata) = copy.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| matches!(field.as_str(), "name" | "labels" | "annotations"));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    copy
}

/// Makes an object of it that has the kind and the name of the target.
fn finish(of: &Reference, built: Value) -> Result<DynamicObject, MappingError> {
    let mut data = match built {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let metadata = data.remove("metadata").unwrap_or_default();
    let texts = |field: &'static str| -> Result<Option<BTreeMap<String, String>>, MappingError> {
        let value = metadata.get(field).cloned().unwrap_or_default();
        serde_json::from_value(value).map_err(|_| MappingError::NotTexts(field))
    };
    let metadata = ObjectMeta {
        name: Some(of.name.clone()),
        labels: texts("labels")?,
        annotations: texts("annotations")?,
        ..ObjectMeta::default()
    };
    data.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind" | "status"));
    let types = TypeMeta { api_version: of.api_version.clone(), kind: of.kind.clone() };
    Ok(DynamicObject { types: Some(types), metadata, data: Value::Object(data) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(api_version: &str, kind: &str) -> Reference {
        let [api_version, kind] = [api_version, kind].map(str::to_owned);
        Reference { api_version, kind, name: "target".to_owned() }
    }

    fn mapping(from: &str, to: &str) -> Mapping {
        let given = |path: &str| Some(path.to_owned()).filter(|path| !path.is_empty());
        Mapping { from_field_path: given(from), to_field_path: given(to) }
    }

    fn source() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "source", "namespace": "shop", "uid": "1", "resourceVersion": "7",
                "finalizers": ["example.com/mine"], "ownerReferences": [],
                "labels": {"app": "web"},
                "annotations": {"a": "1", LAST_APPLIED: "{}"},
            },
            "data": {"color": "blue", "a.b": "dotted"},
            "status": {"phase": "fine"},
        })
    }

    /// The target as JSON, or why there is none.
    fn made(of: &Reference, mappings: &[Mapping], source: &Value) -> Result<Value, MappingError> {
        target(of, mappings, source).map(|made| serde_json::to_value(made).expect("JSON"))
    }

    #[test]
    fn copy_has_labels_and_annotations_but_nothing_else_of_the_metadata() {
        let copy = made(&reference("v1", "ConfigMap"), &[], &source()).expect("a target");
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "target", "labels": {"app": "web"}, "annotations": {"a": "1"}},
            "data": {"color": "blue", "a.b": "dotted"},
        });
        assert_eq!(copy, expected);
    }

    #[test]
    fn mappings_put_parts_of_the_source_into_the_target_in_order() {
        let mappings = [
            mapping("data", "stringData"),
            mapping("data['a.b']", "stringData.color"),
            mapping("metadata.labels", "metadata.labels"),
            mapping("metadata.uid", "metadata.annotations['example.com/of']"),
            mapping("status.phase", "stringData.phase"),
            mapping("data.none", "stringData.none"),
        ];
        let secret = made(&reference("v1", "Secret"), &mappings, &source()).expect("a target");
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "target", "labels": {"app": "web"}, "annotations": {"example.com/of": "1"},
            },
            "stringData": {"color": "dotted", "a.b": "dotted", "phase": "fine"},
        });
        assert_eq!(secret, expected);
    }

    #[test]
    fn whole_object_goes_into_a_field_and_comes_out_again() {
        let container = reference("example.com/v1", "Container");
        let packed = made(&container, &[mapping("", "spec")], &source()).expect("a target");
        assert_eq!(packed["spec"]["metadata"]["name"], "source");
        assert_eq!(packed["spec"]["metadata"].get("resourceVersion"), None);
        let unpacked = made(&reference("v1", "ConfigMap"), &[mapping("spec", "")], &packed);
        assert_eq!(unpacked, made(&reference("v1", "ConfigMap"), &[], &source()));
        let other = made(&reference("v1", "Secret"), &[mapping("spec", "")], &packed);
        assert!(matches!(other, Err(MappingError::OtherKind { .. })), "{other:?}");
    }

    #[test]
    fn mapping_that_cannot_be_is_refused() {
        let of = reference("v1", "ConfigMap");
        let refused = |from: &str, to: &str| {
            made(&of, &[mapping(from, to)], &source()).expect_err("it cannot be")
        };
        assert_eq!(refused("", ""), MappingError::Empty);
        assert!(matches!(refused("data.", "data"), MappingError::Path(_)));
        assert_eq!(refused("metadata", "metadata.labels"), MappingError::NotTexts("labels"));
        for to in [
            "metadata",
            "metadata.name",
            "metadata.namespace",
            "metadata.ownerReferences",
            "metadata.finalizers",
            "status.phase",
            "kind",
            "apiVersion",
            "['metadata'].name",
        ] {
            assert_eq!(refused("data.color", to), MappingError::NotAllowed(to.to_owned()));
        }
    }
}
