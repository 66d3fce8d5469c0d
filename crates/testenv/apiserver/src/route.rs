//! Parses paths, without checking whether the resource exists.

use percent_encoding::percent_decode_str;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/healthz`, `/livez`, `/readyz` and the paths below them.
    Health,
    /// `/version`
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`
    GroupVersion { group: String, version: String },
    /// `/openapi/v3`
    OpenApi,
    /// `/openapi/v3/api/v1` or `/openapi/v3/apis/GROUP/VERSION`. Other paths below `/openapi/v3`
    /// have an empty version.
    OpenApiDocument { group: String, version: String },
    /// A resource in a group and version.
    Resource(ResourcePath),
    /// `/api/v1/watch/…`, which clients no longer use.
    LegacyWatch,
    /// A path that no API server has.
    Unknown,
}

/// A collection, an object or a subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty: cluster-scoped, or all namespaces.
    pub(crate) namespace: String,
    pub(crate) plural: String,
    /// Empty: the collection.
    pub(crate) name: String,
    /// Empty: the object itself.
    pub(crate) subresource: String,
}

/// The segments after `/api/v1/namespaces/NAME/` that are subresources of the namespace, and not
/// resources in it.
const NAMESPACE_PARTS: [&str; 2] = ["status", "finalize"];

impl Route {
    pub(crate) fn parse(path: &str) -> Self {
        // As in Go, an encoded slash counts as a slash.
        let Ok(path) = percent_decode_str(path).decode_utf8() else { return Self::Unknown };
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match segments.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["version"] => Self::Version,
            ["api"] => Self::CoreVersions,
            ["api", version] => Self::group_version("", version),
            ["api", _, "watch", ..] | ["apis", _, _, "watch", ..] => Self::LegacyWatch,
            ["api", version, rest @ ..] => Self::resource("", version, rest),
            ["openapi", "v3"] => Self::OpenApi,
            ["openapi", "v3", "api", version] => Self::openapi_document("", version),
            ["openapi", "v3", "apis", group, version] => Self::openapi_document(group, version),
            ["openapi", "v3", ..] => Self::openapi_document("", ""),
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version] => Self::group_version(group, version),
            ["apis", group, version, rest @ ..] => Self::resource(group, version, rest),
            _ => Self::Unknown,
        }
    }

    fn group_version(group: &str, version: &str) -> Self {
        Self::GroupVersion { group: group.to_owned(), version: version.to_owned() }
    }

    fn openapi_document(group: &str, version: &str) -> Self {
        Self::OpenApiDocument { group: group.to_owned(), version: version.to_owned() }
    }

    fn resource(group: &str, version: &str, rest: &[&str]) -> Self {
        let (namespace, plural, name, subresource) = match rest {
            ["namespaces", name, part] if NAMESPACE_PARTS.contains(part) => {
                ("", "namespaces", *name, *part)
            }
            ["namespaces", namespace, plural] => (*namespace, *plural, "", ""),
            ["namespaces", namespace, plural, name] => (*namespace, *plural, *name, ""),
            ["namespaces", namespace, plural, name, part] => (*namespace, *plural, *name, *part),
            [plural] => ("", *plural, "", ""),
            [plural, name] => ("", *plural, *name, ""),
            [plural, name, part] => ("", *plural, *name, *part),
            _ => return Self::Unknown,
        };
        let empty_segment = rest.iter().any(|segment| segment.is_empty());
        if empty_segment {
            return Self::Unknown;
        }
        Self::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            plural: plural.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> [String; 6] {
        match Route::parse(path) {
            Route::Resource(r) => {
                [r.group, r.version, r.namespace, r.plural, r.name, r.subresource]
            }
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn collections_objects_and_subresources_are_distinguished() {
        assert_eq!(resource("/api/v1/pods"), ["", "v1", "", "pods", "", ""]);
        assert_eq!(resource("/api/v1/namespaces/a/pods"), ["", "v1", "a", "pods", "", ""]);
        assert_eq!(resource("/api/v1/namespaces/a/pods/p"), ["", "v1", "a", "pods", "p", ""]);
        assert_eq!(
            resource("/apis/apps/v1/namespaces/a/deployments/d/scale"),
            ["apps", "v1", "a", "deployments", "d", "scale"]
        );
        assert_eq!(resource("/apis/g.dev/v2/gadgets/x"), ["g.dev", "v2", "", "gadgets", "x", ""]);
    }

    #[test]
    fn a_namespace_is_itself_a_resource() {
        assert_eq!(resource("/api/v1/namespaces"), ["", "v1", "", "namespaces", "", ""]);
        assert_eq!(resource("/api/v1/namespaces/a"), ["", "v1", "", "namespaces", "a", ""]);
        assert_eq!(
            resource("/api/v1/namespaces/a/finalize"),
            ["", "v1", "", "namespaces", "a", "finalize"]
        );
    }

    #[test]
    fn unusual_paths_are_unknown() {
        for path in
            ["/", "", "/foo", "/api/v1/namespaces/a//b", "/apis/g/v/a/b/c/d/e/f", "/api/v1/%ff"]
        {
            assert_eq!(Route::parse(path), Route::Unknown, "{path}");
        }
    }

    #[test]
    fn names_are_decoded_and_an_encoded_slash_is_a_slash() {
        assert_eq!(
            resource("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode"),
            ["rbac.authorization.k8s.io", "v1", "", "clusterroles", "system:node", ""]
        );
        assert_eq!(resource("/api/v1/namespaces/a%2Fpods"), ["", "v1", "a", "pods", "", ""]);
    }
}
