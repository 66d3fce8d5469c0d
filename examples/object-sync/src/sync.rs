//! The type `ResourceSync`, and its annotations.

#![expect(clippy::duplicated_attributes, reason = "each printer column has a name and a type")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::GroupVersionKind;
use kube::{CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::informer::Resource;
use windlass::prelude::*;

/// `"true"`: the target stays when the sync is deleted.
pub const DISABLE_TARGET_DELETION: &str = "sync.example.com/disable-target-deletion";

/// `"true"`: a sync that is being deleted goes, even if its target cannot be deleted or is not gone
/// yet.
pub const FORCE_DELETE: &str = "sync.example.com/force-delete";

/// How many kinds of targets are noted.
pub const TARGETS_MAX: usize = 16;

/// A target that is kept equal to a source.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "sync.example.com",
    version = "v1",
    kind = "ResourceSync",
    namespaced,
    status = "ResourceSyncStatus",
    doc = "A target that is kept equal to a source. Both are in the namespace of the ResourceSync.",
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source.name"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target.name"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSyncSpec {
    /// What is read.
    pub source: Reference,
    /// What is made of it.
    pub target: Reference,
    /// How. None at all: the target is a copy of the source, with its labels and annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mappings: Vec<Mapping>,
}

/// An object in the namespace of the sync, or one of a cluster-scoped kind. The patterns matter:
/// all of it becomes part of the path of a request.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// As in `v1` or `apps/v1`.
    #[schemars(length(max = 253), regex(pattern = r"^([a-z0-9][-a-z0-9.]*/)?[a-z0-9]+$"))]
    pub api_version: String,
    /// As in `ConfigMap`.
    #[schemars(length(max = 63), regex(pattern = r"^[A-Za-z][A-Za-z0-9]*$"))]
    pub kind: String,
    /// The name of the object.
    #[schemars(length(max = 253), regex(pattern = r"^[A-Za-z0-9][-A-Za-z0-9_.:]*$"))]
    pub name: String,
}

/// One step in the making of a target.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mapping {
    /// What of the source is taken, as in `data.color` or `data['tls.crt']`. Without it: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_field_path: Option<String>,
    /// Where it goes. Without it: what is taken is an object itself, and becomes the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_field_path: Option<String>,
}

/// How far a sync is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
pub struct ResourceSyncStatus {
    /// `Ready`: the target is as it should be.
    #[serde(default)]
    #[schemars(schema_with = "windlass::reconciler::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// The targets that may have been made, one of each kind. A target is noted before it is made,
    /// and the others are forgotten when they are deleted.
    #[serde(default)]
    #[schemars(length(max = TARGETS_MAX))]
    pub targets: Vec<Reference>,
}

impl ResourceSync {
    /// Whether it has this annotation with the value `true`.
    pub fn asks_for(&self, annotation: &str) -> bool {
        self.annotations().get(annotation).is_some_and(|value| value == "true")
    }

    /// The key of its source or target: in its own namespace, unless the kind has none. There is no
    /// way to name another namespace, so who may write syncs in one cannot read another.
    pub fn key_of(&self, resource: &Resource, reference: &Reference) -> ObjectKey {
        match self.metadata.namespace.as_deref().filter(|_| resource.is_namespaced()) {
            Some(namespace) => ObjectKey::namespaced(namespace, &reference.name),
            None => ObjectKey::cluster(&reference.name),
        }
    }
}

impl Reference {
    /// Whether both are of one kind.
    pub fn is_same_kind(&self, other: &Self) -> bool {
        self.api_version == other.api_version && self.kind == other.kind
    }

    /// Its kind, for discovery.
    pub fn group_version_kind(&self) -> GroupVersionKind {
        let (group, version) = self.api_version.rsplit_once('/').unwrap_or(("", &self.api_version));
        GroupVersionKind::gvk(group, version, &self.kind)
    }
}

/// Syncs by what they refer to: the index that leads from a changed object to them.
///
/// It does not know kinds, and not which of them are cluster-scoped. So an object of another kind
/// that has the same name leads to a run as well, which finds nothing to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByReference;

/// What the index reads of a sync.
#[derive(Debug, Deserialize)]
pub struct View {
    spec: ResourceSyncSpec,
}

impl Index for ByReference {
    type View = View;
    type Value = ObjectKey;

    fn values(&self, head: &Head, view: View) -> impl IntoIterator<Item = ObjectKey> {
        let (source, target) = (view.spec.source.name, view.spec.target.name);
        let namespaced =
            |name: &str| ObjectKey::namespaced(head.namespace().unwrap_or_default(), name);
        [namespaced(&source), namespaced(&target), ObjectKey::cluster(&source)]
    }
}
