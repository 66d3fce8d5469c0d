//! The kinds of children that are noted at an owner.
//!
//! An entry is a resource as `kubectl get` takes it, `deployments.v1.apps`, so that objects of the
//! kind are found by a program that does not know it.

use std::collections::BTreeMap;
use std::fmt;

use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use windlass_informer::Resource;

/// Resources by their plural and group, in the version in which each was used last.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds(BTreeMap<(String, String), Resource>);

impl Kinds {
    pub(super) fn of(resources: impl IntoIterator<Item = Resource>) -> Self {
        Self(resources.into_iter().map(|resource| (name_of(&resource), resource)).collect())
    }

    /// Reads an annotation. What makes no sense is left out.
    pub(super) fn parse(text: &str) -> Self {
        let resource = |text: &str| {
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
            is_valid.then(|| resource_named(plural, version, group))
        };
        Self::of(text.split(',').filter_map(resource))
    }

    /// All of both. The versions are those of `newer`.
    pub(super) fn union(&self, newer: &Self) -> Self {
        Self::of(self.iter().chain(newer.iter()).cloned())
    }

    pub(super) fn without(&self, others: &Self) -> Self {
        Self::of(self.iter().filter(|resource| !others.contains(resource)).cloned())
    }

    pub(super) fn contains(&self, resource: &Resource) -> bool {
        self.0.contains_key(&name_of(resource))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.0.values()
    }
}

/// A resource, as far as an entry tells. The kind is only shown, and the scope does not matter for
/// objects whose namespaces are known.
pub(super) fn resource_named(plural: &str, version: &str, group: &str) -> Resource {
    let kind = GroupVersionKind::gvk(group, version, plural);
    Resource::new(&ApiResource::from_gvk_with_plural(&kind, plural), true)
}

/// Whether both are the same resource, in any version.
pub(super) fn is_same(one: &Resource, other: &Resource) -> bool {
    one.plural() == other.plural() && one.group() == other.group()
}

fn name_of(resource: &Resource) -> (String, String) {
    (resource.plural().to_owned(), resource.group().to_owned())
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<_> = self.iter().map(Resource::to_string).collect();
        f.write_str(&entries.join(","))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn note_can_be_read_again() {
        let kinds = Kinds::of([Resource::of::<Deployment>(), Resource::of::<ConfigMap>()]);
        assert_eq!(kinds.to_string(), "configmaps.v1,deployments.v1.apps");
        assert_eq!(Kinds::parse(&kinds.to_string()).to_string(), kinds.to_string());
        let newer = Kinds::parse("deployments.v2.apps, ,nonsense,widgets.v1.example.com");
        let union = "configmaps.v1,deployments.v2.apps,widgets.v1.example.com";
        assert_eq!(kinds.union(&newer).to_string(), union);
        assert!(Kinds::parse("").0.is_empty());
        assert!(Kinds::parse("pods/web/proxy/admin.v1,pods.v1/x,pods.v1.a/b,%2e.v1").0.is_empty());
    }
}
