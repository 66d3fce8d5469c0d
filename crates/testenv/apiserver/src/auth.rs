//! Bearer tokens and a list of access rules, so that tests can provoke 401 and 403.
//!
//! Without tokens everyone may do everything. With tokens, a request without a token is anonymous
//! and may do nothing, and a request with an unknown token is refused. For all other requests the
//! first matching rule decides; a request that no rule matches is allowed.
//!
//! With [`Authorization::Rbac`], the stored roles and bindings ([`crate::rbac`]) decide what no
//! rule matches. Tokens of service accounts are accepted in both modes ([`crate::accounts`]).

use std::collections::BTreeMap;
use std::fmt;

use crate::failure::Failure;
use crate::rbac::rule::{AccessTarget, Attributes};
use crate::rbac::{Decision, MASTERS, Rbac};
use crate::user::User;

/// How requests that no [`Rule`] matches are authorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authorization {
    /// Every authenticated user may do everything. Roles and bindings are stored and have no
    /// effect.
    #[default]
    AlwaysAllow,
    /// Roles and bindings decide, and the server starts with those that every cluster has. Members
    /// of the group `system:masters` may do everything.
    Rbac,
}

/// An access rule: it allows or denies requests by user, verb, resource and namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    allow: bool,
    users: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<(String, String)>,
    namespaces: Vec<String>,
}

/// The tokens and rules of a server.
#[derive(Clone, Default)]
pub(crate) struct Auth {
    tokens: BTreeMap<String, User>,
    rules: Vec<Rule>,
    pub(crate) mode: Authorization,
}

impl Rule {
    /// Allows the requests that it matches: all, until a method below narrows it.
    #[must_use]
    pub fn allow() -> Self {
        Self::new(true)
    }

    /// Refuses the requests that it matches with 403: all, until a method below narrows it.
    #[must_use]
    pub fn deny() -> Self {
        Self::new(false)
    }

    fn new(allow: bool) -> Self {
        let (users, verbs, resources, namespaces) = Default::default();
        Self { allow, users, verbs, resources, namespaces }
    }

    /// Matches this user or group; each further call adds one.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.users.push(name.into());
        self
    }

    /// Matches this verb (`get`, `list`, `watch`, …); each further call adds one.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.verbs.push(verb.into());
        self
    }

    /// Matches this resource (`pods`, `pods/status`) of a group (empty: core); each further call
    /// adds one.
    #[must_use]
    pub fn resource(mut self, group: impl Into<String>, resource: impl Into<String>) -> Self {
        self.resources.push((group.into(), resource.into()));
        self
    }

    /// Matches this namespace; each further call adds one.
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

    /// Returns the user of a token. A server without tokens and without RBAC accepts every token
    /// and returns the owner.
    pub(crate) fn review(&self, token: &str) -> Option<User> {
        if self.accepts_every_request() { Some(self.owner()) } else { self.user_of(token) }
    }

    /// Returns the user of a request with this token, or a 401.
    pub(crate) fn authenticate(&self, token: Option<&str>) -> Result<User, Failure> {
        match token {
            _ if self.accepts_every_request() => Ok(self.owner()),
            // Without this, nobody could create the first role.
            None if self.tokens.is_empty() => Ok(self.owner()),
            None => Ok(User::anonymous()),
            Some(token) => self.user_of(token).ok_or_else(Failure::unauthorized),
        }
    }

    /// Returns the user of requests without a token, on a server without tokens.
    fn owner(&self) -> User {
        let owner = User::named("system:admin");
        if self.uses_roles() { owner.group(MASTERS) } else { owner }
    }

    /// Returns whether every request is accepted, with any token or without one.
    pub(crate) fn accepts_every_request(&self) -> bool {
        self.tokens.is_empty() && !self.uses_roles()
    }

    pub(crate) fn uses_roles(&self) -> bool {
        self.mode == Authorization::Rbac
    }

    /// Decides whether a user may make a request: by the first rule that matches, else by RBAC, if
    /// it is switched on.
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
            // RBAC is switched on, but the state was restored from a server without roles: nobody
            // may do anything.
            (None, None) => !user.is_anonymous() && !self.uses_roles(),
        };
        Decision { allowed, reason: String::new() }
    }
}

/// Tokens are secrets: only their number is shown.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("tokens", &self.tokens.len())
            .field("rules", &self.rules)
            .field("mode", &self.mode)
            .finish()
    }
}
