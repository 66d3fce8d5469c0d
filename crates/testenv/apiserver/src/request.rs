//! The attributes of a request in Kubernetes terms, for access rules, fault rules and the log.

use http::Method;

use crate::query::Query;
use crate::rbac::rule::{AccessTarget, Attributes};
use crate::route::ResourcePath;

/// The verb of a request and the resource that it is about. Texts are empty if they do not apply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// The API group; the core group is empty.
    pub group: String,
    /// The plural, as in `pods`.
    pub resource: String,
    /// The subresource, as in `status`.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl RequestInfo {
    pub(crate) fn new(method: &Method, path: &ResourcePath, query: &Query) -> Self {
        Self {
            verb: verb(method, path.name.is_empty(), query.watch && path.name.is_empty()),
            group: path.group.clone(),
            resource: path.plural.clone(),
            subresource: path.subresource.clone(),
            // For authorization, a namespace belongs to itself.
            namespace: if path.group.is_empty() && path.plural == "namespaces" {
                path.name.clone()
            } else {
                path.namespace.clone()
            },
            name: path.name.clone(),
        }
    }

    /// Returns the attributes for authorization. `selected` is the name of the object if a field
    /// selector limits a list or watch to one.
    pub(crate) fn attributes<'a>(&'a self, selected: Option<&'a str>) -> Attributes<'a> {
        Attributes {
            verb: self.verb,
            on: AccessTarget::Resource {
                group: &self.group,
                resource: &self.resource,
                subresource: &self.subresource,
                namespace: &self.namespace,
                name: selected.unwrap_or(&self.name),
            },
        }
    }

    /// Returns the resource with its group, as in `deployments.apps`.
    pub(crate) fn resource_name(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.resource, self.group)
    }

    /// Returns the attributes of a request for a path that is not about a resource, such as
    /// `/version`.
    pub(crate) fn other(method: &Method) -> Self {
        Self { verb: verb(method, false, false), ..Self::default() }
    }
}

fn verb(method: &Method, collection: bool, watch: bool) -> &'static str {
    match *method {
        Method::GET | Method::HEAD if watch => "watch",
        Method::GET | Method::HEAD if collection => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if collection => "deletecollection",
        Method::DELETE => "delete",
        _ => "",
    }
}
