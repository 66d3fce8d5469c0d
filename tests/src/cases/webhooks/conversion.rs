//! Conversion of custom resources by a webhook.

use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{CRDS, definition};
use crate::hook_server::HookServer;
use crate::request::Request;
use crate::script::MERGE_PATCH;

/// The group of the case's kind.
fn group(t: &Script) -> String {
    format!("{}.example.dev", t.ns())
}

/// The path of the collection in a version.
fn things(t: &Script, version: &str) -> String {
    format!("/apis/{}/{version}/namespaces/{}/things", group(t), t.ns())
}

fn thing(t: &Script, name: &str, version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{}/{version}", group(t)),
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// A kind with two versions and the conversion webhook at this path.
fn converting(t: &Script, server: &HookServer, path: &str) -> Value {
    let mut whole = definition("things", "Thing", &group(t));
    let version = |name: &str, storage: bool, size: Value| {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": size},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        }});
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema}})
    };
    let size = json!({"type": "integer", "maximum": 10});
    let color = json!({"type": "string", "nullable": true});
    whole["spec"]["versions"] = json!([
        version("v1", true, json!({"size": size, "color": color})),
        version(
            "v2",
            false,
            json!({"color": color,
            "dimensions": {"type": "object", "properties": {"size": size}}})
        ),
    ]);
    whole["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": server.client(path),
        },
    });
    whole
}

async fn install(t: &mut Script, path: &str) -> HookServer {
    let server = HookServer::start().await;
    let definition = converting(t, &server, path);
    let (v1, v2) = (things(t, "v1"), things(t, "v2"));
    t.install(definition, &[&v1, &v2]).await;
    server
}

async fn end(t: &mut Script, server: HookServer) {
    let path = format!("{CRDS}/things.{}", group(t));
    t.unrecorded(&Request::delete(path)).await;
    drop(server);
}

pub(in crate::cases) async fn object_is_read_in_another_version(t: &mut Script) {
    let server = install(t, "/convert").await;
    let v1 = thing(t, "a", "v1", &json!({"size": 3, "color": "red"}));
    t.post(things(t, "v1"), v1).await;
    t.get(format!("{}/a", things(t, "v2"))).await;
    t.get(format!("{}/a", things(t, "v1"))).await;
    end(t, server).await;
}

pub(in crate::cases) async fn object_is_written_in_another_version(t: &mut Script) {
    let server = install(t, "/convert").await;
    let v2 = thing(t, "a", "v2", &json!({"dimensions": {"size": 3}, "color": "red"}));
    t.post(things(t, "v2"), v2).await;
    let path = format!("{}/a", things(t, "v2"));
    t.get(format!("{}/a", things(t, "v1"))).await;
    t.merge_patch(path.clone(), json!({"spec": {"dimensions": {"size": 4}}})).await;
    let status = json!({"status": {"phase": "x"}});
    t.merge_patch(format!("{path}/status"), status).await;
    let held = t.get(path.clone()).await;
    t.put(path.clone(), held.edited(|object| object["spec"]["color"] = "blue".into())).await;
    t.merge_patch(path.clone(), json!({"spec": {"dimensions": {"size": 11}}})).await;
    t.get(format!("{}/a", things(t, "v1"))).await;
    t.delete(path).await;
    end(t, server).await;
}

pub(in crate::cases) async fn objects_are_listed_in_another_version(t: &mut Script) {
    let server = install(t, "/convert").await;
    for name in ["a", "b", "c"] {
        let object = thing(t, name, "v1", &json!({"size": 1, "color": name}));
        t.given(things(t, "v1"), object).await;
    }
    t.get(things(t, "v2")).await;
    t.get(format!("{}?limit=2", things(t, "v1"))).await;
    end(t, server).await;
}

pub(in crate::cases) async fn objects_are_watched_in_another_version(t: &mut Script) {
    let server = install(t, "/convert").await;
    let object = thing(t, "a", "v1", &json!({"size": 1, "color": "red"}));
    t.given(things(t, "v1"), object).await;
    let mut watch = t.watch(format!("{}?watch=1", things(t, "v2"))).await;
    watch.next().await;
    let change = json!({"spec": {"size": 2}});
    t.merge_patch(format!("{}/a", things(t, "v1")), change).await;
    watch.next().await;
    t.delete(format!("{}/a", things(t, "v1"))).await;
    watch.next().await;
    end(t, server).await;
}

pub(in crate::cases) async fn conversion_that_fails(t: &mut Script) {
    let server = install(t, "/convert").await;
    let object = thing(t, "a", "v1", &json!({"size": 1, "color": "cursed"}));
    t.given(things(t, "v1"), object).await;
    t.get(format!("{}/a", things(t, "v2"))).await;
    t.get(things(t, "v2")).await;
    let path = format!("{}/a", things(t, "v2"));
    t.merge_patch(path.clone(), json!({"spec": {"color": "red"}})).await;
    let cursed = thing(t, "b", "v2", &json!({"dimensions": {"size": 1}, "color": "cursed"}));
    t.post(things(t, "v2"), cursed).await;
    t.delete(path).await;
    t.get(format!("{}/a", things(t, "v1"))).await;
    end(t, server).await;
}

pub(in crate::cases) async fn conversion_that_changes_too_much(t: &mut Script) {
    for (path, name) in [("/convert/renamed", "a"), ("/convert/too-few", "b")] {
        let server = install(t, path).await;
        let object = thing(t, name, "v1", &json!({"size": 1, "color": "red"}));
        t.given(things(t, "v1"), object).await;
        t.get(format!("{}/{name}", things(t, "v2"))).await;
        t.get(things(t, "v2")).await;
        end(t, server).await;
        let gone = format!("{CRDS}/things.{}", group(t));
        let (_, is_gone) = t.poll(&Request::get(gone), |answer| answer.status == 404).await;
        assert!(is_gone, "the definition must go");
    }
}

pub(in crate::cases) async fn objects_are_defaulted_by_the_version_that_they_are_stored_in(
    t: &mut Script,
) {
    let server = install(t, "/convert").await;
    let older = thing(t, "a", "v1", &json!({"color": "red"}));
    t.given(things(t, "v1"), older).await;
    // From now on, `v2` is the storage version, and each version has a default.
    let mut definition = converting(t, &server, "/convert");
    let versions = &mut definition["spec"]["versions"];
    for (at, field) in [(0, "size"), (1, "depth")] {
        let schema = &mut versions[at]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["properties"][field] =
            json!({"type": "integer", "default": 7});
        versions[at]["storage"] = json!(at == 1);
    }
    let change = json!({"spec": {"versions": versions}});
    let path = format!("{CRDS}/things.{}", group(t));
    t.unrecorded(&Request::patch(path, MERGE_PATCH, change)).await;
    let (a, b) = (format!("{}/a", things(t, "v1")), format!("{}/b", things(t, "v1")));
    let is_defaulted = |answer: &Answer| answer.at("/spec/size") == json!(7);
    t.wait_until(a.clone(), "defaulted", is_defaulted).await;
    t.get(format!("{}/a", things(t, "v2"))).await;
    let newer = thing(t, "b", "v1", &json!({"color": "blue"}));
    t.post(things(t, "v1"), newer).await;
    t.get(b.clone()).await;
    t.get(format!("{}/b", things(t, "v2"))).await;
    // After a write, it is stored in the new version.
    t.merge_patch(a.clone(), json!({"spec": {"color": "green"}})).await;
    t.get(format!("{}/a", things(t, "v2"))).await;
    end(t, server).await;
}

pub(in crate::cases) async fn conversions_that_are_invalid(t: &mut Script) {
    let whole = definition("things", "Thing", &group(t));
    for conversion in [
        json!({"strategy": "Webhook"}),
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v3"],
            "clientConfig": {"url": "http://x", "service": {"name": "a", "namespace": "b"}}}}),
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1", "v1"],
            "clientConfig": {"url": "http://x?y"}}}),
        json!({"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://x"}}}),
    ] {
        let mut object = whole.clone();
        object["spec"]["conversion"] = conversion;
        t.post(CRDS, object).await;
    }
}
