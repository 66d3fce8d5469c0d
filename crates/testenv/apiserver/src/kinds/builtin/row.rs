//! One row of the table of built-in kinds, written as a chain: the kind, then its differences from
//! most kinds.

use crate::kind::{
    Dependents, Generation, Kind, Origin, Rules, Scale, StatusMetadata, Verbs, Version,
};
use crate::metadata::NameRule;

/// The labels of `events.k8s.io/v1` events that a field selector may use.
const NEW_EVENT_LABELS: &[&str] = &[
    "reason",
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reportingController",
    "type",
];

/// The field names of core events in `events.k8s.io/v1`.
const EVENT_RENAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// One kind of the table, with the fields of [`Kind`], its only [`Version`] and [`Rules`]. The
/// singular name is always the kind in lower case.
#[derive(Clone, Copy)]
pub(super) struct Row {
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    status: bool,
    scale: bool,
    subresources: &'static [&'static str],
    selectable: &'static [&'static str],
    renames: &'static [(&'static str, &'static str)],
    rules: Rules,
    stored_as: Option<(&'static str, &'static str)>,
}

/// A namespaced kind.
pub(super) const fn namespaced(plural: &'static str, kind: &'static str) -> Row {
    Row { namespaced: true, ..cluster(plural, kind) }
}

/// A cluster-scoped kind, with the rules that most built-in kinds have.
pub(super) const fn cluster(plural: &'static str, kind: &'static str) -> Row {
    Row {
        plural,
        kind,
        namespaced: false,
        short_names: &[],
        categories: &[],
        status: false,
        scale: false,
        subresources: &[],
        selectable: &[],
        renames: &[],
        rules: Rules {
            generation: Generation::None,
            unconditional_update: true,
            create_on_update: false,
            returns_deleted: false,
            dependents: Dependents::Deleted,
            keeps_status_on_create: false,
            status_metadata: StatusMetadata::Written,
            names: NameRule::Subdomain,
            verbs: Verbs::All,
        },
        stored_as: None,
    }
}

impl Row {
    pub(super) const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    pub(super) const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    pub(super) const fn in_all(self) -> Self {
        self.categories(&["all"])
    }

    pub(super) const fn status(mut self) -> Self {
        self.status = true;
        self
    }

    pub(super) const fn scale(mut self) -> Self {
        self.scale = true;
        self
    }

    pub(super) const fn subresources(mut self, names: &'static [&'static str]) -> Self {
        self.subresources = names;
        self
    }

    pub(super) const fn selectable(mut self, labels: &'static [&'static str]) -> Self {
        self.selectable = labels;
        self
    }

    pub(super) const fn generation(mut self, generation: Generation) -> Self {
        self.rules.generation = generation;
        self
    }

    /// An update must name the resource version that it replaces.
    pub(super) const fn versioned_update(mut self) -> Self {
        self.rules.unconditional_update = false;
        self
    }

    pub(super) const fn create_on_update(mut self) -> Self {
        self.rules.create_on_update = true;
        self
    }

    pub(super) const fn returns_deleted(mut self) -> Self {
        self.rules.returns_deleted = true;
        self
    }

    pub(super) const fn dependents(mut self, dependents: Dependents) -> Self {
        self.rules.dependents = dependents;
        self
    }

    pub(super) const fn keeps_status_on_create(mut self) -> Self {
        self.rules.keeps_status_on_create = true;
        self
    }

    pub(super) const fn status_metadata(mut self, rule: StatusMetadata) -> Self {
        self.rules.status_metadata = rule;
        self
    }

    pub(super) const fn names(mut self, rule: NameRule) -> Self {
        self.rules.names = rule;
        self
    }

    pub(super) const fn verbs(mut self, verbs: Verbs) -> Self {
        self.rules.verbs = verbs;
        self
    }

    pub(super) const fn review(self) -> Self {
        self.verbs(Verbs::CreateOnly)
    }

    pub(super) const fn of_core_events(mut self) -> Self {
        self.rules.dependents = Dependents::Ignored;
        self.selectable = NEW_EVENT_LABELS;
        self.renames = EVENT_RENAMES;
        self.stored_as = Some(("", "events"));
        self
    }

    /// Returns the kind of this row.
    pub(super) fn kind(&self, group: &str, version: &str) -> Kind {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Kind {
            group: group.to_owned(),
            plural: self.plural.to_owned(),
            singular: self.kind.to_ascii_lowercase(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            short_names: owned(self.short_names),
            categories: owned(self.categories),
            namespaced: self.namespaced,
            origin: Origin::BuiltIn,
            versions: vec![Version {
                name: version.to_owned(),
                served: true,
                storage: true,
                status: self.status,
                scale: self.scale.then(builtin_scale),
                subresources: self.subresources.to_vec(),
                declared_schema: None,
                selectable: owned(self.selectable),
                columns: None,
                renames: self.renames,
            }],
            rules: self.rules,
            stored_as: self.stored_as,
            conversion: None,
        }
    }
}

/// The paths of the scale fields, which are the same in all built-in kinds with a scale.
fn builtin_scale() -> Scale {
    Scale {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: Some(".spec.selector".to_owned()),
    }
}
