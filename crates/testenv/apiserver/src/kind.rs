//! One resource: its names, its versions, and how its objects are created, changed and removed.
//!
//! Built-in kinds are rows of a table ([`crate::kinds`]), custom ones come from their definitions
//! ([`crate::crd`]). Both have this type, so that most code need not distinguish them.

mod fields;

use std::sync::Arc;

use serde_json::Value;

use crate::metadata::NameRule;
use crate::schema::Schema;
use crate::table::custom::CustomColumns;
use crate::webhook::conversion::Conversion;

/// One resource: a plural under a group, in one or more versions.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "`kind` and `listKind` are what Kubernetes calls them"
)]
pub(crate) struct Kind {
    /// The API group; empty for the core group.
    pub(crate) group: String,
    /// The name in paths, as in `pods`.
    pub(crate) plural: String,
    /// The singular name, as in `pod`.
    pub(crate) singular: String,
    /// The `kind` of one object, as in `Pod`.
    pub(crate) kind: String,
    /// The `kind` of a list, as in `PodList`.
    pub(crate) list_kind: String,
    /// Short names, as in `po`.
    pub(crate) short_names: Vec<String>,
    /// The groups of resources that it belongs to for kubectl, as in `all`.
    pub(crate) categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub(crate) namespaced: bool,
    /// Where the kind comes from.
    pub(crate) origin: Origin,
    /// The versions, the most preferred first.
    pub(crate) versions: Vec<Version>,
    /// How objects are created, changed and removed.
    pub(crate) rules: Rules,
    /// The (group, plural) of the kind that stores the objects, if it is another kind.
    ///
    /// Only `events.k8s.io` has it: its events are the events of the core group, stored once with
    /// the core field names and shown with the new ones ([`Version::renames`]). It stays a kind of
    /// its own because discovery, paths and selectable fields differ.
    pub(crate) stored_as: Option<(&'static str, &'static str)>,
    /// The webhook that converts objects of a custom kind between its versions, if there is one.
    pub(crate) conversion: Option<Arc<Conversion>>,
}

/// Where a kind comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The kind is part of the server.
    BuiltIn,
    /// A `CustomResourceDefinition` declares the kind.
    Custom,
}

/// One version of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// Its name, as in `v1`.
    pub(crate) name: String,
    /// Whether requests may use it.
    pub(crate) served: bool,
    /// Whether objects are stored in it.
    pub(crate) storage: bool,
    /// Whether it has the `/status` subresource.
    pub(crate) status: bool,
    /// The fields of `/scale`, if there is a `/scale`.
    pub(crate) scale: Option<Scale>,
    /// The other subresources that are supported, as in `finalize`.
    pub(crate) subresources: Vec<&'static str>,
    /// The schema of a custom kind, or why it cannot be used. Built-in kinds have none and keep
    /// every field. [`Self::schema`] is for callers that can go on without one.
    pub(crate) declared_schema: Option<Result<Arc<Schema>, String>>,
    /// The fields that a field selector may use besides `metadata.name` and `metadata.namespace`.
    pub(crate) selectable: Vec<String>,
    /// The columns of a custom kind; those of built-ins are part of the server.
    pub(crate) columns: Option<CustomColumns>,
    /// Top-level fields that are stored under another name: (stored, in this version).
    pub(crate) renames: &'static [(&'static str, &'static str)],
}

/// The fields of `/scale`, as dotted paths such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// The wanted number of replicas.
    pub(crate) spec_replicas: String,
    /// The observed number of replicas.
    pub(crate) status_replicas: String,
    /// The selector of the replicas: a text in a custom kind, a label selector (or, in a
    /// `ReplicationController`, a plain map) in a built-in one.
    pub(crate) label_selector: Option<String>,
}

/// How objects of a kind are created, changed and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent answer of the real server's strategy"
)]
pub(crate) struct Rules {
    /// Which changes increment `metadata.generation`.
    pub(crate) generation: Generation,
    /// Whether a PUT without a resource version overwrites what is there.
    pub(crate) unconditional_update: bool,
    /// Whether a PUT to a name that does not exist creates the object.
    pub(crate) create_on_update: bool,
    /// Whether DELETE answers with the object instead of a Status.
    pub(crate) returns_deleted: bool,
    /// The default propagation policy of deletions.
    pub(crate) dependents: Dependents,
    /// Whether a create request keeps its `status`. It is dropped if status is a subresource,
    /// except for nodes, which their kubelet creates with a status.
    pub(crate) keeps_status_on_create: bool,
    /// Whether a write to `/status` also writes the metadata in its body.
    pub(crate) status_metadata: StatusMetadata,
    /// The form that names must have.
    pub(crate) names: NameRule,
    /// The verbs that the kind supports.
    pub(crate) verbs: Verbs,
}

/// Which changes increment `metadata.generation`. Setting the deletion timestamp always does,
/// unless the kind has no generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has no generation.
    None,
    /// The generation is 1 on create and never changes.
    Fixed,
    /// A change outside of metadata and, where it is a subresource, status.
    Content,
    /// As [`Generation::Content`], and a change of annotations: deployments.
    ContentOrAnnotations,
    /// As [`Generation::Content`], and a change of labels: endpoint slices.
    ContentOrLabels,
}

/// What happens to the dependents of an object that is deleted without a propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// They are deleted, too.
    Deleted,
    /// They are kept: jobs and replication controllers. The object first gets the finalizer
    /// `orphan`, so a DELETE answers with the object.
    Orphaned,
    /// The propagation policy of the request is ignored: events.
    Ignored,
}

/// What a write to `/status` does with the metadata in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusMetadata {
    /// The metadata in the body is ignored: custom kinds and their definitions.
    Kept,
    /// The metadata is written as in a write to the object: labels, annotations, finalizers and
    /// owners.
    Written,
    /// The metadata is written, except for this one field.
    WrittenExcept(&'static str),
}

/// The verbs that a kind supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbs {
    /// All verbs.
    All,
    /// All verbs except for deletecollection: namespaces.
    AllButDeleteCollection,
    /// Only create, and nothing is stored: access and token reviews.
    CreateOnly,
}

impl Kind {
    /// Returns the version of that name, if it is served.
    pub(crate) fn served(&self, version: &str) -> Option<&Version> {
        self.versions.iter().find(|candidate| candidate.served && candidate.name == version)
    }

    /// Returns the version of that name, served or not.
    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns the storage version.
    pub(crate) fn storage(&self) -> &Version {
        self.versions
            .iter()
            .find(|version| version.storage)
            .expect("one version of a kind must be the storage version")
    }

    /// Returns `apiVersion` of an object in a version: `v1`, or `apps/v1`.
    pub(crate) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// Returns whether the kind is part of the server.
    pub(crate) fn is_builtin(&self) -> bool {
        self.origin == Origin::BuiltIn
    }

    /// Returns every field that a field selector may use in some version, under its stored name.
    pub(crate) fn selectable(&self) -> Vec<String> {
        let mut labels = Vec::new();
        for version in &self.versions {
            for label in &version.selectable {
                let stored = self.field_label(version, label).unwrap_or_else(|_| label.clone());
                if !labels.contains(&stored) {
                    labels.push(stored);
                }
            }
        }
        labels
    }

    /// Returns whether the kind has this group and plural.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn is_crd(&self) -> bool {
        self.is("apiextensions.k8s.io", "customresourcedefinitions")
    }
}

impl Version {
    /// Returns the schema of a custom kind, unless it cannot be used.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.declared_schema.as_ref()?.as_deref().ok()
    }

    /// Renames the fields of an object in this version to their stored names.
    pub(crate) fn to_stored(&self, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else { return };
        for (stored, shown) in self.renames {
            if let Some(value) = fields.remove(*shown) {
                fields.insert((*stored).to_owned(), value);
            }
        }
    }

    /// Renames the fields of a stored object to their names in this version.
    ///
    /// Removes fields with an empty text: `core/v1` writes `reportingComponent: ""`,
    /// `events.k8s.io/v1` writes nothing.
    pub(crate) fn to_shown(&self, object: &mut Value) {
        if self.renames.is_empty() {
            return;
        }
        let Some(fields) = object.as_object_mut() else { return };
        for (stored, shown) in self.renames {
            if let Some(value) = fields.remove(*stored) {
                fields.insert((*shown).to_owned(), value);
            }
        }
        fields.retain(|_, value| value.as_str() != Some(""));
    }
}

impl Rules {
    /// Returns the rules of custom kinds.
    pub(crate) const fn custom() -> Self {
        Self {
            generation: Generation::Content,
            unconditional_update: false,
            create_on_update: false,
            returns_deleted: false,
            dependents: Dependents::Deleted,
            keeps_status_on_create: false,
            status_metadata: StatusMetadata::Kept,
            names: NameRule::Subdomain,
            verbs: Verbs::All,
        }
    }
}

impl Generation {
    /// Returns whether a new object gets generation 1.
    pub(crate) fn counts(self) -> bool {
        self != Self::None
    }

    /// Returns whether the change from `old` to `new` increments the generation. `status` says
    /// whether status is a subresource and therefore not part of the content.
    pub(crate) fn grows(self, old: &Value, new: &Value, status: bool) -> bool {
        let metadata_differs =
            |field: &str| old["metadata"].get(field) != new["metadata"].get(field);
        match self {
            Self::None | Self::Fixed => false,
            Self::Content => content_differs(old, new, status),
            Self::ContentOrAnnotations => {
                content_differs(old, new, status) || metadata_differs("annotations")
            }
            Self::ContentOrLabels => {
                content_differs(old, new, status) || metadata_differs("labels")
            }
        }
    }
}

impl Verbs {
    /// Returns the verbs as discovery lists them for a kind of this origin.
    pub(crate) fn names(self, origin: Origin) -> &'static [&'static str] {
        match (self, origin) {
            (Self::All, Origin::BuiltIn) => {
                &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            }
            // The real server writes this list by hand, in this order.
            (Self::All, Origin::Custom) => {
                &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
            }
            (Self::AllButDeleteCollection, _) => {
                &["create", "delete", "get", "list", "patch", "update", "watch"]
            }
            (Self::CreateOnly, _) => &["create"],
        }
    }
}

/// Returns whether two objects differ outside of identity, metadata and, if `status` is set,
/// status.
fn content_differs(old: &Value, new: &Value, status: bool) -> bool {
    let is_content = |name: &str| match name {
        "apiVersion" | "kind" | "metadata" => false,
        "status" => !status,
        _ => true,
    };
    let lacks = |object: &Value, of: &Value| {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(name, _)| is_content(name)).any(|(name, value)| of.get(name) != Some(value))
    };
    lacks(old, new) || lacks(new, old)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generation_follows_content_and_not_metadata_or_status() {
        let old = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}, "status": {"y": 1}});
        let with = |field: &str, value: Value| {
            let mut new = old.clone();
            new[field] = value;
            new
        };
        let status = with("status", json!({"y": 2}));
        let spec = with("spec", json!({"x": 2}));
        let labels = with("metadata", json!({"labels": {}}));
        assert!(Generation::Content.grows(&old, &spec, true));
        assert!(!Generation::Content.grows(&old, &status, true));
        assert!(Generation::Content.grows(&old, &status, false));
        assert!(!Generation::Content.grows(&old, &labels, true));
        assert!(Generation::ContentOrLabels.grows(&old, &labels, true));
        assert!(!Generation::Fixed.grows(&old, &spec, true));
    }
}
