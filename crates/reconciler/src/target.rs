//! What a request is about, as its path tells.
//!
//! `/api/v1/namespaces/shop/pods/web-1/status` is the status of the pod `web-1`. Paths that are about no object, as
//! those of discovery, are nobody's.

use windlass_indexer::ObjectKey;
use windlass_informer::Resource;

/// The resource, and as far as the path has them the object and its subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The group; empty for the core group.
    pub(crate) group: String,
    /// The plural, as in `pods`.
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    /// As in `status`.
    pub(crate) subresource: Option<String>,
}

impl Target {
    /// What a path is about; `None` if it leads [to another server](is_way_through). Names in paths
    /// are not escaped: Kubernetes allows nothing in them that has to be, but for a few kinds that
    /// nobody writes from a controller.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        // A server may be behind a prefix.
        let group = loop {
            match parts.next()? {
                "api" => break "",
                "apis" => break parts.next()?,
                _ => {}
            }
        };
        parts.next()?; // the version
        let mut rest: Vec<&str> = parts.collect();
        // A namespace itself is `namespaces/shop`, and its subresources are these.
        let is_within = matches!(rest[..], ["namespaces", _, second, ..]
            if !(group.is_empty() && matches!(second, "status" | "finalize")));
        let namespace = is_within.then(|| rest[1].to_owned());
        if is_within {
            rest.drain(..2);
        }
        if rest.get(2).is_some_and(|subresource| is_way_through(subresource)) {
            return None;
        }
        let mut rest = rest.into_iter().map(str::to_owned);
        Some(Self {
            group: group.to_owned(),
            plural: rest.next()?,
            namespace,
            name: rest.next(),
            subresource: rest.next(),
        })
    }

    /// Whether it is of this resource, in whatever version of its group.
    pub(crate) fn is_of(&self, resource: &Resource) -> bool {
        self.group == resource.group() && self.plural == resource.plural()
    }

    /// The object, if the path names one.
    pub(crate) fn key(&self) -> Option<ObjectKey> {
        let name = self.name.as_deref()?;
        Some(match &self.namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(name),
        })
    }
}

/// Whether what is sent to a subresource goes to somebody else. What comes back need not end, and is no object.
fn is_way_through(subresource: &str) -> bool {
    matches!(subresource, "proxy" | "exec" | "attach" | "portforward" | "log")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str) -> Option<String> {
        let target = Target::of(path)?;
        let show = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        let (namespace, name) = (show(target.namespace), show(target.name));
        Some(format!(
            "{}|{}|{namespace}|{name}|{}",
            target.group,
            target.plural,
            show(target.subresource)
        ))
    }

    #[test]
    fn objects_in_namespaces_and_of_the_cluster() {
        let cases = [
            ("/api/v1/namespaces/shop/pods/web/status", "|pods|shop|web|status"),
            ("/api/v1/namespaces/shop/pods", "|pods|shop|-|-"),
            ("/apis/apps/v1/namespaces/shop/deployments/web", "apps|deployments|shop|web|-"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/x",
                "rbac.authorization.k8s.io|clusterroles|-|x|-",
            ),
            ("/api/v1/namespaces/shop", "|namespaces|-|shop|-"),
            ("/api/v1/namespaces/shop/finalize", "|namespaces|-|shop|finalize"),
            ("/api/v1/nodes/one/status", "|nodes|-|one|status"),
            ("/behind/a/proxy/api/v1/nodes/one", "|nodes|-|one|-"),
        ];
        for (path, expected) in cases {
            assert_eq!(told(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn other_paths_are_about_nothing() {
        for path in ["/version", "/api", "/apis/apps/v1", "/openapi/v3", ""] {
            assert_eq!(told(path), None, "{path}");
        }
    }

    #[test]
    fn ways_to_other_servers_are_about_nothing() {
        for way in ["proxy", "proxy/api/v1/nodes/one", "exec", "attach", "portforward", "log"] {
            let path = format!("/api/v1/namespaces/shop/pods/web/{way}");
            assert_eq!(told(&path), None, "{path}");
        }
        // These are only names.
        assert!(told("/api/v1/namespaces/log/pods/proxy").is_some());
        assert!(told("/api/v1/nodes/exec/status").is_some());
    }
}
