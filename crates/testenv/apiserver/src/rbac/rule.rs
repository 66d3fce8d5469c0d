//! One rule of a role, and what it allows: pure functions of a rule and a request.

use serde_json::{Map, Value};

use crate::field_error::go_quote;

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// The attributes of a request that authorization needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) on: AccessTarget<'a>,
}

/// The target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessTarget<'a> {
    /// An object, a subresource, or a collection. Texts are empty if they do not apply.
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    /// A path that is not about a resource, such as `/version`.
    Path(&'a str),
}

/// A rule of a role.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PolicyRule {
    pub(crate) verbs: Vec<String>,
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
    pub(crate) non_resource_urls: Vec<String>,
}

/// Matches every verb, group, resource or path.
pub(super) const ALL: &str = "*";

impl Attributes<'_> {
    /// Returns the namespace of the request; empty for none or all.
    pub(crate) fn namespace(&self) -> &str {
        match self.on {
            AccessTarget::Resource { namespace, .. } => namespace,
            AccessTarget::Path(_) => "",
        }
    }
}

impl PolicyRule {
    /// Reads the rules of a stored role. Fields of the wrong type allow nothing.
    pub(crate) fn list(role: &Map<String, Value>) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::read).collect()
    }

    fn read(rule: &Value) -> Self {
        let texts = |field: &str| {
            let list = rule.get(field).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            non_resource_urls: texts("nonResourceURLs"),
        }
    }

    /// Returns whether the rule allows a request.
    pub(crate) fn allows(&self, request: &Attributes<'_>) -> bool {
        has(&self.verbs, request.verb)
            && match request.on {
                AccessTarget::Path(path) => {
                    self.non_resource_urls.iter().any(|url| url_covers(url, path))
                }
                AccessTarget::Resource { group, resource, subresource, name, .. } => {
                    has(&self.api_groups, group)
                        && self.names_resource(resource, subresource)
                        && self.names_object(name)
                }
            }
    }

    fn names_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|named| {
            named == ALL
                || is_joined(named, resource, subresource)
                || !subresource.is_empty() && named.strip_prefix("*/") == Some(subresource)
        })
    }

    /// A rule without names applies to every object, also to objects without a name yet.
    fn names_object(&self, name: &str) -> bool {
        self.resource_names.is_empty() || self.resource_names.iter().any(|named| named == name)
    }
}

/// Renders a list of texts as Go's `%q` does.
pub(crate) fn quoted_list<S: AsRef<str>>(list: &[S]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| go_quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == ALL || one == wanted)
}

/// Returns whether a text is `resource/subresource`, or `resource` if there is no subresource.
fn is_joined(text: &str, resource: &str, subresource: &str) -> bool {
    if subresource.is_empty() {
        return text == resource;
    }
    let part = text.strip_prefix(resource).and_then(|rest| rest.strip_prefix('/'));
    part == Some(subresource)
}

/// Returns whether a pattern covers a path. A trailing star covers everything with this prefix.
pub(super) fn url_covers(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'))
}
