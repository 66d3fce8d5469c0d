//! Which requests pass in a plan.
//!
//! What passes is listed: reads that are known to change nothing, and writes that Kubernetes can
//! make as dry runs. Everything else is refused, whatever its verb: `exec` is a GET, and what a
//! subresource of somebody's own API does is not known.

use http::header::UPGRADE;
use http::{Method, Request};
use windlass_informer::client::RequestTarget;

/// A request that passes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlanRequest {
    /// It changes nothing, and is sent as it is.
    Read,
    /// It is sent as a dry run.
    Write(Write),
    /// It deletes all objects of a collection that it selects. It is not sent.
    DeleteCollection(RequestTarget),
    /// It asks for a credential, which a server may issue in a dry run, too. It is not sent.
    Credential,
}

/// A write of one object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) kind: WriteKind,
    pub(super) target: RequestTarget,
    /// Where the object is read, before and after: the same as the write in most cases. The path of
    /// a create is that of the collection.
    pub(super) object_path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteKind {
    Create,
    /// An update or a patch, which may create the object.
    Change,
    Delete,
    /// The eviction of a pod.
    Evict,
}

/// What can be read of an object besides itself.
const READABLE: [&str; 6] = ["status", "scale", "log", "approval", "ephemeralcontainers", "resize"];

/// What can be updated and patched of an object besides itself.
const WRITABLE: [&str; 5] = ["status", "scale", "approval", "ephemeralcontainers", "resize"];

/// First path segments of requests that read something other than objects.
const NO_OBJECTS: [&str; 7] = ["version", "openapi", "healthz", "livez", "readyz", "api", "apis"];

/// Questions, which are asked by a create that stores nothing: groups and resources.
const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

impl PlanRequest {
    /// Decides what to do with a request; `None` if it is refused.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        let path = request.uri().path();
        let segments = segments(path)?;
        if request.headers().contains_key(UPGRADE) {
            return None;
        }
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let Some(target) = RequestTarget::of(path) else {
            let is_known = NO_OBJECTS.contains(segments.first()?);
            return (is_read && is_known).then_some(Self::Read);
        };
        if !matches!(segments[0], "api" | "apis") || !is_whole(&target, &segments) {
            return None;
        }
        let subresource = target.subresource.as_deref();
        let is_core = target.group.is_empty();
        // The oldest form of a request to a pod.
        if is_core && target.plural == "proxy" {
            return None;
        }
        let kind = match *request.method() {
            _ if is_read => {
                let is_known = subresource.is_none_or(|name| READABLE.contains(&name));
                return is_known.then_some(Self::Read);
            }
            Method::POST => match (target.name.as_deref(), subresource) {
                (None, _) if is_review(&target) => return Some(Self::Read),
                // Binds a pod, and its answer says nothing about that.
                (None, _) if is_core && target.plural == "bindings" => return None,
                (None, _) => WriteKind::Create,
                (Some(_), Some("token")) if is_core && target.plural == "serviceaccounts" => {
                    return Some(Self::Credential);
                }
                (Some(_), Some("eviction")) if is_core && target.plural == "pods" => {
                    WriteKind::Evict
                }
                (Some(_), _) => return None,
            },
            Method::PUT | Method::PATCH => {
                target.name.as_ref()?;
                let is_namespace = is_core && target.plural == "namespaces";
                let is_known = subresource.is_none_or(|name| {
                    WRITABLE.contains(&name) || (is_namespace && name == "finalize")
                });
                if !is_known {
                    return None;
                }
                WriteKind::Change
            }
            Method::DELETE if subresource.is_some() => return None,
            Method::DELETE if target.name.is_none() => return Some(Self::DeleteCollection(target)),
            Method::DELETE => WriteKind::Delete,
            _ => return None,
        };
        // A scale is an object of its own. Other subresources are parts of the object, which more
        // accounts may read.
        let object_path = match subresource {
            Some(name) if name != "scale" => path.strip_suffix(name)?.trim_end_matches('/'),
            _ => path,
        };
        Some(Self::Write(Write { kind, object_path: object_path.to_owned(), target }))
    }
}

/// The segments of a path. `None` if it has another form than those that Kubernetes clients send:
/// servers may read such a path in another way than it is read here.
fn segments(path: &str) -> Option<Vec<&str>> {
    let segments: Vec<_> = path.strip_prefix('/')?.split('/').collect();
    let is_odd = |segment: &&str| matches!(*segment, "" | "." | "..") || segment.contains('%');
    (!segments.iter().any(is_odd)).then_some(segments)
}

/// Whether a target has all that the path has.
fn is_whole(target: &RequestTarget, segments: &[&str]) -> bool {
    let head = if target.group.is_empty() { 2 } else { 3 };
    let namespace = if target.namespace.is_some() { 2 } else { 0 };
    let object = 1 + usize::from(target.name.is_some()) + usize::from(target.subresource.is_some());
    segments.len() == head + namespace + object
}

fn is_review(target: &RequestTarget) -> bool {
    REVIEWS.contains(&(&*target.group, &*target.plural))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str) -> Request<()> {
        Request::builder().method(method).uri(uri).body(()).expect("a request")
    }

    fn outcome(method: &str, uri: &str) -> String {
        match PlanRequest::of(&request(method, uri)) {
            None => "refused".to_owned(),
            Some(PlanRequest::Read) => "read".to_owned(),
            Some(PlanRequest::Credential) => "credential".to_owned(),
            Some(PlanRequest::DeleteCollection(_)) => "list".to_owned(),
            Some(PlanRequest::Write(write)) => format!("{:?} {}", write.kind, write.object_path),
        }
    }

    #[test]
    fn known_reads_pass() {
        for (method, uri) in [
            ("GET", "/api/v1/namespaces/a/pods/x"),
            ("HEAD", "/api/v1/namespaces/a/pods/x"),
            ("GET", "/api/v1/namespaces/a"),
            ("GET", "/api/v1/namespaces/a/status"),
            ("GET", "/api/v1/pods?limit=500"),
            ("GET", "/apis/apps/v1/deployments?watch=true"),
            ("GET", "/api/v1/namespaces/a/pods/x/log?follow=true"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/x/scale"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/x/status"),
            ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node"),
            ("GET", "/api/v1/namespaces/log/pods/proxy"),
            ("GET", "/version"),
            ("GET", "/api"),
            ("GET", "/api/v1"),
            ("GET", "/apis"),
            ("GET", "/apis/apps"),
            ("GET", "/apis/apps/v1"),
            ("GET", "/openapi/v3/apis/apps/v1"),
            ("GET", "/readyz/etcd"),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
            ("POST", "/apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews"),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ] {
            assert_eq!(outcome(method, uri), "read", "{method} {uri}");
        }
        let token = "/api/v1/namespaces/a/serviceaccounts/x/token";
        assert_eq!(outcome("POST", token), "credential");
    }

    #[test]
    fn what_reaches_into_a_pod_or_is_not_known_is_refused_in_any_verb() {
        for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "CONNECT"] {
            for path in [
                "/api/v1/namespaces/a/pods/x/exec?command=reboot",
                "/api/v1/namespaces/a/pods/x/attach",
                "/api/v1/namespaces/a/pods/x/portforward",
                "/api/v1/namespaces/a/pods/x/proxy",
                "/api/v1/namespaces/a/pods/x/proxy/quit",
                "/api/v1/namespaces/a/services/x/proxy/admin",
                "/api/v1/nodes/x/proxy/run/a/b/c",
                "/api/v1/proxy/nodes/x",
                "/api/v1/namespaces/a/pods/x/binding",
                // The server reads these as `exec`.
                "/api/v1/namespaces/a/pods/x%2Fexec",
                "/api/v1/namespaces/a/pods/x/%65xec",
                "/api/v1/namespaces/a/pods/x/y/../exec",
                "/api/v1/namespaces/a/pods//x/exec",
                "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/x/start",
                "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/x/vnc",
                "/api/v1/namespaces/a/pods/x/status/more",
                "/behind/api/v1/pods",
                "/debug/flags/v",
                "/metrics",
                "/",
            ] {
                assert_eq!(outcome(method, path), "refused", "{method} {path}");
            }
        }
        for (method, uri) in [
            ("POST", "/api/v1/namespaces/a/pods/x/log"),
            ("POST", "/api/v1/namespaces/a/bindings"),
            ("POST", "/api/v1/namespaces/a/pods/x"),
            ("PUT", "/api/v1/namespaces/a/pods"),
            ("PUT", "/apis/example.com/v1/namespaces/a/shops/x/finalize"),
            ("DELETE", "/api/v1/namespaces/a/pods/x/status"),
            ("POST", "/version"),
            ("OPTIONS", "/api/v1/pods"),
        ] {
            assert_eq!(outcome(method, uri), "refused", "{method} {uri}");
        }
        let mut upgrade = request("GET", "/api/v1/pods?watch=true");
        upgrade.headers_mut().insert(UPGRADE, "websocket".parse().expect("a value"));
        assert_eq!(PlanRequest::of(&upgrade), None);
    }

    #[test]
    fn write_is_a_dry_run_and_says_where_its_object_is() {
        for (method, uri, wanted) in [
            ("POST", "/api/v1/namespaces/a/pods", "Create /api/v1/namespaces/a/pods"),
            ("POST", "/api/v1/namespaces", "Create /api/v1/namespaces"),
            ("PUT", "/api/v1/namespaces/a/pods/x", "Change /api/v1/namespaces/a/pods/x"),
            ("PATCH", "/api/v1/namespaces/a/pods/x/status", "Change /api/v1/namespaces/a/pods/x"),
            (
                "PATCH",
                "/api/v1/namespaces/a/pods/status",
                "Change /api/v1/namespaces/a/pods/status",
            ),
            ("PATCH", "/apis/b/v1/shops/x/scale", "Change /apis/b/v1/shops/x/scale"),
            ("PUT", "/api/v1/namespaces/a/finalize", "Change /api/v1/namespaces/a"),
            ("DELETE", "/api/v1/nodes/x?dryRun=All", "Delete /api/v1/nodes/x"),
            ("POST", "/api/v1/namespaces/a/pods/x/eviction", "Evict /api/v1/namespaces/a/pods/x"),
            ("DELETE", "/api/v1/namespaces/a/pods?labelSelector=a", "list"),
        ] {
            assert_eq!(outcome(method, uri), wanted, "{method} {uri}");
        }
    }
}
