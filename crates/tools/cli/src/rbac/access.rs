//! A right: a verb on a resource or a URL, in the whole cluster or in a namespace.

use std::fmt;

/// The verbs, in the order in which rules list them.
const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The wildcard of rules.
const ANY: &str = "*";

/// A right. Ordered by scope, group, resource, name and verb.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Access {
    pub(super) scope: Scope,
    pub(super) target: Target,
    /// The name of the object; `None` for all objects.
    pub(super) name: Option<String>,
    pub(super) verb: Verb,
}

/// The target of a right. A wildcard of one variant never includes the other:
/// `nonResourceURLs: ["*"]` grants no resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Resource {
        /// The API group; empty for the core group.
        group: String,
        /// The resource with its subresource, as in `deployments/status`.
        resource: String,
    },
    /// A non-resource URL, such as `/metrics`. Rules may grant it, but it is never needed.
    Url(String),
}

/// Where a right applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Cluster,
    Namespace(String),
}

/// A verb; ordered as in rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verb(pub(super) String);

impl Access {
    /// Whether this right includes `other`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.scope.includes(&other.scope)
            && self.is_about(other)
            && (self.name.is_none() || self.name == other.name)
    }

    /// Whether both name the same object, in the same scope.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        other.name.is_some() && self.name == other.name && self.scope == other.scope
    }

    /// Whether this includes the target and the verb of `other`. Scopes and names are ignored.
    pub(super) fn is_about(&self, other: &Self) -> bool {
        self.target.includes(&other.target) && is_in(&self.verb.0, &other.verb.0)
    }
}

impl Target {
    pub(super) fn resource(group: &str, resource: &str) -> Self {
        Self::Resource { group: group.to_owned(), resource: resource.to_owned() }
    }

    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Resource { group, resource },
                Self::Resource { group: other_group, resource: other_resource },
            ) => is_in(group, other_group) && is_in(resource, other_resource),
            (Self::Url(url), Self::Url(other)) => is_in(url, other),
            (Self::Resource { .. }, Self::Url(_)) | (Self::Url(_), Self::Resource { .. }) => false,
        }
    }
}

impl Scope {
    /// Whether a right in this scope applies everywhere in `other`.
    pub(super) fn includes(&self, other: &Self) -> bool {
        *self == Self::Cluster || self == other
    }
}

/// Whether a field of a rule includes a value.
fn is_in(granted: &str, value: &str) -> bool {
    granted == ANY || granted == value
}

impl Verb {
    /// Verbs that are not in [`VERBS`] come last, sorted by name.
    fn rank(&self) -> (usize, &str) {
        let rank = VERBS.iter().position(|verb| *verb == self.0);
        (rank.unwrap_or(VERBS.len()), &self.0)
    }
}

impl PartialOrd for Verb {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Verb {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl fmt::Display for Access {
    /// As in `patch deployments.apps/status`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, target, name, verb } = self;
        write!(f, "{} {target}", verb.0)?;
        if let Some(name) = name {
            write!(f, " {name}")?;
        }
        match scope {
            Scope::Cluster => Ok(()),
            Scope::Namespace(namespace) => write!(f, " in {namespace}"),
        }
    }
}

impl fmt::Display for Target {
    /// As in `deployments.apps/status`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, resource) = match self {
            Self::Resource { group, resource } => (group, resource),
            Self::Url(url) => return f.write_str(url),
        };
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        f.write_str(plural)?;
        for (sign, part) in [('.', group.as_str()), ('/', subresource)] {
            if !part.is_empty() {
                write!(f, "{sign}{part}")?;
            }
        }
        Ok(())
    }
}
