//! The deployed operator: its account, and its command line options.

use std::fmt;

use serde_json::Value;
use windlass_evidence::Condition;

use super::access::Scope;
use super::document::{Document, text};

/// The environment variables of a manager that affect its needs, and the flags of the same options.
const VARIABLES: [(&str, &str); 8] = [
    ("DASHBOARD", "dashboard"),
    ("LEADER_ELECT", "leader-elect"),
    ("METRICS_BIND_ADDRESS", "metrics-bind-address"),
    ("METRICS_SECURE", "metrics-secure"),
    ("POD_NAMESPACE", "leader-election-namespace"),
    ("WATCH_NAMESPACE", "namespace"),
    ("WEBHOOK_CERT_PATH", "webhook-cert-path"),
    ("WEBHOOK_NAMESPACE", "webhook-namespace"),
];

/// Other flags that identify the container of a manager. Flags that many programs have are not
/// included.
const OTHER_FLAGS: [&str; 7] = [
    "grace-period",
    "health-probe-bind-address",
    "lease-duration",
    "metrics-cert-path",
    "renew-deadline",
    "retry-period",
    "webhook-bind-address",
];

/// The identity of the operator, and its options.
#[derive(Clone, Debug, Default)]
pub(super) struct Operator {
    /// The name of its `ServiceAccount`.
    pub(super) account: String,
    pub(super) namespace: String,
    /// The namespace of the account in its manifest, which Kustomize may replace.
    written_namespace: String,
    /// The namespace that Kustomize sets on all objects.
    namespace_of_all: Option<String>,
    /// The command line of its container.
    pub(super) arguments: Vec<String>,
    /// Flags that are set by environment variables of its container, and their values.
    variables: Vec<(&'static str, String)>,
    /// The names of the CRDs in the manifests.
    pub(super) definitions: Vec<String>,
}

/// A role that is bound to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) scope: Scope,
}

impl Operator {
    /// Returns `None` if there is no account.
    pub(super) fn of(all: &[Document]) -> Option<Self> {
        let of_kind = |kind: &'static str| {
            all.iter().map(|document| &document.value).filter(move |value| value["kind"] == kind)
        };
        let pod = |workload: &Value| workload["spec"]["template"]["spec"].clone();
        // The workload with the most flags of a manager; among several the first, because
        // `max_by_key` returns the last.
        let workload = ["Deployment", "StatefulSet", "DaemonSet"]
            .into_iter()
            .flat_map(of_kind)
            .filter(|workload| pod(workload)["serviceAccountName"].is_string())
            .rev()
            .max_by_key(|workload| flags_in(&pod(workload)["containers"]));
        let account = match workload {
            Some(workload) => text(&pod(workload)["serviceAccountName"]),
            None => text(&of_kind("ServiceAccount").next()?["metadata"]["name"]),
        };
        let accounts = of_kind("ServiceAccount").filter(|it| it["metadata"]["name"] == account);
        let written = workload.into_iter().chain(accounts);
        let written = written.map(|one| text(&one["metadata"]["namespace"]));
        let written = written.into_iter().find(|namespace| !namespace.is_empty());
        let written_namespace = written.unwrap_or_else(|| "default".to_owned());
        let namespace_of_all = all
            .iter()
            .filter(|document| document.is_kustomization())
            .map(|document| text(&document.value["namespace"]))
            .find(|namespace| !namespace.is_empty());
        let namespace = namespace_of_all.clone().unwrap_or_else(|| written_namespace.clone());
        let container = workload.map(pod).and_then(|pod| container(&pod["containers"]));
        let container = container.unwrap_or_default();
        let environment = environment(&container, &namespace);
        Some(Self {
            account,
            written_namespace,
            namespace_of_all,
            arguments: command_line(&container)
                .iter()
                .map(|argument| expanded(argument, &environment))
                .collect(),
            variables: environment
                .iter()
                .filter_map(|(name, value)| {
                    let (_, flag) = VARIABLES.iter().find(|(variable, _)| variable == name)?;
                    Some((*flag, value.clone()))
                })
                .collect(),
            namespace,
            definitions: of_kind("CustomResourceDefinition")
                .map(|definition| text(&definition["metadata"]["name"]))
                .collect(),
        })
    }

    /// Whether the condition of a declared right is met.
    pub(super) fn has(&self, condition: &Condition) -> bool {
        let is_true = |flag: &str| self.value(flag).map(|value| value != "false");
        match condition {
            Condition::Always => true,
            Condition::LeaderElect => is_true("leader-elect") != Some(false),
            Condition::MetricsSecure => {
                let address = self.value("metrics-bind-address");
                is_true("metrics-secure") == Some(true) && address.is_none_or(|it| is_served(&it))
            }
            Condition::OpenDashboard => self.value("dashboard").is_some_and(|address| {
                let is_local = ["127.", "localhost:", "[::1]:"];
                !is_local.iter().any(|host| address.starts_with(host)) && is_served(&address)
            }),
            Condition::OwnCertificates => self.value("webhook-cert-path").is_none(),
            Condition::NotInstalled(definition) => !self.definitions.contains(definition),
        }
    }

    /// Returns the scopes that it watches.
    pub(super) fn watched(&self) -> Vec<Scope> {
        let values = self.values("namespace").join(",");
        let names = values.split(',').filter(|name| !name.is_empty());
        let scopes: Vec<_> = names.map(|name| Scope::Namespace(name.to_owned())).collect();
        if scopes.is_empty() { vec![Scope::Cluster] } else { scopes }
    }

    /// Returns the namespace of the operator's own objects: of its Lease, or of the Secret of its
    /// webhooks.
    pub(super) fn namespace_of_own(&self, plural: &str) -> String {
        let namespace = match plural {
            "leases" => self.value("leader-election-namespace"),
            "secrets" => self.value("webhook-namespace"),
            _ => None,
        };
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        namespace.unwrap_or_else(|| self.namespace.clone())
    }

    fn value(&self, flag: &str) -> Option<String> {
        self.values(flag).pop()
    }

    /// Returns all values of a flag. If it is not given, its environment variable counts.
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
        if values.is_empty() {
            let variables = self.variables.iter().filter(|(name, _)| *name == flag);
            values.extend(variables.map(|(_, value)| value.clone()));
        }
        values
    }

    /// Returns the roles that are bound to its account.
    pub(super) fn bound(&self, documents: &[Document]) -> Vec<Bound> {
        let mut roles = Vec::new();
        for binding in documents.iter().map(|document| &document.value) {
            let scope = match binding["kind"].as_str() {
                Some("ClusterRoleBinding") => Scope::Cluster,
                Some("RoleBinding") => Scope::Namespace(self.namespace_of(binding)),
                _ => continue,
            };
            let mut subjects = binding["subjects"].as_array().into_iter().flatten();
            if subjects.any(|subject| self.is(subject)) {
                let role = &binding["roleRef"];
                let (kind, name) = (text(&role["kind"]), text(&role["name"]));
                roles.push(Bound { kind, name, scope });
            }
        }
        roles
    }

    /// Whether a subject of a binding is the account or a group that contains it.
    fn is(&self, subject: &Value) -> bool {
        let Self { account, namespace, written_namespace, .. } = self;
        let name = text(&subject["name"]);
        match subject["kind"].as_str() {
            Some("ServiceAccount") => {
                let its_namespace = text(&subject["namespace"]);
                name == *account
                    && ["", namespace, written_namespace].contains(&its_namespace.as_str())
            }
            Some("User") => name == format!("system:serviceaccount:{namespace}:{account}"),
            Some("Group") => {
                let accounts = "system:serviceaccounts";
                name == accounts || name == format!("{accounts}:{namespace}")
            }
            _ => false,
        }
    }

    /// Returns the namespace of a namespaced object.
    fn namespace_of(&self, document: &Value) -> String {
        let namespace = text(&document["metadata"]["namespace"]);
        match &self.namespace_of_all {
            Some(namespace) => namespace.clone(),
            None if namespace.is_empty() => self.namespace.clone(),
            None => namespace,
        }
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

impl fmt::Display for Bound {
    /// As in `ClusterRole shop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Whether something is served at an address.
fn is_served(address: &str) -> bool {
    !matches!(address, "" | "0")
}

/// Returns the container with the most flags of a manager; the first of several.
fn container(containers: &Value) -> Option<Value> {
    // Among several maxima, `max_by_key` returns the last.
    containers.as_array()?.iter().rev().max_by_key(|container| flags_of(container)).cloned()
}

/// Returns the highest number of manager flags on a container.
fn flags_in(containers: &Value) -> usize {
    containers.as_array().into_iter().flatten().map(flags_of).max().unwrap_or_default()
}

/// Returns how many flags of a manager a container has.
fn flags_of(container: &Value) -> usize {
    let is_known = |argument: &&String| {
        let flag = argument.strip_prefix("--").and_then(|flag| flag.split('=').next());
        let variables = VARIABLES.iter().map(|(_, flag)| *flag);
        let mut flags = variables.chain(OTHER_FLAGS);
        flag.is_some_and(|flag| flags.any(|known| known == flag))
    };
    command_line(container).iter().filter(is_known).count()
}

fn command_line(container: &Value) -> Vec<String> {
    let list = |field: &str| container[field].as_array().cloned().unwrap_or_default();
    list("command").iter().chain(&list("args")).map(text).collect()
}

/// Returns the environment variables of a container that have literal values in the manifest.
fn environment(container: &Value, namespace: &str) -> Vec<(String, String)> {
    let mut known: Vec<(String, String)> = Vec::new();
    for variable in container["env"].as_array().into_iter().flatten() {
        let field = &variable["valueFrom"]["fieldRef"]["fieldPath"];
        let value = match variable["value"].as_str() {
            Some(value) => expanded(value, &known),
            None if field == "metadata.namespace" => namespace.to_owned(),
            None => continue,
        };
        known.push((text(&variable["name"]), value));
    }
    known
}

/// Replaces `$(NAME)` by the value of a variable and `$$` by `$`, as Kubernetes does. References to
/// unknown variables are kept.
fn expanded(text: &str, variables: &[(String, String)]) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let reference = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        let variable = reference.and_then(|(name, after)| {
            let (_, value) = variables.iter().rev().find(|(variable, _)| variable == name)?;
            Some((value.as_str(), after))
        });
        let escaped = after.strip_prefix('$').map(|after| ("$", after));
        let (value, after) = variable.or(escaped).unwrap_or(("$", after));
        expanded.push_str(value);
        rest = after;
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::document::documents;
    use super::*;

    /// An operator in the namespace `shop`, with these containers.
    fn operator(containers: &str) -> Operator {
        let manifest = format!(
            "kind: Deployment\nmetadata: {{namespace: shop}}\nspec: {{template: {{spec: \
             {{serviceAccountName: shop, containers: {containers}}}}}}}\n"
        );
        let all = documents(Path::new("operator.yaml"), &manifest).expect("a manifest");
        Operator::of(&all).expect("an operator")
    }

    fn watched(containers: &str) -> Vec<String> {
        let scopes = operator(containers).watched().into_iter();
        let name = |scope| match scope {
            Scope::Cluster => "all".to_owned(),
            Scope::Namespace(name) => name,
        };
        scopes.map(name).collect()
    }

    const OWN: &str = "valueFrom: {fieldRef: {fieldPath: metadata.namespace}}";

    #[test]
    fn variable_may_be_the_namespace_of_the_pod() {
        assert_eq!(watched(&format!("[{{env: [{{name: WATCH_NAMESPACE, {OWN}}}]}}]")), ["shop"]);
        let unknown = "valueFrom: {configMapKeyRef: {name: a, key: b}}";
        assert_eq!(watched(&format!("[{{env: [{{name: WATCH_NAMESPACE, {unknown}}}]}}]")), ["all"]);
    }

    #[test]
    fn operator_is_the_workload_with_the_flags_of_a_manager() {
        let workload = |account: &str, arguments: &str| {
            format!(
                "kind: Deployment\nspec: {{template: {{spec: {{serviceAccountName: {account}, \
                 containers: [{{args: [{arguments}]}}]}}}}}}\n---\n"
            )
        };
        let account = |manifests: String| {
            let all = documents(Path::new("all.yaml"), &manifests).expect("manifests");
            Operator::of(&all).expect("an operator").account
        };
        let (console, shop) = (workload("console", "--port=1"), workload("shop", "--leader-elect"));
        assert_eq!(account(format!("{console}{shop}")), "shop");
        assert_eq!(account(format!("{shop}{console}")), "shop");
        assert_eq!(account(format!("{console}{}", workload("other", ""))), "console");
    }

    #[test]
    fn arguments_and_variables_may_refer_to_variables() {
        let variables = format!("{{name: OWN, {OWN}}}, {{name: TWO, value: '$(OWN),b'}}");
        let arguments = "['--namespace=$(TWO)']";
        assert_eq!(watched(&format!("[{{args: {arguments}, env: [{variables}]}}]")), ["shop", "b"]);
        let known = [("A".to_owned(), "1".to_owned())];
        assert_eq!(expanded("$(A)$$(A) $(B) $ $(A", &known), "1$(A) $(B) $ $(A");
    }

    #[test]
    fn variable_of_the_namespaces_counts_only_without_the_flag() {
        let variable = "env: [{name: WATCH_NAMESPACE, value: a}]";
        assert_eq!(watched(&format!("[{{{variable}}}]")), ["a"]);
        assert_eq!(watched(&format!("[{{{variable}, args: [--namespace, b]}}]")), ["b"]);
        assert_eq!(watched(&format!("[{{{variable}, args: ['--namespace=']}}]")), ["all"]);
    }

    #[test]
    fn variables_say_where_the_lease_and_the_secret_are() {
        let variables = "{name: POD_NAMESPACE, value: a}, {name: WEBHOOK_NAMESPACE, value: b}";
        let operator = operator(&format!("[{{env: [{variables}]}}]"));
        assert_eq!(operator.namespace_of_own("leases"), "a");
        assert_eq!(operator.namespace_of_own("secrets"), "b");
        assert_eq!(operator.namespace_of_own("pods"), "shop");
    }

    #[test]
    fn empty_address_is_off_like_zero() {
        let has = |condition, arguments: &str| {
            operator(&format!("[{{args: {arguments}}}]")).has(&condition)
        };
        assert!(has(Condition::OpenDashboard, "['--dashboard=:9090']"));
        for off in ["", "0", "127.0.0.1:9090"] {
            assert!(!has(Condition::OpenDashboard, &format!("['--dashboard={off}']")), "{off}");
        }
        assert!(has(Condition::MetricsSecure, "[--metrics-secure]"));
        for off in ["", "0"] {
            let arguments = format!("[--metrics-secure, '--metrics-bind-address={off}']");
            assert!(!has(Condition::MetricsSecure, &arguments), "{off}");
        }
    }

    #[test]
    fn other_containers_do_not_count() {
        let proxy = "{args: [--namespace=proxy]}";
        let manager = "{args: [--leader-elect, --namespace=a]}";
        assert_eq!(watched(&format!("[{proxy}, {manager}]")), ["a"]);
        assert_eq!(watched(&format!("[{manager}, {proxy}]")), ["a"]);
        assert_eq!(watched("[{args: [run]}, {args: [--upstream=x], env: []}]"), ["all"]);
    }
}
