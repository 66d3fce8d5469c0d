//! Webhooks as their configurations describe them, in the order in which they are called.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::client::ClientConfig;
use crate::cel::Condition;
use crate::kinds::Registry;
use crate::store::Store;

/// One entry of `webhooks` in a configuration.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent field of the webhook")]
pub(crate) struct Hook {
    /// The name of the configuration.
    pub(super) configuration: String,
    pub(super) name: String,
    pub(super) client: ClientConfig,
    pub(super) rules: Vec<Rule>,
    /// Whether a write continues if the call of the webhook fails.
    pub(super) ignores_failure: bool,
    /// Whether rules also match other versions of the resources that they name.
    pub(super) matches_equivalent: bool,
    pub(super) namespace_selector: Value,
    pub(super) object_selector: Value,
    pub(super) conditions: Vec<Condition>,
    /// Whether the webhook may be called for a dry run.
    pub(super) is_free_of_side_effects: bool,
    pub(super) timeout: Duration,
    /// The version of the reviews that are sent to it, if it accepts a known one.
    pub(super) review_version: Option<&'static str>,
    /// Whether it is called again if others have changed the object after it.
    pub(super) is_reinvoked: bool,
}

/// The requests that a webhook is called for.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) operations: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) versions: Vec<String>,
    /// `pods`, `pods/status`, `pods/*`, `*`, `*/status`, `*/*`.
    pub(super) resources: Vec<String>,
    pub(super) scope: String,
}

/// The webhooks of all configurations, in the order of the configurations' names.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) mutating: Vec<Arc<Hook>>,
    pub(crate) validating: Vec<Arc<Hook>>,
}

impl Hooks {
    /// Reads the configurations from the store.
    pub(crate) fn read(store: &Store, registry: &Registry) -> Self {
        let of = |plural: &str| {
            let kind = registry.by_plural(super::GROUP, plural);
            let kind = kind.expect("configurations must be built in");
            let configurations = store.objects(kind.storage, "");
            configurations.flat_map(|(_, stored)| hooks_of(&stored.value())).collect()
        };
        Self {
            mutating: of("mutatingwebhookconfigurations"),
            validating: of("validatingwebhookconfigurations"),
        }
    }

    /// Returns whether there are no webhooks.
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }
}

fn hooks_of(configuration: &Map<String, Value>) -> Vec<Arc<Hook>> {
    let name = crate::fields::text(configuration, "name");
    let hooks = configuration.get("webhooks").and_then(Value::as_array);
    hooks.into_iter().flatten().map(|hook| Arc::new(Hook::read(name, hook))).collect()
}

impl Hook {
    fn read(configuration: &str, hook: &Value) -> Self {
        let text = |field: &str| hook[field].as_str().unwrap_or_default();
        let versions = texts(&hook["admissionReviewVersions"]);
        let known = |version: &String| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        };
        let conditions = hook["matchConditions"].as_array().into_iter().flatten();
        // Every condition compiles: a configuration with an invalid one is refused.
        let conditions = conditions
            .filter_map(|condition| Condition::compile(condition["expression"].as_str()?).ok());
        Self {
            configuration: configuration.to_owned(),
            name: text("name").to_owned(),
            client: ClientConfig::read(&hook["clientConfig"]),
            rules: hook["rules"].as_array().into_iter().flatten().map(Rule::read).collect(),
            ignores_failure: text("failurePolicy") == "Ignore",
            matches_equivalent: text("matchPolicy") == "Equivalent",
            namespace_selector: hook["namespaceSelector"].clone(),
            object_selector: hook["objectSelector"].clone(),
            conditions: conditions.collect(),
            is_free_of_side_effects: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10)),
            review_version: versions.iter().find_map(known),
            is_reinvoked: text("reinvocationPolicy") == "IfNeeded",
        }
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        }
    }
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
