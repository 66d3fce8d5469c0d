//! What a request does: its verb, and the object or the kind that it is about.

use std::fmt;

use http::{Method, Request};

/// A request, as the simulation sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) verb: &'static str,
    /// The plural, and the group after a dot, if it has one. Empty for discovery.
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// The path of all objects of the kind.
    pub(crate) collection: String,
}

impl Call {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let (uri, method) = (request.uri(), request.method());
        let mut parts = uri.path().trim_matches('/').split('/');
        let (group, path) = match (parts.next(), parts.next(), parts.clone().next()) {
            (Some("api"), Some(version), _) => ("", format!("/api/{version}")),
            (Some("apis"), Some(group), Some(version)) => {
                parts.next();
                (group, format!("/apis/{group}/{version}"))
            }
            _ => return Self::other(uri.path()),
        };
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = "";
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            namespace = rest[1];
            rest.drain(..2);
        }
        let Some(plural) = rest.first() else { return Self::other(uri.path()) };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let (name, subresource) = (part(1), part(2));
        let watches = query_of(request, "watch").is_some_and(|value| value != "false");
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ if watches => "watch",
            _ if name.is_empty() => "list",
            _ => "get",
        };
        let kind =
            if group.is_empty() { (*plural).to_owned() } else { format!("{plural}.{group}") };
        let (namespace, collection) = (namespace.to_owned(), format!("{path}/{plural}"));
        Self { verb, kind, namespace, name, subresource, collection }
    }

    fn other(path: &str) -> Self {
        let empty = String::new;
        let (kind, namespace, name) = (empty(), empty(), path.to_owned());
        Self { verb: "get", kind, namespace, name, subresource: empty(), collection: empty() }
    }

    pub(crate) fn writes(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch") && !self.is_question()
    }

    /// Whether it only asks whether something is allowed.
    fn is_question(&self) -> bool {
        self.kind.ends_with("reviews.authorization.k8s.io")
    }

    /// Whether it belongs into a story.
    pub(crate) fn is_told(&self) -> bool {
        !self.is_background() && !self.is_question()
    }

    /// Whether it is about what every operator writes by the way: events, and the Lease. Neither is
    /// judged, and writing one is no point for a fault.
    pub(crate) fn is_background(&self) -> bool {
        is_background(&self.kind)
    }
}

/// Whether objects of this kind are not judged.
pub(crate) fn is_background(kind: &str) -> bool {
    matches!(kind, "events" | "events.events.k8s.io" | "leases.coordination.k8s.io")
}

/// Returns the value of a query parameter.
pub(crate) fn query_of<'a, B>(request: &'a Request<B>, name: &str) -> Option<&'a str> {
    let pairs = request.uri().query().unwrap_or_default().split('&');
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verb)?;
        if !self.kind.is_empty() {
            write!(f, " {}", self.kind)?;
        }
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, "") => write!(f, " in {namespace}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(method: Method, uri: &str) -> String {
        Call::of(&Request::builder().method(method).uri(uri).body(()).expect("a request"))
            .to_string()
    }

    #[test]
    fn requests_are_told_in_the_words_of_roles() {
        assert_eq!(told(Method::GET, "/api/v1/pods?watch=true"), "watch pods");
        assert_eq!(told(Method::GET, "/api/v1/namespaces/shop"), "get namespaces shop");
        assert_eq!(told(Method::GET, "/api/v1/namespaces/shop/pods?limit=5"), "list pods in shop");
        let scale = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
        assert_eq!(told(Method::PATCH, scale), "patch deployments.apps/scale shop/web");
        assert_eq!(told(Method::DELETE, "/api/v1/nodes"), "deletecollection nodes");
        assert_eq!(told(Method::GET, "/version"), "get /version");
    }
}
