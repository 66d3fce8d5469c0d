//! The types of an entry.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::VERSION;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// [`VERSION`], when it was written.
    pub version: u32,
    /// What was seen.
    #[serde(flatten)]
    pub fact: Fact,
    /// The test that saw it first, with its program, as in `reconcile website_becomes_ready`.
    pub test: Option<String>,
    /// The folder of the package of the test.
    pub package: Option<String>,
}

/// What a test has seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fact {
    /// A request that was sent.
    Request(Request),
    /// A right that the operator declares before anything runs.
    Declared(DeclaredRight),
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Request {
    /// As RBAC has it, as in `list`.
    pub verb: String,
    /// The resource, and the object as far as it is named.
    pub target: Target,
    /// The part of the operator that sent it.
    pub sender: Sender,
    /// What became of it.
    pub outcome: Outcome,
    /// What its body tells, if it writes.
    #[serde(default)]
    pub written: Written,
}

/// A resource, and as far as the request names them, an object of it and a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Target {
    /// The group; empty for the core group.
    pub group: String,
    /// As in `deployments`.
    pub plural: String,
    /// As in `status`.
    #[serde(default)]
    pub subresource: Option<String>,
    /// The namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The name of the object.
    #[serde(default)]
    pub name: Option<String>,
}

/// The part of an operator that sends a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// A run of the controller of this name.
    Controller(String),
    /// An informer, a task, or anything else.
    Operator,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// There is an answer with this status.
    Answered(u16),
    /// There is none: the connection broke, or nobody waited for it any more.
    Unanswered,
}

/// What the body of a write tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Written {
    /// The object has the label of children that a controller makes and removes.
    pub is_child: bool,
    /// The write is for one version or uid of the object alone.
    pub is_conditional: bool,
    /// The owners that the object names, of the kinds that the controller watches.
    pub owners: Vec<Owner>,
}

/// An owner that an object names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// The group; empty for the core group.
    pub group: String,
    /// As in `deployments`.
    pub plural: String,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
    /// Whether it is the controller of the object.
    pub is_controller: bool,
    /// Whether the object blocks its deletion.
    pub is_blocked: bool,
}

/// A right that an operator declares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeclaredRight {
    /// The right.
    pub right: Right,
    /// What needs it, for people: `controller website watches deployments.apps`.
    pub reason: String,
    /// When it is needed.
    pub condition: Condition,
}

/// A right as RBAC has it: a verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Right {
    /// As in `list`.
    pub verb: String,
    /// The group; empty for the core group.
    pub group: String,
    /// As in `deployments`.
    pub plural: String,
    /// As in `status`.
    #[serde(default)]
    pub subresource: Option<String>,
    /// Where it is needed.
    pub scope: Scope,
    /// The only object that it is needed for; `None` for all.
    #[serde(default)]
    pub name: Option<String>,
}

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In the namespaces that the operator watches, which may be all of them.
    Watched,
    /// In the namespace that the operator runs in.
    Own,
}

/// When a declared right is needed. The options of a test are not those of the deployment, so the
/// arguments in the manifests decide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// In any case.
    Always,
    /// Unless there is `--leader-elect=false`.
    LeaderElect,
    /// With `--metrics-secure`.
    MetricsSecure,
    /// With `--dashboard` on an address that other machines reach.
    OpenDashboard,
    /// Unless there is `--webhook-cert-path`.
    OwnCertificates,
    /// If the manifests do not contain the CRD of this name, so that the operator has to create it.
    NotInstalled(String),
}

impl Entry {
    /// An entry of the present [`VERSION`].
    pub fn new(fact: Fact, test: Option<String>, package: Option<String>) -> Self {
        Self { version: VERSION, fact, test, package }
    }
}

impl Request {
    /// Whether RBAC can limit the verb to the name of an object.
    pub fn has_named_verb(&self) -> bool {
        matches!(&*self.verb, "get" | "update" | "patch" | "delete")
    }
}

impl fmt::Display for Request {
    /// As in `patch deployments.apps/status shop/web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.target)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (Some(namespace), None) => write!(f, " in {namespace}"),
            (None, Some(name)) => write!(f, " {name}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Sender {
    /// As in `controller website`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(name) => write!(f, "controller {name}"),
            Self::Operator => f.write_str("the operator"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The format, as other versions of the programs will find it: a change of it needs a new
    /// [`VERSION`].
    #[test]
    fn format_of_version_1_is_this() {
        let request = Request {
            verb: "patch".to_owned(),
            target: Target {
                group: "apps".to_owned(),
                plural: "deployments".to_owned(),
                subresource: Some("status".to_owned()),
                namespace: Some("shop".to_owned()),
                name: Some("web".to_owned()),
            },
            sender: Sender::Controller("website".to_owned()),
            outcome: Outcome::Answered(201),
            written: Written {
                is_child: true,
                is_conditional: false,
                owners: vec![Owner {
                    group: "example.com".to_owned(),
                    plural: "websites".to_owned(),
                    is_namespaced: true,
                    is_controller: true,
                    is_blocked: false,
                }],
            },
        };
        assert_eq!(request.to_string(), "patch deployments.apps/status shop/web");
        let seen = Entry::new(Fact::Request(request), Some("a test".to_owned()), None);
        let declared = DeclaredRight {
            right: Right {
                verb: "create".to_owned(),
                group: String::new(),
                plural: "secrets".to_owned(),
                subresource: None,
                scope: Scope::Own,
                name: None,
            },
            reason: "certificates".to_owned(),
            condition: Condition::NotInstalled("websites.example.com".to_owned()),
        };
        let declared = Entry::new(Fact::Declared(declared), None, Some("/shop".to_owned()));
        for (entry, expected) in [
            (
                seen,
                json!({
                    "version": 1, "kind": "request", "verb": "patch",
                    "target": {
                        "group": "apps", "plural": "deployments", "subresource": "status",
                        "namespace": "shop", "name": "web",
                    },
                    "sender": {"controller": "website"}, "outcome": {"answered": 201},
                    "written": {
                        "is_child": true, "is_conditional": false,
                        "owners": [{
                            "group": "example.com", "plural": "websites", "is_namespaced": true,
                            "is_controller": true, "is_blocked": false,
                        }],
                    },
                    "test": "a test", "package": null,
                }),
            ),
            (
                declared,
                json!({
                    "version": 1, "kind": "declared",
                    "right": {
                        "verb": "create", "group": "", "plural": "secrets", "subresource": null,
                        "scope": "own", "name": null,
                    },
                    "reason": "certificates",
                    "condition": {"not_installed": "websites.example.com"},
                    "test": null, "package": "/shop",
                }),
            ),
        ] {
            assert_eq!(serde_json::to_value(&entry).expect("JSON"), expected);
            assert_eq!(serde_json::from_value::<Entry>(expected).expect("an entry"), entry);
        }
    }
}
