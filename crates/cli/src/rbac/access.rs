//! A right: a verb on a resource, somewhere.

use std::fmt;

/// The verbs in the order in which rules name them.
const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// What stands for everything in a rule.
const ANY: &str = "*";

/// A right. They are ordered by place, resource, name and verb.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Access {
    pub(super) scope: Scope,
    /// Empty for the core group.
    pub(super) group: String,
    /// With its subresource, as in `deployments/status`.
    pub(super) resource: String,
    /// The object; `None` for all.
    pub(super) name: Option<String>,
    pub(super) verb: Verb,
}

/// Where it holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Cluster,
    Namespace(String),
}

/// A verb; ordered as rules name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verb(pub(super) String);

impl Access {
    /// Whether whoever has this has `other`, too.
    pub(super) fn covers(&self, other: &Self) -> bool {
        (self.scope == Scope::Cluster || self.scope == other.scope)
            && self.is_about(other)
            && (self.name.is_none() || self.name == other.name)
    }

    /// Whether it is for the object that `other` names, and where `other` holds.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        other.name.is_some() && self.name == other.name && self.scope == other.scope
    }

    /// Whether it is a right to the verb of `other` on its resource, wherever it holds and
    /// whichever object it names.
    pub(super) fn is_about(&self, other: &Self) -> bool {
        let is_in = |ours: &str, theirs: &str| ours == ANY || ours == theirs;
        is_in(&self.group, &other.group)
            && is_in(&self.resource, &other.resource)
            && is_in(&self.verb.0, &other.verb.0)
    }
}

impl Verb {
    fn place(&self) -> (usize, &str) {
        let place = VERBS.iter().position(|verb| *verb == self.0);
        (place.unwrap_or(VERBS.len()), &self.0)
    }
}

impl PartialOrd for Verb {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Verb {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
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
