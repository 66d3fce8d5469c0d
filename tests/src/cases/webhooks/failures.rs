//! Webhooks that cannot be called, or that send invalid answers.

use serde_json::json;

use super::{Hooks, MUTATING, VALIDATING, rules, with};
use crate::Script;
use crate::fixtures::configmap;

/// A port without a listener.
const NOWHERE: &str = "https://127.0.0.1:1/x";

pub(in crate::cases) async fn webhook_that_cannot_be_reached(t: &mut Script) {
    for (name, policy) in [("fail", "Fail"), ("ignore", "Ignore")] {
        for collection in [MUTATING, VALIDATING] {
            let mut hooks = Hooks::start().await;
            let hook = with(hooks.hook(t, name, "/"), "failurePolicy", policy.into());
            let hook = with(hook, "clientConfig", json!({"url": NOWHERE}));
            hooks.install(t, collection, name, &[hook]).await;
            t.post(format!("{}?dryRun=All", t.configmaps()), configmap("a")).await;
            hooks.end(t).await;
        }
    }
}

pub(in crate::cases) async fn webhook_of_a_service_that_is_not_there(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let client = json!({"service": {"namespace": t.ns(), "name": "gone", "path": "/some/path/"}});
    let hook = with(hooks.hook(t, "a", "/"), "clientConfig", client);
    hooks.install(t, MUTATING, "a", &[hook]).await;
    t.post(t.configmaps(), configmap("a")).await;
    hooks.end(t).await;
}

pub(in crate::cases) async fn webhook_that_nobody_trusts(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let mut hook = hooks.hook(t, "a", "/allow");
    hook["clientConfig"].as_object_mut().expect("an object").remove("caBundle");
    hooks.install(t, MUTATING, "a", &[hook]).await;
    t.post(t.configmaps(), configmap("a")).await;
    hooks.end(t).await;
}

pub(in crate::cases) async fn webhook_that_is_too_slow(t: &mut Script) {
    for (name, policy) in [("fail", "Fail"), ("ignore", "Ignore")] {
        let mut hooks = Hooks::start().await;
        let hook = with(hooks.hook(t, name, "/slow"), "failurePolicy", policy.into());
        let hook = with(hook, "timeoutSeconds", 1.into());
        hooks.install(t, VALIDATING, name, &[hook]).await;
        t.post(t.configmaps(), configmap("a")).await;
        hooks.end(t).await;
    }
}

pub(in crate::cases) async fn webhook_that_answers_garbage(t: &mut Script) {
    for path in ["garbage", "empty", "error", "missing", "other-uid", "no-response", "old-version"]
    {
        let mut hooks = Hooks::start().await;
        let hook = hooks.hook(t, "a", &format!("/answer/{path}"));
        hooks.install(t, VALIDATING, path, &[hook]).await;
        t.post(t.configmaps(), configmap("a")).await;
        hooks.end(t).await;
    }
}

pub(in crate::cases) async fn patches_that_do_not_fit(t: &mut Script) {
    for path in ["nowhere", "type", "none", "unknown"] {
        let mut hooks = Hooks::start().await;
        let hook = hooks.hook(t, "a", &format!("/patch/{path}"));
        hooks.install(t, MUTATING, path, &[hook]).await;
        t.post(t.configmaps(), configmap("a")).await;
        hooks.end(t).await;
    }
}

pub(in crate::cases) async fn patches_of_what_cannot_be_changed(t: &mut Script) {
    t.given_configmaps(&["a"]).await;
    let mut hooks = Hooks::start().await;
    let hook = hooks.hook(t, "delete", "/patch/label");
    let hook = with(hook, "rules", rules(&["DELETE"], "", &["configmaps"]));
    hooks.install(t, MUTATING, "a", &[hook]).await;
    let hook = hooks.hook(t, "create", "/patch/label");
    let hook = with(hook, "rules", rules(&["CREATE"], "", &["configmaps"]));
    hooks.install(t, VALIDATING, "b", &[hook]).await;
    t.delete(t.configmap("a")).await;
    t.post(t.configmaps(), configmap("b")).await;
    hooks.end(t).await;
}

pub(in crate::cases) async fn validation_comes_between_the_webhooks(t: &mut Script) {
    let mut hooks = Hooks::start().await;
    let hook = hooks.hook(t, "a", "/note/x");
    hooks.install(t, MUTATING, "a", &[hook]).await;
    let hook = hooks.hook(t, "a", "/allow");
    hooks.install(t, VALIDATING, "a", &[hook]).await;
    t.post(t.configmaps(), with(configmap("a"), "data", json!({"not valid": "x"}))).await;
    hooks.note_paths(t);
    t.given(t.configmaps(), configmap("b")).await;
    hooks.note_paths(t);
    t.post(t.configmaps(), configmap("b")).await;
    hooks.note_paths(t);
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}});
    t.merge_patch(t.configmap("b"), stale).await;
    hooks.note_paths(t);
    hooks.end(t).await;
}
