//! Who may do what: bearer tokens and a list of rules, so that 401 and 403 can be tested.
//!
//! Without tokens everyone may do everything. With tokens, a request with none is anonymous and may
//! do nothing, a request with an unknown one is refused, and the rules decide about the others: the
//! first that matches wins, and what no rule matches is allowed.
//!
//! With [`Authorization::Rbac`], what no rule matches is decided by the roles and bindings that are
//! stored ([`crate::rbac`]). Tokens of service accounts are known in both modes
//! ([`crate::accounts`]).

use std::collections::BTreeMap;
use std::fmt;

use crate::failure::Failure;
use crate::rbac::rule::{AccessTarget, Attributes};
use crate::rbac::{Decision, MASTERS, Rbac};
use crate::user::User;

/// What decides about requests that no [`Rule`] matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authorization {
    /// Everyone who is known may do everything. Roles and bindings are stored and mean nothing.
    #[default]
    AlwaysAllow,
    /// Roles and bindings decide, and the server starts with those that every cluster has. Members
    /// of the group `system:masters` may do everything.
    Rbac,
}

/// One line of the list: whom it is about, what, and whether that is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    allow: bool,
    users: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<(String, String)>,
    namespaces: Vec<String>,
}

/// Tokens and rules together.
#[derive(Clone, Default)]
pub(crate) struct Auth {
    tokens: BTreeMap<String, User>,
    rules: Vec<Rule>,
    pub(crate) mode: Authorization,
}

impl Rule {
    /// Allows what it matches. Everything matches until a method below narrows it.
    #[must_use]
    pub fn allow() -> Self {
        Self::new(true)
    }

    /// Refuses what it matches, with 403. Everything matches until a method below narrows it.
    #[must_use]
    pub fn deny() -> Self {
        Self::new(false)
    }

    fn new(allow: bool) -> Self {
        let (users, verbs, resources, namespaces) = Default::default();
        Self { allow, users, verbs, resources, namespaces }
    }

    /// Only for this user or group; may be called again for one more.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.users.push(name.into());
        self
    }

    /// Only for this verb (`get`, `list`, `watch`, …); may be called again for one more.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.verbs.push(verb.into());
        self
    }

    /// Only for this resource (`pods`, `pods/status`) of a group (empty: core); may be called
    /// again.
    #[must_use]
    pub fn resource(mut self, group: impl Into<String>, resource: impl Into<String>) -> Self {
        self.resources.push((group.into(), resource.into()));
        self
    }

    /// Only in this namespace; may be called again for one more.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    fn matches(&self, user: &User, request: &Attributes<'_>) -> bool {
        let any = |list: &[String], wanted: &dyn Fn(&String) -> bool| {
            list.is_empty() || list.iter().any(wanted)
        };
        let (group, resource, namespace) = match request.on {
            AccessTarget::Path(_) => ("", String::new(), ""),
            AccessTarget::Resource { group, resource, subresource: "", namespace, .. } => {
                (group, resource.to_owned(), namespace)
            }
            AccessTarget::Resource { group, resource, subresource, namespace, .. } => {
                (group, format!("{resource}/{subresource}"), namespace)
            }
        };
        any(&self.users, &|name| *name == user.name || user.groups.contains(name))
            && any(&self.verbs, &|verb| verb == request.verb)
            && any(&self.namespaces, &|wanted| wanted == namespace)
            && (self.resources.is_empty()
                || self.resources.iter().any(|(g, r)| *g == group && *r == resource))
    }
}

impl Auth {
    pub(crate) fn add_token(&mut self, token: String, user: User) {
        self.tokens.insert(token, user);
    }

    pub(crate) fn add_rule(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(crate) fn user_of(&self, token: &str) -> Option<User> {
        self.tokens.get(token).cloned()
    }

    /// The user of a token. A server without tokens and without RBAC accepts every token, for the
    /// owner.
    pub(crate) fn review(&self, token: &str) -> Option<User> {
        if self.takes_all() { Some(self.owner()) } else { self.user_of(token) }
    }

    /// From the token of a request, if it has one, to a user, or to a 401.
    pub(crate) fn authenticate(&self, token: Option<&str>) -> Result<User, Failure> {
        match token {
            _ if self.takes_all() => Ok(self.owner()),
            // Somebody has to make the first role.
            None if self.tokens.is_empty() => Ok(self.owner()),
            None => Ok(User::anonymous()),
            Some(token) => self.user_of(token).ok_or_else(Failure::unauthorized),
        }
    }

    /// Who sends requests without a token to a server without tokens.
    fn owner(&self) -> User {
        let owner = User::named("system:admin");
        if self.uses_roles() { owner.group(MASTERS) } else { owner }
    }

    /// Whether requests are accepted with any token, or without one.
    pub(crate) fn takes_all(&self) -> bool {
        self.tokens.is_empty() && !self.uses_roles()
    }

    pub(crate) fn uses_roles(&self) -> bool {
        self.mode == Authorization::Rbac
    }

    /// Whether a user may do something: the first rule that matches says so, then roles, if they
    /// decide.
    pub(crate) fn decide(
        &self,
        rbac: Option<&Rbac>,
        user: &User,
        request: &Attributes<'_>,
    ) -> Decision {
        let rule = self.rules.iter().find(|rule| rule.matches(user, request));
        let allowed = match (rule, rbac) {
            (Some(rule), _) => rule.allow,
            (None, Some(rbac)) => return rbac.decide(user, request),
            // A server with roles has lost them if it was restored from one without: nobody may do
            // anything then.
            (None, None) => !user.is_anonymous() && !self.uses_roles(),
        };
        Decision { allowed, reason: String::new() }
    }
}

/// Tokens are secrets: only their number shows.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("tokens", &self.tokens.len())
            .field("rules", &self.rules)
            .field("mode", &self.mode)
            .finish()
    }
}
