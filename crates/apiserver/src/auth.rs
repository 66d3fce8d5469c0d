//! Who may do what: bearer tokens and a list of rules, so that 401 and 403 can be tested.
//!
//! Without tokens everyone may do everything. With tokens, a request with none is anonymous and may
//! do nothing, a request with an unknown one is refused, and the rules decide about the others: the
//! first that matches wins, and what no rule matches is allowed.

use std::collections::BTreeMap;
use std::fmt;

use crate::failure::Failure;
use crate::request::RequestInfo;

/// Someone who sends requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// As it appears in a 403.
    pub name: String,
    /// Groups that rules may name.
    pub groups: Vec<String>,
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
}

/// The user of requests without a token.
const ANONYMOUS: &str = "system:anonymous";

impl User {
    /// A user in no group but that of all who are known.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), groups: vec!["system:authenticated".to_owned()] }
    }

    fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec!["system:unauthenticated".to_owned()] }
    }
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

    fn matches(&self, user: &User, request: &RequestInfo) -> bool {
        let any = |list: &[String], wanted: &dyn Fn(&String) -> bool| {
            list.is_empty() || list.iter().any(wanted)
        };
        let resource = full_resource(request);
        any(&self.users, &|name| *name == user.name || user.groups.contains(name))
            && any(&self.verbs, &|verb| verb == request.verb)
            && any(&self.namespaces, &|namespace| *namespace == request.namespace)
            && (self.resources.is_empty()
                || self.resources.iter().any(|(g, r)| *g == request.group && *r == resource))
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

    /// Whom a token stands for. Without any tokens, everyone is everyone.
    pub(crate) fn review(&self, token: &str) -> Option<User> {
        if self.tokens.is_empty() { Some(User::named("system:admin")) } else { self.user_of(token) }
    }

    /// From the `Authorization` header to a user, or to a 401.
    pub(crate) fn authenticate(&self, header: Option<&str>) -> Result<User, Failure> {
        if self.tokens.is_empty() {
            return Ok(User::named("system:admin"));
        }
        let token = header.and_then(|header| header.strip_prefix("Bearer "));
        match token {
            None => Ok(User::anonymous()),
            Some(token) => self.user_of(token.trim()).ok_or_else(Failure::unauthorized),
        }
    }

    pub(crate) fn allows(&self, user: &User, request: &RequestInfo) -> bool {
        let rule = self.rules.iter().find(|rule| rule.matches(user, request));
        rule.map_or(user.name != ANONYMOUS, |rule| rule.allow)
    }

    /// A 403 if the rules say so.
    pub(crate) fn authorize(&self, user: &User, request: &RequestInfo) -> Result<(), Failure> {
        if self.allows(user, request) {
            return Ok(());
        }
        let scope = if request.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", request.namespace)
        };
        let why = format!(
            "User {:?} cannot {} resource {:?} in API group {:?} {scope}",
            user.name,
            request.verb,
            full_resource(request),
            request.group
        );
        Err(Failure::forbidden(&request.group, &request.resource, &request.name, &why))
    }

    /// The same for a path that is not about a resource.
    pub(crate) fn authorize_path(
        &self,
        user: &User,
        request: &RequestInfo,
        path: &str,
    ) -> Result<(), Failure> {
        if self.allows(user, request) {
            return Ok(());
        }
        Err(Failure::forbidden_path(&user.name, request.verb, path))
    }

    /// Everyone who is known may see what there is.
    pub(crate) fn authorize_discovery(
        &self,
        user: &User,
        request: &RequestInfo,
        path: &str,
    ) -> Result<(), Failure> {
        if user.name == ANONYMOUS { self.authorize_path(user, request, path) } else { Ok(()) }
    }
}

/// Tokens are secrets: only their number shows.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("tokens", &self.tokens.len())
            .field("rules", &self.rules)
            .finish()
    }
}

fn full_resource(request: &RequestInfo) -> String {
    if request.subresource.is_empty() {
        request.resource.clone()
    } else {
        format!("{}/{}", request.resource, request.subresource)
    }
}
