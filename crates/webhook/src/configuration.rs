//! The objects that tell the API server about webhooks.
//!
//! They are types of this crate, because those of `k8s-openapi` differ between versions of
//! Kubernetes. What they say is derived from the code in `derive.rs`.

mod danger;
mod derive;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::review::Verb;

pub(crate) use derive::{configurations, conversion_of_crd};

/// Where the API server finds the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientTarget {
    /// A Service in the cluster.
    Service {
        /// The Service's namespace, which is that of the operator.
        namespace: String,
        /// The Service's name.
        name: String,
        /// The Service's port; 443 unless it is given.
        port: Option<u16>,
    },
    /// A base URL, such as `https://192.0.2.1:9443`: for an operator that runs outside of the
    /// cluster.
    Url(String),
}

/// A `MutatingWebhookConfiguration` and a `ValidatingWebhookConfiguration`, where there are
/// webhooks for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configurations {
    /// For the webhooks that change objects.
    pub mutating: Option<WebhookConfiguration>,
    /// For the webhooks that validate objects.
    pub validating: Option<WebhookConfiguration>,
}

/// A `MutatingWebhookConfiguration` or a `ValidatingWebhookConfiguration`. It serializes to what
/// the API server reads, as JSON or YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookConfiguration {
    /// `admissionregistration.k8s.io/v1`.
    pub api_version: String,
    /// `MutatingWebhookConfiguration` or `ValidatingWebhookConfiguration`.
    pub kind: String,
    /// With the name that was given.
    pub metadata: ObjectMeta,
    /// In the order in which they were added.
    pub webhooks: Vec<WebhookEntry>,
}

/// One webhook in a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookEntry {
    /// Unique, and shown in denials.
    pub name: String,
    /// Always `v1`.
    pub admission_review_versions: Vec<String>,
    /// Where the server calls it.
    pub client_config: ClientConfig,
    /// What it is called for.
    pub rules: Vec<Rule>,
    /// What happens if it fails.
    pub failure_policy: FailurePolicy,
    /// Whether other versions match.
    pub match_policy: MatchPolicy,
    /// Whether it changes anything but the object.
    pub side_effects: SideEffects,
    /// How long the server waits for it.
    pub timeout_seconds: u8,
    /// Whether it is called again. Only of mutating webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reinvocation_policy: Option<ReinvocationPolicy>,
    /// Which namespaces match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Which objects match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,
    /// Which requests match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_conditions: Vec<MatchCondition>,
}

impl Configurations {
    /// Those that are there, the mutating one first.
    pub fn iter(&self) -> impl Iterator<Item = &WebhookConfiguration> {
        self.mutating.iter().chain(&self.validating)
    }
}

/// Where the API server calls a webhook, and whose certificate it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// A Service in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// A full URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Certificates in PEM, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
}

/// A Service, and a path at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReference {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub name: String,
    /// The path of the webhook.
    pub path: String,
    /// The Service's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// What a webhook is called for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// `*` is all of them.
    pub api_groups: Vec<String>,
    /// `*` is all of them.
    pub api_versions: Vec<String>,
    /// `websites`, `websites/status`, `*`, `*/*`.
    pub resources: Vec<String>,
    /// What happens to the object.
    pub operations: Vec<Verb>,
    /// With or without a namespace.
    pub scope: Scope,
}

/// A CEL expression that must be true of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchCondition {
    /// Unique in its webhook.
    pub name: String,
    /// In CEL, over `object`, `oldObject`, `request` and `authorizer`.
    pub expression: String,
}

/// What happens to a request if its webhook cannot be called, panics or takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// It is refused.
    Fail,
    /// It goes on, with a warning where the webhook could still give one.
    Ignore,
}

/// Whether requests for other versions of a resource match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MatchPolicy {
    /// Only the version of the rule.
    Exact,
    /// The server converts the object to the version of the rule.
    Equivalent,
}

/// Whether a handler changes anything but the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SideEffects {
    /// It does not.
    None,
    /// It does, but not in a [dry run](crate::Admission::is_dry_run).
    NoneOnDryRun,
}

/// Whether a mutating webhook is called again if a later one changed the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReinvocationPolicy {
    /// Once for each request.
    Never,
    /// Once more.
    IfNeeded,
}

/// Which objects a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Those without a namespace.
    Cluster,
    /// Those in a namespace.
    Namespaced,
    /// Both.
    #[serde(rename = "*")]
    All,
}
