//! The manifests of an operator: who it is, how it is started, and what it is granted.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::access::{Access, Scope, Verb};

/// The `ClusterRole` that every cluster has for what secure metrics ask.
const AUTH_DELEGATOR: &str = "system:auth-delegator";

/// The options of a manager that decide what it needs, and their variables.
const VARIABLES: [(&str, &str); 6] = [
    ("DASHBOARD", "dashboard"),
    ("LEADER_ELECT", "leader-elect"),
    ("METRICS_BIND_ADDRESS", "metrics-bind-address"),
    ("METRICS_SECURE", "metrics-secure"),
    ("WATCH_NAMESPACE", "namespace"),
    ("WEBHOOK_CERT_PATH", "webhook-cert-path"),
];

/// What the manifests say.
#[derive(Debug)]
pub(super) struct Manifests {
    pub(super) operator: Operator,
    /// What the account of the operator is granted, in the order of the rules.
    pub(super) grants: Vec<Access>,
    /// Roles that are bound to the account and are not in the file.
    pub(super) unknown_roles: Vec<String>,
}

/// The operator as it is deployed.
#[derive(Clone, Debug, Default)]
pub(super) struct Operator {
    /// The name of its `ServiceAccount`.
    pub(super) account: String,
    pub(super) namespace: String,
    /// The arguments of its containers, and variables as if they were arguments.
    pub(super) arguments: Vec<String>,
    /// The definitions that are applied with it.
    pub(super) definitions: Vec<String>,
}

/// A role that is bound to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) scope: Scope,
}

/// A file of Roles for an operator that has none: its account.
pub(super) fn first(operator: &str) -> String {
    format!(
        "# Who the operator is, and what it may do: what it does, and nothing more.\n\
         # `cargo windlass rbac --check` compares it with what the tests show.\n\
         apiVersion: v1\n\
         kind: ServiceAccount\n\
         metadata:\n  name: {operator}\n  namespace: {operator}\n"
    )
}

impl Manifests {
    /// Reads the folder of `file`. `text` is the content of the file itself.
    ///
    /// # Errors
    /// If a file cannot be read, or is not YAML, or there is no account.
    pub(super) fn read(file: &Path, text: &str) -> Result<Self> {
        let of_file = documents(text).with_context(|| format!("in {}", file.display()))?;
        let mut all = of_file.clone();
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).into_iter().flatten() {
            paths.push(entry?.path());
        }
        paths.sort();
        let is_yaml = |path: &Path| {
            path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
        };
        for path in
            paths.iter().filter(|path| is_yaml(path) && path.file_name() != file.file_name())
        {
            let read = fs::read_to_string(path).map_err(Into::into).and_then(|it| documents(&it));
            all.extend(read.with_context(|| format!("in {}", path.display()))?);
        }
        let operator = Operator::of(&all).with_context(|| {
            format!("no ServiceAccount and no Deployment in {}", folder.display())
        })?;
        let (mut grants, mut unknown_roles) = (Vec::new(), Vec::new());
        for bound in operator.bound(&of_file) {
            match of_file.iter().find(|document| bound.is(document, &operator)) {
                Some(role) => grants.extend(granted(&role["rules"], &bound.scope)),
                None if bound.name == AUTH_DELEGATOR => grants.extend(delegated(&bound.scope)),
                None => unknown_roles.push(format!("{} {}", bound.kind, bound.name)),
            }
        }
        Ok(Self { operator, grants, unknown_roles })
    }
}

impl Operator {
    fn of(all: &[Value]) -> Option<Self> {
        let of_kind = |kind: &'static str| all.iter().filter(move |one| one["kind"] == kind);
        let pod = |workload: &Value| workload["spec"]["template"]["spec"].clone();
        let workload = ["Deployment", "StatefulSet", "DaemonSet"]
            .into_iter()
            .flat_map(of_kind)
            .find(|workload| pod(workload)["serviceAccountName"].is_string());
        let account = match workload {
            Some(workload) => text(&pod(workload)["serviceAccountName"]),
            None => text(&of_kind("ServiceAccount").next()?["metadata"]["name"]),
        };
        let accounts = of_kind("ServiceAccount").filter(|it| it["metadata"]["name"] == account);
        let namespaces = workload.into_iter().chain(accounts);
        let namespace = namespaces.map(|one| text(&one["metadata"]["namespace"]));
        let of_all = of_kind("Kustomization").map(|one| text(&one["namespace"]));
        let namespace = of_all.chain(namespace).find(|namespace| !namespace.is_empty());
        let containers = workload.map(|workload| pod(workload)["containers"].clone());
        let containers = containers.as_ref().and_then(Value::as_array);
        Some(Self {
            account,
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            arguments: containers.into_iter().flatten().flat_map(arguments).collect(),
            definitions: of_kind("CustomResourceDefinition")
                .map(|definition| text(&definition["metadata"]["name"]))
                .collect(),
        })
    }

    /// Whether a condition holds; see `When` in `windlass-manager`.
    pub(super) fn has(&self, condition: Option<&str>) -> bool {
        let is_true = |flag: &str| self.values(flag).last().map(|value| value != "false");
        match condition {
            Some("leader-elect") => is_true("leader-elect") != Some(false),
            Some("metrics-secure") => {
                is_true("metrics-secure") == Some(true)
                    && self.values("metrics-bind-address").last().map(String::as_str) != Some("0")
            }
            Some("open-dashboard") => self.values("dashboard").last().is_some_and(|address| {
                let is_local = ["127.", "localhost:", "[::1]:"];
                !is_local.iter().any(|host| address.starts_with(host)) && address != "0"
            }),
            Some("own-certificates") => self.values("webhook-cert-path").is_empty(),
            Some(other) => match other.strip_prefix("not-installed ") {
                Some(definition) => !self.definitions.iter().any(|one| one == definition),
                None => true,
            },
            None => true,
        }
    }

    /// Where it watches.
    pub(super) fn watched(&self) -> Vec<Scope> {
        let values = self.values("namespace").join(",");
        let names = values.split(',').filter(|name| !name.is_empty());
        let scopes: Vec<_> = names.map(|name| Scope::Namespace(name.to_owned())).collect();
        if scopes.is_empty() { vec![Scope::Cluster] } else { scopes }
    }

    /// The values of a flag, each time that it is given.
    fn values(&self, flag: &str) -> Vec<String> {
        let mut values = Vec::new();
        let mut arguments = self.arguments.iter().peekable();
        while let Some(argument) = arguments.next() {
            let Some(rest) = argument.strip_prefix("--").and_then(|it| it.strip_prefix(flag))
            else {
                continue;
            };
            if let Some(value) = rest.strip_prefix('=') {
                values.push(value.to_owned());
            } else if rest.is_empty() {
                let next = arguments.next_if(|next| !next.starts_with('-'));
                values.push(next.cloned().unwrap_or_else(|| "true".to_owned()));
            }
        }
        values
    }

    /// The roles that are bound to its account.
    pub(super) fn bound(&self, documents: &[Value]) -> Vec<Bound> {
        let is_us = |subject: &Value| {
            let namespace = &subject["namespace"];
            subject["kind"] == "ServiceAccount"
                && subject["name"] == self.account
                && (namespace.is_null() || *namespace == self.namespace)
        };
        let mut roles = Vec::new();
        for binding in documents {
            let scope = match binding["kind"].as_str() {
                Some("ClusterRoleBinding") => Scope::Cluster,
                Some("RoleBinding") => Scope::Namespace(self.namespace_of(binding)),
                _ => continue,
            };
            if binding["subjects"].as_array().is_some_and(|all| all.iter().any(is_us)) {
                let role = &binding["roleRef"];
                let (kind, name) = (text(&role["kind"]), text(&role["name"]));
                roles.push(Bound { kind, name, scope });
            }
        }
        roles
    }

    fn namespace_of(&self, document: &Value) -> String {
        let namespace = text(&document["metadata"]["namespace"]);
        if namespace.is_empty() { self.namespace.clone() } else { namespace }
    }
}

impl Bound {
    /// Whether a document is this role.
    pub(super) fn is(&self, document: &Value, operator: &Operator) -> bool {
        document["kind"] == self.kind
            && document["metadata"]["name"] == self.name
            && (self.kind == "ClusterRole"
                || self.scope == Scope::Namespace(operator.namespace_of(document)))
    }
}

/// The documents of a file.
pub(super) fn documents(text: &str) -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple::<Value>(text)?)
}

/// What rules grant, one right for each verb on each resource.
pub(super) fn granted(rules: &Value, scope: &Scope) -> Vec<Access> {
    let mut grants = Vec::new();
    for rule in rules.as_array().into_iter().flatten() {
        let list = |field: &str| -> Vec<String> {
            rule[field].as_array().into_iter().flatten().map(text).collect()
        };
        let names = list("resourceNames");
        let names =
            if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
        let mut grant = |group: &str, resource: &str, name: &Option<String>| {
            for verb in list("verbs") {
                grants.push(Access {
                    scope: scope.clone(),
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    name: name.clone(),
                    verb: Verb(verb),
                });
            }
        };
        for group in list("apiGroups") {
            for resource in list("resources") {
                for name in &names {
                    grant(&group, &resource, name);
                }
            }
        }
        for url in list("nonResourceURLs") {
            grant("", &url, &None);
        }
    }
    grants
}

/// What [`AUTH_DELEGATOR`] grants.
fn delegated(scope: &Scope) -> Vec<Access> {
    let reviews = [
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ];
    let grant = |(group, resource): (&str, &str)| Access {
        scope: scope.clone(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: None,
        verb: Verb("create".to_owned()),
    };
    reviews.into_iter().map(grant).collect()
}

/// The arguments of a container, and its variables that stand for some.
fn arguments(container: &Value) -> Vec<String> {
    let list = |field: &str| container[field].as_array().cloned().unwrap_or_default();
    let variables = list("env").into_iter().filter_map(|variable| {
        let (_, flag) = VARIABLES.iter().find(|(name, _)| variable["name"] == *name)?;
        Some(format!("--{flag}={}", variable["value"].as_str()?))
    });
    let given = list("command").into_iter().chain(list("args"));
    // The command line wins, so it comes last.
    variables.chain(given.map(|one| text(&one))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
