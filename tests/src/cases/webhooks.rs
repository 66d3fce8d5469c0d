//! Webhooks: admission ([`admission`], [`failures`]), conversion ([`conversion`]), and the
//! validation of configurations ([`configurations`]).
//!
//! The webhooks run in the test process ([`HookServer`]) and are called by URL. A configuration
//! selects only the namespace of its case, because cases run concurrently on the real server.

mod admission;
mod configurations;
mod conversion;
mod failures;

use serde_json::{Value, json};

pub(super) use self::admission::*;
pub(super) use self::configurations::*;
pub(super) use self::conversion::*;
pub(super) use self::failures::*;
use crate::Script;
use crate::fixtures::configmap;
use crate::hook_server::HookServer;
use crate::request::Request;

/// The collections of configurations.
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// How often to check whether a real server uses a new configuration.
const POLL_PERIOD: std::time::Duration = std::time::Duration::from_millis(50);

/// The webhooks of a case.
struct Hooks {
    server: HookServer,
    /// The paths of the configurations.
    installed: Vec<String>,
}

impl Hooks {
    async fn start() -> Self {
        Self { server: HookServer::start().await, installed: Vec::new() }
    }

    /// A webhook for all writes of config maps in the namespace of the case.
    fn hook(&self, t: &Script, name: &str, path: &str) -> Value {
        json!({
            "name": format!("{name}.windlass.dev"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": self.server.client(path),
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"],
                "resources": ["configmaps"]}],
            "timeoutSeconds": 5,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": t.ns()}},
            "objectSelector": {"matchExpressions": [{"key": "probe", "operator": "DoesNotExist"}]},
        })
    }

    /// Installs a configuration, and waits until the server uses it. Not recorded.
    async fn install(&mut self, t: &mut Script, collection: &str, name: &str, hooks: &[Value]) {
        let name = format!("{}-{name}", t.ns());
        let probe = format!("/probe/{}-{name}", if collection == MUTATING { "m" } else { "v" });
        let mut first = self.hook(t, "probe", &probe);
        first["objectSelector"] = json!({"matchLabels": {"probe": name}});
        let kind = if collection == MUTATING { "Mutating" } else { "Validating" };
        let all = [&[first], hooks].concat();
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"name": name},
            "webhooks": all,
        });
        let answer = t.unrecorded(&Request::post(collection, configuration)).await;
        assert_eq!(answer.status, 201, "the configuration must be valid: {}", answer.body);
        self.installed.push(format!("{collection}/{name}"));
        let mut object = configmap("probe");
        object["metadata"]["labels"] = json!({"probe": name});
        let request = Request::post(format!("{}?dryRun=All", t.configmaps()), object);
        while self.server.count(&probe) == 0 {
            t.unrecorded(&request).await;
            tokio::time::sleep(POLL_PERIOD).await;
        }
        self.server.take();
    }

    /// Records the reviews that webhooks received since the last call.
    fn note(&self, t: &mut Script) {
        let calls = self.server.take().into_iter().map(|(path, review)| {
            let mut request = review["request"].clone();
            // The user is the subject of other cases.
            let fields = request.as_object_mut().expect("a review must have a request");
            fields.remove("userInfo");
            json!({"path": path, "request": request})
        });
        let calls: Vec<Value> = calls.collect();
        t.note("reviews", &json!(calls));
    }

    /// Records the paths that were called since the last call.
    fn note_paths(&self, t: &mut Script) {
        let paths: Vec<String> = self.server.take().into_iter().map(|(path, _)| path).collect();
        t.note("called", &json!(paths));
    }

    /// Removes the configurations.
    async fn end(self, t: &mut Script) {
        for path in &self.installed {
            t.unrecorded(&Request::delete(path)).await;
        }
    }
}

/// Returns the hook with another value of a field.
fn with(mut hook: Value, field: &str, value: Value) -> Value {
    hook[field] = value;
    hook
}

/// Returns the rules of a hook for these resources.
fn rules(operations: &[&str], group: &str, resources: &[&str]) -> Value {
    json!([{"operations": operations, "apiGroups": [group], "apiVersions": ["*"],
        "resources": resources}])
}
