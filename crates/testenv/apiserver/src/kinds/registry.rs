//! The registered kinds, in the order of discovery.
//!
//! Built-in groups come in the priority order of the real server. Groups with only custom kinds
//! come after them, by name. The kinds of a group are sorted by plural. The registry is cheap to
//! clone (entries are shared), so a writer changes a copy and swaps it in while requests read the
//! old one.
//!
//! Invariants: a (group, plural) occurs once; ids grow and are never reused, so objects of a
//! removed kind cannot be read through a later kind of the same name.

use std::sync::Arc;

use super::builtin::{self, builtin};
use super::versions::by_preference;
use crate::kind::{Kind, Origin};

/// The id of a registered kind: small and stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KindId(pub(crate) u32);

/// A kind with its ids.
#[derive(Debug)]
pub(crate) struct Registered {
    /// The id of this kind.
    pub(crate) id: KindId,
    /// The id of the kind that stores the objects: its own, except for `events.k8s.io` events,
    /// which are stored as core events. Errors of the real server name that kind, too.
    pub(crate) storage: KindId,
    /// The kind.
    pub(crate) declared: Kind,
}

/// A kind and one of its versions, as the path of a request names them.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// The kind.
    pub(crate) entry: Arc<Registered>,
    /// The index of the version in [`Kind::versions`].
    pub(crate) index: usize,
}

/// The error for a custom kind whose (group, plural) belongs to a built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameIsBuiltIn;

/// The registered kinds.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    /// Sorted by rank and name.
    groups: Vec<Group>,
    /// The id that the next new kind gets.
    next: u32,
}

/// The kinds of one group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The name; empty for the core group.
    pub(crate) name: String,
    /// Sorted by plural.
    pub(crate) kinds: Vec<Arc<Registered>>,
}

/// A registered kind reads as the kind.
impl std::ops::Deref for Registered {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        &self.declared
    }
}

impl Group {
    /// The served versions of all kinds of the group, the most preferred first.
    pub(crate) fn versions(&self) -> Vec<&str> {
        let mut versions: Vec<&str> = self
            .kinds
            .iter()
            .flat_map(|entry| &entry.versions)
            .filter(|version| version.served)
            .map(|version| version.name.as_str())
            .collect();
        versions.sort_by(|a, b| by_preference(a, b));
        versions.dedup();
        versions
    }
}

impl Registry {
    /// A registry with the built-in kinds.
    pub(crate) fn new() -> Self {
        let mut registry = Self { groups: Vec::new(), next: 0 };
        for kind in builtin() {
            let storage = kind.stored_as.map(|(group, plural)| {
                registry
                    .by_plural(group, plural)
                    .expect("the kind that holds the objects must come first")
                    .id
            });
            registry.insert(kind, None, storage);
        }
        registry
    }

    /// Adds a custom kind, or replaces the one with the same group and plural, which keeps its id.
    pub(crate) fn put(&mut self, kind: Kind) -> Result<KindId, NameIsBuiltIn> {
        match self.by_plural(&kind.group, &kind.plural) {
            Some(old) if old.origin == Origin::BuiltIn => Err(NameIsBuiltIn),
            Some(old) => {
                let id = old.id;
                self.remove(id);
                Ok(self.insert(kind, Some(id), None))
            }
            None => Ok(self.insert(kind, None, None)),
        }
    }

    /// Restores the kinds of an earlier registry. Ids that were assigned since are not reused.
    pub(crate) fn restore(&mut self, earlier: &Self) {
        self.groups.clone_from(&earlier.groups);
        self.next = self.next.max(earlier.next);
    }

    /// Removes a custom kind; its id is never used again.
    pub(crate) fn remove(&mut self, id: KindId) -> Option<Arc<Registered>> {
        for (at, group) in self.groups.iter_mut().enumerate() {
            let found = group
                .kinds
                .iter()
                .position(|entry| entry.id == id && entry.origin == Origin::Custom);
            if let Some(position) = found {
                let entry = group.kinds.remove(position);
                if group.kinds.is_empty() {
                    self.groups.remove(at);
                }
                return Some(entry);
            }
        }
        None
    }

    /// The kind of namespaces.
    pub(crate) fn namespaces(&self) -> Arc<Registered> {
        self.by_plural("", "namespaces").expect("namespaces must be built in").clone()
    }

    /// The kind of custom resource definitions.
    pub(crate) fn definitions(&self) -> Arc<Registered> {
        let found = self.by_plural("apiextensions.k8s.io", "customresourcedefinitions");
        found.expect("custom resource definitions must be built in").clone()
    }

    /// Returns a served version of a kind.
    pub(crate) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Resource> {
        let entry = self.by_plural(group, plural)?;
        let index = entry
            .versions
            .iter()
            .position(|candidate| candidate.served && candidate.name == version)?;
        Some(Resource { entry: Arc::clone(entry), index })
    }

    /// The kind of a group and plural.
    pub(crate) fn by_plural(&self, group: &str, plural: &str) -> Option<&Arc<Registered>> {
        let kinds = &self.group(group)?.kinds;
        let at = kinds.binary_search_by(|entry| entry.plural.as_str().cmp(plural)).ok()?;
        Some(&kinds[at])
    }

    /// The kind of a group and `kind`, as an owner reference names it.
    pub(crate) fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Registered>> {
        self.group(group)?.kinds.iter().find(|entry| entry.kind == kind)
    }

    /// The kind of an id.
    pub(crate) fn by_id(&self, id: KindId) -> Option<&Arc<Registered>> {
        self.iter().find(|entry| entry.id == id)
    }

    /// One group.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.find_group(name).ok().map(|at| &self.groups[at])
    }

    /// The groups in the order of discovery, the core group first.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Every kind in the order of discovery.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Registered>> {
        self.groups.iter().flat_map(|group| &group.kinds)
    }

    /// Inserts a kind with a free plural, with the given ids or with a new one.
    fn insert(&mut self, kind: Kind, id: Option<KindId>, storage: Option<KindId>) -> KindId {
        let id = id.unwrap_or_else(|| {
            let id = KindId(self.next);
            self.next += 1;
            id
        });
        let at = self.find_group(&kind.group).unwrap_or_else(|at| {
            self.groups.insert(at, Group { name: kind.group.clone(), kinds: Vec::new() });
            at
        });
        let kinds = &mut self.groups[at].kinds;
        let position = kinds.partition_point(|entry| entry.plural < kind.plural);
        kinds.insert(
            position,
            Arc::new(Registered { id, storage: storage.unwrap_or(id), declared: kind }),
        );
        id
    }

    /// Returns the index of a group, or the index to insert it at.
    fn find_group(&self, name: &str) -> Result<usize, usize> {
        let wanted = (builtin::rank(name), name);
        self.groups.binary_search_by(|group| {
            (builtin::rank(&group.name), group.name.as_str()).cmp(&wanted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Rules, Scale, Version};

    /// A custom kind with these versions. The first one is the storage version.
    pub(crate) fn custom(group: &str, plural: &str, kind: &str, versions: &[&str]) -> Kind {
        let version = |(at, name): (usize, &&str)| Version {
            name: (*name).to_owned(),
            served: true,
            storage: at == 0,
            status: true,
            scale: (at == 0).then(|| Scale {
                spec_replicas: ".spec.replicas".to_owned(),
                status_replicas: ".status.replicas".to_owned(),
                label_selector: None,
            }),
            subresources: Vec::new(),
            declared_schema: None,
            selectable: vec!["spec.size".to_owned()],
            columns: None,
            renames: &[],
        };
        Kind {
            group: group.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            origin: Origin::Custom,
            versions: versions.iter().enumerate().map(version).collect(),
            rules: Rules::custom(),
            stored_as: None,
            conversion: None,
        }
    }

    #[test]
    fn a_path_finds_only_served_versions() {
        let registry = Registry::new();
        let pods = registry.resource("", "v1", "pods").expect("pods must be there");
        assert_eq!(pods.entry.kind, "Pod");
        assert_eq!(pods.entry.versions[pods.index].name, "v1");
        assert!(registry.resource("", "v2", "pods").is_none());
        assert!(registry.resource("apps", "v1", "pods").is_none());
        assert!(registry.resource("nope", "v1", "pods").is_none());
    }

    #[test]
    fn events_of_both_groups_are_the_same_objects() {
        let registry = Registry::new();
        let core = registry.by_plural("", "events").expect("events must be there");
        let new = registry.by_plural("events.k8s.io", "events").expect("events must be there");
        assert_ne!(core.id, new.id);
        assert_eq!(core.storage, core.id);
        assert_eq!(new.storage, core.id);
    }

    #[test]
    fn a_replaced_kind_keeps_its_id_and_a_removed_one_never_returns() {
        let mut registry = Registry::new();
        let first = registry
            .put(custom("zed.example.com", "widgets", "Widget", &["v1"]))
            .expect("it must be free");
        let again = registry
            .put(custom("zed.example.com", "widgets", "Widget", &["v1", "v2"]))
            .expect("it must be ours");
        assert_eq!(first, again);
        assert!(registry.resource("zed.example.com", "v2", "widgets").is_some());
        assert!(registry.remove(first).is_some());
        assert!(registry.group("zed.example.com").is_none());
        let second = registry
            .put(custom("zed.example.com", "widgets", "Widget", &["v1"]))
            .expect("it must be free");
        assert_ne!(first, second);
    }

    #[test]
    fn built_in_kinds_can_neither_be_replaced_nor_removed() {
        let mut registry = Registry::new();
        assert_eq!(
            registry.put(custom("apps", "deployments", "Deployment", &["v1"])),
            Err(NameIsBuiltIn)
        );
        let pods = registry.by_plural("", "pods").expect("pods must be there").id;
        assert!(registry.remove(pods).is_none());
    }

    #[test]
    fn custom_groups_follow_the_built_in_ones_by_name() {
        let mut registry = Registry::new();
        for group in ["zed.example.com", "abc.example.com"] {
            registry
                .put(custom(group, "things", "Thing", &["v1beta1", "v10", "v2"]))
                .expect("it must be free");
        }
        let names: Vec<&str> = registry.groups().iter().map(|group| group.name.as_str()).collect();
        assert_eq!(&names[..3], ["", "apps", "events.k8s.io"]);
        assert_eq!(&names[names.len() - 2..], ["abc.example.com", "zed.example.com"]);
        let group = registry.group("abc.example.com").expect("it must be there");
        assert_eq!(group.versions(), ["v10", "v2", "v1beta1"]);
    }
}
