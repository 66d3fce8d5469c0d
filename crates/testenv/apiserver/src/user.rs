//! Users who send requests, and the names that every cluster has for users and groups.

use std::collections::BTreeMap;

/// A user who sends requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name, as it appears in a 403.
    pub name: String,
    /// Groups that rules and role bindings may name.
    pub groups: Vec<String>,
    /// Distinguishes the user from an earlier one of the same name; usually empty.
    pub uid: String,
    /// Further attributes, by name.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The user of requests without a token.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// The group of all authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

/// The group of all anonymous users.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

impl User {
    /// Creates a user in no group but that of all authenticated users.
    pub fn named(name: impl Into<String>) -> Self {
        Self::new(name.into(), vec![AUTHENTICATED.to_owned()])
    }

    /// Returns the user that a service account authenticates as.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            AUTHENTICATED.to_owned(),
        ];
        Self::new(Self::service_account_name(namespace, name), groups)
    }

    /// Adds a group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        // As on a real server, the group of all authenticated users comes last.
        let end = self.groups.iter().position(|group| group == AUTHENTICATED);
        self.groups.insert(end.unwrap_or(self.groups.len()), group.into());
        self
    }

    /// Sets the uid.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    pub(crate) fn new(name: String, groups: Vec<String>) -> Self {
        Self { name, groups, uid: String::new(), extra: BTreeMap::new() }
    }

    pub(crate) fn service_account_name(namespace: &str, name: &str) -> String {
        format!("system:serviceaccount:{namespace}:{name}")
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    pub(crate) fn anonymous() -> Self {
        Self::new(ANONYMOUS.to_owned(), vec![UNAUTHENTICATED.to_owned()])
    }
}
