//! Discovery documents: the groups, versions and resources that the server has.
//!
//! Pure functions from the registry to the documents, in both forms: the legacy form, with one
//! document per group and version, and the aggregated form (`apidiscovery.k8s.io/v2`), with
//! everything in one document. They have the shape of those of kube-apiserver v1.36.3.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest;
use serde_json::{Map, Value, json};

use crate::kind::{Kind, Origin, Verbs, Version};
use crate::kinds::{Registered, Registry};

/// The verbs of `/status` and `/scale`.
const READ_AND_CHANGE: &[&str] = &["get", "patch", "update"];

/// Returns legacy `/api`. `address` is the `host:port` at which the server can be reached.
pub(crate) fn api(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// Returns legacy `/apis`.
pub(crate) fn apis(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        named_groups(registry).filter_map(|name| group_versions(registry, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns legacy `/apis/{group}`.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let mut document = group_versions(registry, name)?;
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

/// Returns legacy `/api/v1` or `/apis/{group}/{version}`; `group` is empty for the core group.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let found = registry.group(group)?;
    if !found.versions().contains(&version) {
        return None;
    }
    let resources: Vec<Value> = served(&found.kinds, version)
        .flat_map(|(kind, version)| legacy_resources(kind, version))
        .collect();
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut document =
        json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    // The core group answers in the oldest form, which has no `apiVersion`.
    if !group.is_empty() {
        document["apiVersion"] = json!("v1");
    }
    Some(document)
}

/// Returns aggregated `/api`: only the core group.
pub(crate) fn aggregated_api(registry: &Registry) -> Value {
    aggregated(registry, [""].into_iter())
}

/// Returns aggregated `/apis`: every other group.
pub(crate) fn aggregated_apis(registry: &Registry) -> Value {
    aggregated(registry, named_groups(registry))
}

/// Returns the groups under `/apis`, in order.
fn named_groups(registry: &Registry) -> impl Iterator<Item = &str> {
    registry.groups().iter().map(|group| group.name.as_str()).filter(|name| !name.is_empty())
}

/// Returns the kinds of a group that serve a version, with that version.
fn served<'a>(
    kinds: &'a [Arc<Registered>],
    version: &'a str,
) -> impl Iterator<Item = (&'a Kind, &'a Version)> {
    kinds.iter().filter_map(move |entry| Some((&entry.declared, entry.served(version)?)))
}

/// Returns the entry of a group under `/apis`, or `None` if no version is served.
fn group_versions(registry: &Registry, name: &str) -> Option<Value> {
    if name.is_empty() {
        return None;
    }
    let versions: Vec<Value> = registry
        .group(name)?
        .versions()
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

/// Returns the entries of a kind in legacy discovery: the resource, then its subresources.
fn legacy_resources(kind: &Kind, version: &Version) -> Vec<Value> {
    let mut resource = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.rules.verbs.names(kind.origin),
    });
    add_names(&mut resource, kind);
    if kind.rules.verbs != Verbs::CreateOnly {
        resource["storageVersionHash"] = json!(storage_hash(kind));
    }
    let subresources = subresources(kind, version).into_iter().map(|sub| {
        let mut resource = Map::new();
        resource.insert("name".to_owned(), json!(format!("{}/{}", kind.plural, sub.name)));
        resource.insert("singularName".to_owned(), json!(""));
        resource.insert("namespaced".to_owned(), json!(kind.namespaced));
        if let Some((group, version)) = sub.foreign {
            resource.insert("group".to_owned(), json!(group));
            resource.insert("version".to_owned(), json!(version));
        }
        resource.insert("kind".to_owned(), json!(sub.kind));
        resource.insert("verbs".to_owned(), json!(sub.verbs));
        Value::Object(resource)
    });
    std::iter::once(resource).chain(subresources).collect()
}

/// Returns the aggregated document of some groups.
fn aggregated<'a>(registry: &Registry, groups: impl Iterator<Item = &'a str>) -> Value {
    let items: Vec<Value> = groups
        .filter_map(|name| {
            let group = registry.group(name)?;
            let versions: Vec<Value> = group
                .versions()
                .into_iter()
                .map(|version| {
                    let resources: Vec<Value> = served(&group.kinds, version)
                        .map(|(kind, version)| aggregated_resource(kind, version))
                        .collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
            (!versions.is_empty()).then(|| json!({"metadata": metadata, "versions": versions}))
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// Returns the entry of a kind in aggregated discovery.
fn aggregated_resource(kind: &Kind, version: &Version) -> Value {
    // A custom kind repeats its group and version; for a built-in kind they are empty.
    let own = match kind.origin {
        Origin::BuiltIn => ("", ""),
        Origin::Custom => (kind.group.as_str(), version.name.as_str()),
    };
    let response = |(group, version): (&str, &str), kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": response(own, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.rules.verbs.names(kind.origin),
    });
    add_names(&mut resource, kind);
    let subresources: Vec<Value> = subresources(kind, version)
        .into_iter()
        .map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": response(sub.foreign.unwrap_or(own), &sub.kind),
                "verbs": sub.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        resource["subresources"] = json!(subresources);
    }
    resource
}

/// Adds short names and categories if there are any.
fn add_names(resource: &mut Value, kind: &Kind) {
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
}

/// Returns the hash of the type that objects are stored as. Clients use it to notice when the type
/// changes.
fn storage_hash(kind: &Kind) -> String {
    let group = kind.stored_as.map_or(&*kind.group, |(group, _)| group);
    // The real server reports for definitions a storage version that is no longer served.
    let version = if kind.is_crd() { "v1beta1" } else { &kind.storage().name };
    let stored = format!("{group}/{version}/{}", kind.kind);
    let hash = digest::digest(&digest::SHA256, stored.as_bytes());
    BASE64_STANDARD.encode(&hash.as_ref()[..8])
}

/// A subresource as discovery describes it.
pub(crate) struct Subresource {
    /// Its name, as in `status`.
    pub(crate) name: &'static str,
    /// The kind of its body.
    pub(crate) kind: String,
    /// Group and version of its kind, if they differ from those of the resource.
    pub(crate) foreign: Option<(&'static str, &'static str)>,
    /// The verbs that it supports.
    pub(crate) verbs: &'static [&'static str],
}

/// Returns the subresources of a kind: sorted by name for a built-in kind, status before scale for
/// a custom one.
pub(crate) fn subresources(kind: &Kind, version: &Version) -> Vec<Subresource> {
    let own = |name, verbs| Subresource { name, kind: kind.kind.clone(), foreign: None, verbs };
    let mut found: Vec<Subresource> = Vec::new();
    if version.status {
        found.push(own("status", READ_AND_CHANGE));
    }
    if version.scale.is_some() {
        let foreign = Some(("autoscaling", "v1"));
        found.push(Subresource {
            name: "scale",
            kind: "Scale".to_owned(),
            foreign,
            verbs: READ_AND_CHANGE,
        });
    }
    found.extend(version.subresources.iter().map(|name| match *name {
        "binding" => {
            Subresource { name, kind: "Binding".to_owned(), foreign: None, verbs: &["create"] }
        }
        "eviction" => {
            let foreign = Some(("policy", "v1"));
            Subresource { name, kind: "Eviction".to_owned(), foreign, verbs: &["create"] }
        }
        "token" => {
            let foreign = Some(("authentication.k8s.io", "v1"));
            Subresource { name, kind: "TokenRequest".to_owned(), foreign, verbs: &["create"] }
        }
        "finalize" => own(name, &["update"]),
        _ => own(name, READ_AND_CHANGE),
    }));
    if kind.origin == Origin::BuiltIn {
        found.sort_by_key(|sub| sub.name);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Rules, Scale};

    /// Returns the answers of kube-apiserver v1.36.3, by path: without resources that this server
    /// does not have, and with the two custom kinds of [`registry`]. `cargo xtask record observed`
    /// records them.
    fn observed() -> Map<String, Value> {
        serde_json::from_str(include_str!("discovery/observed.json"))
            .expect("the observations must be JSON")
    }

    fn custom(plural: &str, kind: &str, namespaced: bool, versions: &[(&str, bool)]) -> Kind {
        let version = |&(name, subresources): &(&str, bool)| Version {
            name: name.to_owned(),
            served: name != "v3",
            storage: name == "v1" || name == "v10",
            status: subresources,
            scale: subresources.then(|| Scale {
                spec_replicas: ".spec.replicas".to_owned(),
                status_replicas: ".status.replicas".to_owned(),
                label_selector: None,
            }),
            subresources: Vec::new(),
            declared_schema: None,
            selectable: Vec::new(),
            columns: None,
            renames: &[],
        };
        Kind {
            group: "zed.example.com".to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced,
            origin: Origin::Custom,
            versions: versions.iter().map(version).collect(),
            rules: Rules::custom(),
            stored_as: None,
            conversion: None,
        }
    }

    /// Returns a registry with the built-in kinds and two custom ones.
    fn registry() -> Registry {
        let mut registry = Registry::new();
        let versions = [("v1", true), ("v1beta1", false), ("v2alpha1", false), ("v3", false)];
        let mut widgets = custom("widgets", "Widget", true, &versions);
        widgets.short_names = vec!["wd".to_owned(), "w".to_owned()];
        widgets.categories = vec!["all".to_owned(), "mine".to_owned()];
        let gadgets = custom("gadgets", "Gadget", false, &[("v10", false), ("v1alpha1", false)]);
        registry.put(widgets).expect("the name must be free");
        registry.put(gadgets).expect("the name must be free");
        registry
    }

    #[test]
    fn every_document_is_that_of_the_real_server() {
        let registry = registry();
        for (path, expected) in observed() {
            let mut parts = path.trim_start_matches('/').split('/');
            let document = match (parts.next(), parts.next(), parts.next()) {
                (Some("api aggregated"), ..) => Some(aggregated_api(&registry)),
                (Some("apis aggregated"), ..) => Some(aggregated_apis(&registry)),
                (Some("apis"), None, _) => Some(apis(&registry)),
                (Some("api"), Some(version), _) => resources(&registry, "", version),
                (Some("apis"), Some(name), None) => group(&registry, name),
                (Some("apis"), Some(name), Some(version)) => resources(&registry, name, version),
                _ => None,
            };
            assert_eq!(document, Some(expected), "{path}");
        }
    }

    #[test]
    fn every_group_and_version_was_observed() {
        let observed = observed();
        for group in Registry::new().groups() {
            for version in group.versions() {
                let path = if group.name.is_empty() {
                    format!("/api/{version}")
                } else {
                    format!("/apis/{}/{version}", group.name)
                };
                assert!(observed.contains_key(&path), "{path}");
            }
        }
    }

    #[test]
    fn what_is_not_served_has_no_document() {
        let registry = registry();
        assert_eq!(resources(&registry, "zed.example.com", "v3"), None);
        assert_eq!(resources(&registry, "apps", "v1beta1"), None);
        assert_eq!(group(&registry, "nope.example.com"), None);
        assert_eq!(group(&registry, ""), None);
    }
}
