//! An index of the stored roles and bindings, by the users and groups that they apply to.
//!
//! It follows the store, change by change, so that a request reads only the few bindings of its
//! sender.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::rule::{GROUP, PolicyRule};
use crate::field_error::go_quote;
use crate::kind::Kind;
use crate::object::Key;
use crate::user::User;

/// The stored roles and bindings. Cluster-wide ones have no namespace in their key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    cluster_roles: BTreeMap<String, Arc<[PolicyRule]>>,
    roles: HashMap<Key, Arc<[PolicyRule]>>,
    bindings: HashMap<Key, Binding>,
    /// The names of the bindings of a namespace (empty: cluster-wide) that mention a subject.
    by_subject: HashMap<(String, Subject), BTreeSet<String>>,
}

/// A subject of bindings. A service account is the user that it authenticates as.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

#[derive(Debug, Clone)]
struct Binding {
    role: RoleRef,
    subjects: Vec<(Subject, String)>,
}

/// The role that a binding refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoleRef {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// The rules that one binding grants to a user, or the error if its role does not exist.
pub(crate) struct Grant<'a> {
    key: Key,
    binding: &'a Binding,
    /// The first subject of the binding that matches the user, as error messages describe it.
    subject: &'a str,
    pub(crate) rules: Result<&'a [PolicyRule], MissingRole>,
}

impl Grant<'_> {
    /// Returns `ClusterRoleBinding "b" of ClusterRole "r" to User "u"`.
    pub(crate) fn source(&self) -> String {
        let (kind, name) = match self.key.namespace() {
            "" => ("ClusterRoleBinding", self.key.name().to_owned()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.key.name())),
        };
        let role = &self.binding.role;
        let (name, role_name) = (go_quote(&name), go_quote(&role.name));
        format!("{kind} {name} of {} {role_name} to {}", role.kind, self.subject)
    }
}

/// A role that a binding refers to and that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingRole(RoleRef);

impl MissingRole {
    /// Returns the message of the authorizer.
    pub(crate) fn message(&self) -> String {
        match self.0.kind.as_str() {
            kind @ ("ClusterRole" | "Role") => self.message_for(&kind.to_lowercase()),
            other => format!("unsupported role reference kind: {}", go_quote(other)),
        }
    }

    /// Returns the message for a write of `plural`. The real server then names this resource
    /// instead of that of the role.
    pub(crate) fn message_for(&self, plural: &str) -> String {
        format!("{plural}.{GROUP} {} not found", go_quote(&self.0.name))
    }
}

impl RoleRef {
    pub(crate) fn of(binding: &Map<String, Value>) -> Self {
        let text = |field: &str| {
            let value = binding.get("roleRef").and_then(|reference| reference.get(field));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Self { kind: text("kind"), name: text("name") }
    }
}

impl Index {
    /// Updates the index with an object that was stored.
    pub(crate) fn note(&mut self, kind: &Kind, key: &Key, object: &Map<String, Value>) {
        if kind.group != GROUP {
            return;
        }
        self.forget(kind, key);
        let rules = || PolicyRule::list(object).into();
        match kind.plural.as_str() {
            "clusterroles" => drop(self.cluster_roles.insert(key.name().to_owned(), rules())),
            "roles" => drop(self.roles.insert(key.clone(), rules())),
            _ => self.bind(key, object),
        }
    }

    /// Updates the index after an object was removed.
    pub(crate) fn forget(&mut self, kind: &Kind, key: &Key) {
        if kind.group != GROUP {
            return;
        }
        match kind.plural.as_str() {
            "clusterroles" => drop(self.cluster_roles.remove(key.name())),
            "roles" => drop(self.roles.remove(key)),
            _ => self.unbind(key),
        }
    }

    fn bind(&mut self, key: &Key, object: &Map<String, Value>) {
        let subjects = object.get("subjects").and_then(Value::as_array).into_iter().flatten();
        let subjects: Vec<_> =
            subjects.filter_map(|subject| Subject::read(subject, key.namespace())).collect();
        for (subject, _) in &subjects {
            let place = (key.namespace().to_owned(), subject.clone());
            self.by_subject.entry(place).or_default().insert(key.name().to_owned());
        }
        self.bindings.insert(key.clone(), Binding { role: RoleRef::of(object), subjects });
    }

    fn unbind(&mut self, key: &Key) {
        let Some(binding) = self.bindings.remove(key) else { return };
        for (subject, _) in binding.subjects {
            let place = (key.namespace().to_owned(), subject);
            if let Some(names) = self.by_subject.get_mut(&place) {
                names.remove(key.name());
                if names.is_empty() {
                    self.by_subject.remove(&place);
                }
            }
        }
    }

    /// Returns what a user is granted in a namespace (empty: outside of any), binding by binding:
    /// the cluster-wide ones first, each group in the order of their names.
    pub(crate) fn grants<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = Grant<'a>> + 'a {
        let scopes = std::iter::once("").chain((!namespace.is_empty()).then_some(namespace));
        scopes.flat_map(move |scope| self.grants_in(user, scope))
    }

    fn grants_in(&self, user: &User, scope: &str) -> Vec<Grant<'_>> {
        let who = Subject::all_of(user);
        let places = who.iter().map(|subject| (scope.to_owned(), subject.clone()));
        let names: BTreeSet<&String> =
            places.filter_map(|place| self.by_subject.get(&place)).flatten().collect();
        let keys = names.into_iter().map(|name| Key::new(scope, name));
        keys.filter_map(|key| self.bindings.get(&key).map(|binding| (key, binding)))
            .filter_map(|(key, binding)| {
                let (_, subject) = binding.subjects.iter().find(|(one, _)| who.contains(one))?;
                Some(Grant { key, binding, subject, rules: self.rules(&binding.role, scope) })
            })
            .collect()
    }

    /// Returns the rules of a role, or an error if it does not exist.
    pub(crate) fn rules(
        &self,
        role: &RoleRef,
        namespace: &str,
    ) -> Result<&[PolicyRule], MissingRole> {
        let found = match role.kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(&role.name),
            "Role" => self.roles.get(&Key::new(namespace, &role.name)),
            _ => None,
        };
        found.map(AsRef::as_ref).ok_or_else(|| MissingRole(role.clone()))
    }
}

impl Subject {
    /// Parses a subject of a binding. Also returns its description for messages.
    fn read(subject: &Value, namespace: &str) -> Option<(Self, String)> {
        let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        match kind {
            "User" => Some((Self::User(name.to_owned()), format!("{kind} {}", go_quote(name)))),
            "Group" => Some((Self::Group(name.to_owned()), format!("{kind} {}", go_quote(name)))),
            "ServiceAccount" => {
                let home = Some(text("namespace")).filter(|home| !home.is_empty());
                let home = home.unwrap_or(namespace);
                let user = User::service_account_name(home, name);
                // The real server's description has the name before the namespace, too.
                let shown = format!("{kind} {}", go_quote(&format!("{name}/{home}")));
                (!home.is_empty()).then_some((Self::User(user), shown))
            }
            _ => None,
        }
    }

    fn all_of(user: &User) -> Vec<Self> {
        let groups = user.groups.iter().cloned().map(Self::Group);
        std::iter::once(Self::User(user.name.clone())).chain(groups).collect()
    }
}
