//! What a request does, told by its method and path as the API server tells it.

use http::{Method, Request};

/// The verb of a request, as access rules and the server's own metrics name it: `get`, `list`, `watch`,
/// `create`, `update`, `patch`, `delete`, `deletecollection`, or `other`.
pub(super) fn verb_of<B>(request: &Request<B>) -> &'static str {
    let of_collection = is_of_collection(request.uri().path());
    match *request.method() {
        Method::GET if is_watch(request) => "watch",
        Method::GET if of_collection => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if of_collection => "deletecollection",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// Whether it is a watch.
pub(super) fn is_watch<B>(request: &Request<B>) -> bool {
    has_switch(request, "watch")
}

/// Whether its body may pause for as long as it likes: a watch, or logs that are followed.
pub(super) fn is_endless<B>(request: &Request<B>) -> bool {
    is_watch(request) || has_switch(request, "follow")
}

/// Whether a parameter is there and true, in any of the forms that the server takes.
fn has_switch<B>(request: &Request<B>, wanted: &str) -> bool {
    let query = request.uri().query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
        name == wanted && !matches!(&*value.to_ascii_lowercase(), "false" | "0")
    })
}

/// Whether a path ends at a plural: `/api/v1/pods`, `/apis/apps/v1/namespaces/shop/deployments`.
fn is_of_collection(path: &str) -> bool {
    let mut parts = path.trim_start_matches('/').split('/');
    let skipped = match parts.next() {
        Some("api") => parts.next(),
        Some("apis") => parts.next().and_then(|_| parts.next()),
        _ => return false,
    };
    let rest: Vec<&str> = parts.collect();
    let rest = match *rest {
        // These two belong to a namespace itself.
        ["namespaces", _, "status" | "finalize"] => return false,
        ["namespaces", _, _, ..] => &rest[2..],
        _ => &rest[..],
    };
    skipped.is_some() && rest.len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verb(method: &str, uri: &str) -> &'static str {
        verb_of(&Request::builder().method(method).uri(uri).body(()).expect("a request"))
    }

    #[test]
    fn verbs_are_those_of_the_server() {
        for (method, uri, wanted) in [
            ("GET", "/api/v1/pods?limit=500", "list"),
            ("GET", "/api/v1/namespaces/a/pods", "list"),
            ("GET", "/api/v1/namespaces/a/pods/x", "get"),
            ("GET", "/api/v1/namespaces/a/pods/x/log?follow=true", "get"),
            ("GET", "/api/v1/namespaces", "list"),
            ("GET", "/api/v1/namespaces/a", "get"),
            ("GET", "/api/v1/namespaces/a/status", "get"),
            ("GET", "/apis/apps/v1/deployments?watch=true", "watch"),
            ("GET", "/apis/apps/v1/deployments?watch=1&x=y", "watch"),
            ("GET", "/apis/apps/v1/deployments?watch=false", "list"),
            ("GET", "/apis/apps/v1/deployments?fieldSelector=watch%3Dtrue", "list"),
            ("GET", "/apis/apps/v1", "get"),
            ("GET", "/version", "get"),
            ("POST", "/api/v1/namespaces/a/pods", "create"),
            ("PUT", "/api/v1/namespaces/a/pods/x", "update"),
            ("PATCH", "/api/v1/namespaces/a/pods/x/status", "patch"),
            ("DELETE", "/api/v1/namespaces/a/pods/x", "delete"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection"),
            ("OPTIONS", "/api", "other"),
        ] {
            assert_eq!(verb(method, uri), wanted, "{method} {uri}");
        }
    }
}
