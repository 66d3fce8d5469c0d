//! What a request does and to which object, read from its method and path as the API server reads
//! them.
//!
//! `PATCH /apis/apps/v1/namespaces/shop/deployments/web/status` patches the status of the
//! Deployment `web`.

use std::fmt;

use http::{Method, Request};
use windlass_indexer::{KeyRef, ObjectKey};

use crate::resource::Resource;

/// The verb of a request, and its resource and object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// As RBAC rules and the metrics of the API server name it: `get`, `list`, `watch`, `create`,
    /// `update`, `patch`, `delete`, `deletecollection`, or `other`.
    pub verb: &'static str,
    /// `None` for a path such as `/version`.
    pub target: Option<RequestTarget>,
    path: String,
}

/// A resource, and as far as the path has them, an object of it and a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget {
    /// The group; empty for the core group.
    pub group: String,
    /// The plural, as in `pods`.
    pub plural: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name of the object. The path of a create has none.
    pub name: Option<String>,
    /// As in `status`.
    pub subresource: Option<String>,
}

/// The name of the object that a request creates, as an extension of the request.
#[derive(Clone, Debug)]
pub struct CreatedName(pub String);

impl RequestInfo {
    /// Reads the method, the path and the query of a request.
    pub fn of<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        let mut target = RequestTarget::of(path);
        let is_collection = target.as_ref().is_some_and(|target| target.name.is_none());
        let verb = match *request.method() {
            Method::GET if has_switch(request, "watch") => "watch",
            Method::GET if is_collection => "list",
            Method::GET => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if is_collection => "deletecollection",
            Method::DELETE => "delete",
            _ => "other",
        };
        if let (Some(target), Some(CreatedName(name))) =
            (&mut target, request.extensions().get::<CreatedName>())
        {
            target.name.get_or_insert_with(|| name.clone());
        }
        Self { verb, target, path: path.to_owned() }
    }
}

impl RequestTarget {
    /// Reads a path. Names are not unescaped: Kubernetes allows nothing in them that has to be
    /// escaped, except for a few kinds that no controller writes.
    pub fn of(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
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
        // A namespace itself is `namespaces/shop`, and these are its subresources.
        let is_namespaced = matches!(rest[..], ["namespaces", _, second, ..]
            if !(group.is_empty() && matches!(second, "status" | "finalize")));
        let namespace = is_namespaced.then(|| rest[1].to_owned());
        if is_namespaced {
            rest.drain(..2);
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

    /// The object, if it is named.
    pub fn key(&self) -> Option<ObjectKey> {
        let name = self.name.as_deref()?;
        Some(KeyRef::new(self.namespace.as_deref(), name).into())
    }

    /// Whether the target is of this resource, in any version of its group.
    pub fn is_of(&self, resource: &Resource) -> bool {
        self.group == resource.group() && self.plural == resource.plural()
    }

    /// Whether the API server proxies the request to a kubelet, a pod or a service. The answer is
    /// not an object, and may be endless.
    pub fn is_proxied(&self) -> bool {
        let subresource = self.subresource.as_deref().unwrap_or_default();
        matches!(subresource, "proxy" | "exec" | "attach" | "portforward" | "log")
    }
}

/// Whether the body of the answer may pause for any time: a watch, or logs that are followed.
pub(super) fn is_endless<B>(request: &Request<B>) -> bool {
    has_switch(request, "watch") || has_switch(request, "follow")
}

/// Whether a query parameter is set and true, in any of the forms that the server takes.
fn has_switch<B>(request: &Request<B>, wanted: &str) -> bool {
    let query = request.uri().query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
        name == wanted && !matches!(&*value.to_ascii_lowercase(), "false" | "0")
    })
}

impl fmt::Display for RequestInfo {
    /// As in `patch deployments.apps/status shop/web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Some(target) => write!(f, "{} {target}", self.verb),
            None => write!(f, "{} {}", self.verb, self.path),
        }
    }
}

impl fmt::Display for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (Some(namespace), None) => write!(f, " in {namespace}"),
            (None, Some(name)) => write!(f, " {name}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, uri: &str) -> String {
        let request = Request::builder().method(method).uri(uri).body(()).expect("a request");
        RequestInfo::of(&request).to_string()
    }

    #[test]
    fn verbs_and_targets_are_those_of_the_server() {
        for (method, uri, wanted) in [
            ("GET", "/api/v1/pods?limit=500", "list pods"),
            ("GET", "/api/v1/namespaces/a/pods", "list pods in a"),
            ("GET", "/api/v1/namespaces/a/pods/x", "get pods a/x"),
            ("GET", "/api/v1/namespaces/a/pods/x/log?follow=true", "get pods/log a/x"),
            ("GET", "/api/v1/namespaces", "list namespaces"),
            ("GET", "/api/v1/namespaces/a", "get namespaces a"),
            ("GET", "/api/v1/namespaces/a/status", "get namespaces/status a"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize a"),
            ("GET", "/apis/apps/v1/deployments?watch=true", "watch deployments.apps"),
            ("GET", "/apis/apps/v1/deployments?watch=1&x=y", "watch deployments.apps"),
            ("GET", "/apis/apps/v1/deployments?watch=false", "list deployments.apps"),
            ("GET", "/apis/apps/v1/pods?fieldSelector=watch%3Dtrue", "list pods.apps"),
            ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("GET", "/version", "get /version"),
            ("POST", "/api/v1/namespaces/a/pods", "create pods in a"),
            ("PUT", "/behind/a/proxy/api/v1/nodes/one", "update nodes one"),
            ("PATCH", "/api/v1/namespaces/a/pods/x/status", "patch pods/status a/x"),
            ("DELETE", "/api/v1/namespaces/a/pods/x", "delete pods a/x"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection pods in a"),
            ("OPTIONS", "/api", "other /api"),
        ] {
            assert_eq!(info(method, uri), wanted, "{method} {uri}");
        }
    }

    #[test]
    fn requests_to_other_servers_are_told_by_their_subresource() {
        let is_proxied = |path: &str| RequestTarget::of(path).expect("a target").is_proxied();
        for way in ["proxy", "proxy/api/v1/nodes/one", "exec", "attach", "portforward", "log"] {
            assert!(is_proxied(&format!("/api/v1/namespaces/shop/pods/web/{way}")), "{way}");
        }
        // These are only names.
        assert!(!is_proxied("/api/v1/namespaces/log/pods/proxy"));
        assert!(!is_proxied("/api/v1/nodes/exec/status"));
    }

    #[test]
    fn name_of_an_object_to_be_created_can_be_told() {
        let mut request = Request::post("/api/v1/namespaces/a/pods").body(()).expect("a request");
        request.extensions_mut().insert(CreatedName("x".to_owned()));
        assert_eq!(RequestInfo::of(&request).to_string(), "create pods a/x");
    }
}
