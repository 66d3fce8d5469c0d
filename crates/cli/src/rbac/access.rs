//! A right: a verb on a resource, in the whole cluster or in a namespace.

use std::fmt;

/// The verbs in the order in which rules name them.
const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The wildcard of rules.
const ANY: &str = "*";

/// A right. Ordered by scope, group, resource, name and verb.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Access {
    pub(super) scope: Scope,
    /// Empty for the core group, and for a non-resource URL.
    pub(super) group: String,
    /// With its subresource, as in `deployments/status`; or a non-resource URL.
    pub(super) resource: String,
    /// The object; `None` for all.
    pub(super) name: Option<String>,
    pub(super) verb: Verb,
}

/// Where a right holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Cluster,
    Namespace(String),
}

/// A verb; ordered as rules name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verb(pub(super) String);

impl Access {
    /// Whether this right includes `other`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        (self.scope == Scope::Cluster || self.scope == other.scope)
            && self.is_about(other)
            && (self.name.is_none() || self.name == other.name)
    }

    /// Whether both name the same object, in the same scope.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        other.name.is_some() && self.name == other.name && self.scope == other.scope
    }

    /// Whether this includes the group, the resource and the verb of `other`. Scopes and names are
    /// ignored.
    pub(super) fn is_about(&self, other: &Self) -> bool {
        let is_in = |ours: &str, theirs: &str| ours == ANY || ours == theirs;
        is_in(&self.group, &other.group)
            && is_in(&self.resource, &other.resource)
            && is_in(&self.verb.0, &other.verb.0)
    }
}

impl Verb {
    /// Verbs that are not in [`VERBS`] come last, by name.
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
        let Self { scope, group, resource, name, verb } = self;
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        write!(f, "{} {plural}", verb.0)?;
        for (sign, part) in [('.', group.as_str()), ('/', subresource)] {
            if !part.is_empty() {
                write!(f, "{sign}{part}")?;
            }
        }
        if let Some(name) = name {
            write!(f, " {name}")?;
        }
        match scope {
            Scope::Cluster => Ok(()),
            Scope::Namespace(namespace) => write!(f, " in {namespace}"),
        }
    }
}
