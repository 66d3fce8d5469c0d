//! The kinds of children that are noted at an owner.
//!
//! An entry is a resource as `kubectl get` takes it, `deployments.v1.apps`, so that objects of the
//! kind are found by a program that does not know it.

use std::collections::BTreeMap;
use std::fmt;

use kube::api::ApiResource;
use windlass_informer::Resource;

/// Resources, and the version in which each was used last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(BTreeMap<Name, String>);

/// A resource in any version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) plural: String,
    pub(super) group: String,
}

impl Kinds {
    pub(super) fn of<'r>(resources: impl IntoIterator<Item = &'r Resource>) -> Self {
        let entry = |resource: &Resource| (Name::of(resource), resource.version().to_owned());
        Self(resources.into_iter().map(entry).collect())
    }

    /// Reads an annotation. What makes no sense is left out.
    pub(super) fn parse(text: &str) -> Self {
        let entry = |text: &str| {
            let (plural, rest) = text.trim().split_once('.')?;
            let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
            // It becomes the path of a request, and anybody who may write the owner may write it.
            let is_word =
                |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let is_valid = !plural.is_empty()
                && !version.is_empty()
                && is_word(plural)
                && is_word(version)
                && group.split('.').all(is_word);
            let name = Name { plural: plural.to_owned(), group: group.to_owned() };
            is_valid.then(|| (name, version.to_owned()))
        };
        Self(text.split(',').filter_map(entry).collect())
    }

    /// All of both. The versions are those of `newer`.
    pub(super) fn union(&self, newer: &Self) -> Self {
        let mut union = self.clone();
        union.0.extend(newer.0.iter().map(|(name, version)| (name.clone(), version.clone())));
        union
    }

    pub(super) fn without(&self, names: &[Name]) -> Self {
        let mut rest = self.clone();
        rest.0.retain(|name, _| !names.contains(name));
        rest
    }

    pub(super) fn contains(&self, name: &Name) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &str)> {
        self.0.iter().map(|(name, version)| (name, version.as_str()))
    }
}

impl Name {
    pub(super) fn of(resource: &Resource) -> Self {
        Self { plural: resource.plural().to_owned(), group: resource.group().to_owned() }
    }

    pub(super) fn is_of(&self, resource: &Resource) -> bool {
        self.plural == resource.plural() && self.group == resource.group()
    }

    /// The resource, as far as it is known. The kind is only shown, and the scope does not matter
    /// for objects whose namespaces are known.
    pub(super) fn resource(&self, version: &str) -> Resource {
        let api_version = match self.group.as_str() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let resource = ApiResource {
            group: self.group.clone(),
            version: version.to_owned(),
            api_version,
            kind: self.plural.clone(),
            plural: self.plural.clone(),
        };
        Resource::new(&resource, true)
    }
}

/// Whether both are the same resource, in any version.
pub(super) fn is_same(one: &Resource, other: &Resource) -> bool {
    one.plural() == other.plural() && one.group() == other.group()
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, version)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{}", name.resource(version))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn note_can_be_read_again() {
        let kinds = Kinds::of([&Resource::of::<Deployment>(), &Resource::of::<ConfigMap>()]);
        assert_eq!(kinds.to_string(), "configmaps.v1,deployments.v1.apps");
        assert_eq!(Kinds::parse(&kinds.to_string()), kinds);
        let newer = Kinds::parse("deployments.v2.apps, ,nonsense,widgets.v1.example.com");
        let union = "configmaps.v1,deployments.v2.apps,widgets.v1.example.com";
        assert_eq!(kinds.union(&newer).to_string(), union);
        assert!(Kinds::parse("").is_empty());
        assert!(Kinds::parse("pods/web/proxy/admin.v1,pods.v1/x,pods.v1.a/b,%2e.v1").is_empty());
    }
}
