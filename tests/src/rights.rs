//! Users with limited rights: service accounts, and the roles that a case binds them to.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::request::Request;
use crate::script::Script;

/// The API of roles.
pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The collection of access reviews.
pub(crate) const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A service account with a token.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) token: String,
}

impl Account {
    /// Returns the user name that it authenticates as.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Returns the account as the subject of a binding.
    pub(crate) fn subject(&self) -> Value {
        json!({"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace})
    }
}

/// A rule about resources of one group.
pub(crate) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// A rule about the objects with these names.
pub(crate) fn named_rule(group: &str, resources: &[&str], verbs: &[&str], names: &[&str]) -> Value {
    let mut rule = rule(group, resources, verbs);
    rule["resourceNames"] = json!(names);
    rule
}

/// A role of that kind, `Role` or `ClusterRole`.
pub(crate) fn role(kind: &str, name: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": rules,
    })
}

/// A binding of that kind, `RoleBinding` or `ClusterRoleBinding`, to the role of a kind and name.
pub(crate) fn binding(kind: &str, name: &str, role: (&str, &str), subjects: &[Value]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
        "subjects": subjects,
    })
}

impl Script {
    /// The path of roles in the namespace of the case.
    pub(crate) fn roles(&self) -> String {
        format!("{RBAC}/namespaces/{}/roles", self.ns())
    }

    /// The path of role bindings in the namespace of the case.
    pub(crate) fn role_bindings(&self) -> String {
        format!("{RBAC}/namespaces/{}/rolebindings", self.ns())
    }

    /// The path of service accounts in the namespace of the case.
    pub(crate) fn accounts(&self) -> String {
        format!("/api/v1/namespaces/{}/serviceaccounts", self.ns())
    }

    /// Creates a service account without rights, and a token for it.
    pub(crate) async fn account(&mut self, name: &str) -> Account {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name},
        });
        self.given(self.accounts(), account).await;
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
        });
        let path = format!("{}/{name}/token", self.accounts());
        let answer = self.unrecorded(&Request::post(path, request)).await;
        let token = answer.at("/status/token").as_str().unwrap_or_default().to_owned();
        Account { namespace: self.ns().to_owned(), name: name.to_owned(), token }
    }

    /// Creates a service account with a role of its name that grants these rules in the namespace
    /// of the case.
    pub(crate) async fn account_with(&mut self, name: &str, rules: &[Value]) -> Account {
        let account = self.account(name).await;
        self.grant(&account, rules).await;
        account
    }

    /// Creates a role and a binding for an account, both with its name.
    pub(crate) async fn grant(&mut self, account: &Account, rules: &[Value]) {
        let name = &account.name;
        self.given(self.roles(), role("Role", name, rules)).await;
        let bound = binding("RoleBinding", name, ("Role", name), &[account.subject()]);
        self.given(self.role_bindings(), bound).await;
        let namespace = self.ns().to_owned();
        self.wait_for_rights(account, &namespace, &rules[0]).await;
    }

    /// Creates a cluster role and a binding for an account, both named after the case and the
    /// account.
    pub(crate) async fn grant_everywhere(&mut self, account: &Account, rules: &[Value]) {
        let name = self.own_name(&account.name);
        self.given(format!("{RBAC}/clusterroles"), role("ClusterRole", &name, rules)).await;
        let bound =
            binding("ClusterRoleBinding", &name, ("ClusterRole", &name), &[account.subject()]);
        self.given(format!("{RBAC}/clusterrolebindings"), bound).await;
        self.wait_for_rights(account, "", &rules[0]).await;
    }

    /// Waits until the server applies new rights: a real one takes a moment.
    pub(crate) async fn wait_for_rights(&mut self, account: &Account, place: &str, rule: &Value) {
        let review = review(&account.user(), place, rule);
        let allowed = |answer: &Answer| answer.at("/status/allowed") == true;
        let (answer, allowed) = self.poll(&Request::post(ACCESS_REVIEWS, review), allowed).await;
        assert!(allowed, "the rights must be seen after a while: {}", answer.body);
    }
}

/// Returns a review of whether a user may do the first thing that a rule allows.
fn review(user: &str, namespace: &str, rule: &Value) -> Value {
    let first = |field: &str| rule[field][0].as_str().unwrap_or_default().replace('*', "any");
    let url = first("nonResourceURLs");
    let spec = if url.is_empty() {
        let resource = first("resources");
        let (resource, part) = resource.split_once('/').unwrap_or((&resource, ""));
        json!({"user": user, "resourceAttributes": {
            "namespace": namespace,
            "verb": first("verbs"),
            "group": first("apiGroups"),
            "resource": resource,
            "subresource": part,
            "name": first("resourceNames"),
        }})
    } else {
        json!({"user": user, "nonResourceAttributes": {"verb": first("verbs"), "path": url}})
    };
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
    })
}
