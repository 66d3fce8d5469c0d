//! The validation and the defaults of configurations.

use serde_json::{Value, json};

use super::{Hooks, MUTATING, VALIDATING, rules, with};
use crate::Script;

fn configuration(t: &Script, kind: &str, webhooks: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": t.ns()},
        "webhooks": webhooks,
    })
}

/// A webhook that is never called.
fn idle() -> Value {
    json!({
        "name": "a.windlass.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": {"namespace": "n", "name": "s"}},
        "rules": rules(&["CREATE"], "idle.windlass.dev", &["nothing"]),
    })
}

pub(in crate::cases) async fn configurations_get_defaults(t: &mut Script) {
    for (collection, kind) in
        [(MUTATING, "MutatingWebhookConfiguration"), (VALIDATING, "ValidatingWebhookConfiguration")]
    {
        let object = configuration(t, kind, &json!([idle()]));
        t.post(collection, object).await;
        let path = format!("{collection}/{}", t.ns());
        let change = json!({"webhooks": [with(idle(), "timeoutSeconds", 3.into())]});
        t.merge_patch(path.clone(), change).await;
        t.put(path.clone(), configuration(t, kind, &json!([]))).await;
        t.delete(path).await;
    }
}

pub(in crate::cases) async fn configurations_that_are_invalid(t: &mut Script) {
    let hooks = json!([
        {
            "name": "x",
            "clientConfig": {},
            "matchConditions": [
                {"name": "", "expression": "object.x =="},
                {"name": "a b", "expression": "object.x"},
                {"name": "a b", "expression": ""},
                {"name": "d", "expression": "request.nix == 1"},
            ],
            "rules": [{}],
            "timeoutSeconds": 40,
            "failurePolicy": "X",
            "sideEffects": "Some",
            "namespaceSelector": {
                "matchLabels": {"a b": "c"},
                "matchExpressions": [{"key": "a", "operator": "In"}, {"key": "b", "operator": "X"}],
            },
        },
        {
            "name": "",
            "admissionReviewVersions": ["v2"],
            "clientConfig": {"url": "http://user@x/y?z#f"},
            "sideEffects": "None",
            "matchPolicy": "Y",
            "rules": [{
                "operations": ["*", "GET"],
                "apiGroups": ["*", ""],
                "apiVersions": ["*", ""],
                "resources": ["*", "x", "a/*", "a/b", "*/*", ""],
                "scope": "Z",
            }],
        },
        {
            "name": "a.b.c",
            "admissionReviewVersions": ["v1", "v1"],
            "clientConfig": {"service": {"name": "", "namespace": "", "port": 0, "path": "a//B/"}},
            "rules": [],
        },
        with(idle(), "name", "a.b.c".into()),
    ]);
    let mutating = configuration(t, "MutatingWebhookConfiguration", &hooks);
    t.post(MUTATING, mutating).await;
    t.post(VALIDATING, configuration(t, "ValidatingWebhookConfiguration", &hooks)).await;
}

pub(in crate::cases) async fn configurations_are_not_admitted_by_webhooks(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let hook = hooks.hook(t, "deny", "/deny");
    let group = "admissionregistration.k8s.io";
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let hook = with(hook, "rules", rules(&["*"], group, &configurations));
    hooks.install(t, VALIDATING, "a", &[hook]).await;
    let object = configuration(t, "MutatingWebhookConfiguration", &json!([idle()]));
    t.post(format!("{MUTATING}?dryRun=All"), object).await;
    hooks.note_paths(t);
    hooks.end(t).await;
}
