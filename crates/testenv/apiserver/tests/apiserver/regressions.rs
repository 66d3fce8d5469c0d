//! Regression tests for former bugs, one test each.

use std::time::Duration;

use crate::support::{
    CONFIG_MAPS, Next, call, config_map, create, get, post, send, server, set, version, watch,
};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use windlass_apiserver::{ApiServer, Fault, FaultRule};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES: &str = "/api/v1/namespaces";

/// Returns a definition of `plural.example.dev` that keeps every field. `version` adds fields to
/// its version.
fn definition(plural: &str, kind: &str, version: &Value) -> Value {
    let mut one = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    for (field, value) in version.as_object().into_iter().flatten() {
        one[field] = value.clone();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.dev")},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind}, "versions": [one],
        },
    })
}

async fn define(server: &ApiServer, definition: Value) {
    let (status, body) = post(server, DEFINITIONS, definition).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
}

async fn patch_json(server: &ApiServer, path: &str, operations: &Value) -> StatusCode {
    let body = operations.to_string().into_bytes();
    let answer = send(server, Method::PATCH, path, "application/json-patch+json", body).await;
    answer.expect("an answer").status()
}

async fn delete(server: &ApiServer, path: &str, policy: &str) -> (StatusCode, Value) {
    call(server, Method::DELETE, path, Some(json!({"propagationPolicy": policy}))).await
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

#[tokio::test]
async fn a_namespace_with_a_finalizer_waits_for_it() {
    let server = server();
    let namespace = json!({"metadata": {"name": "n", "finalizers": ["a/b"]}});
    post(&server, NAMESPACES, namespace).await;
    let path = format!("{NAMESPACES}/n");
    assert_eq!(delete(&server, &path, "Background").await.0, StatusCode::OK);
    let (status, held) = get(&server, &path).await;
    assert_eq!((status, &held["spec"]), (StatusCode::OK, &json!({})));
    call(&server, Method::PATCH, &path, Some(json!({"metadata": {"finalizers": null}}))).await;
    assert_eq!(get(&server, &path).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_namespace_is_held_by_foreign_finalizers_of_its_spec() {
    let server = server();
    post(
        &server,
        NAMESPACES,
        json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["x.dev/y"]}}),
    )
    .await;
    delete(&server, &format!("{NAMESPACES}/n"), "Background").await;
    let (_, held) = get(&server, &format!("{NAMESPACES}/n")).await;
    assert_eq!(held["spec"]["finalizers"], json!(["x.dev/y"]));
}

#[tokio::test]
async fn copies_in_a_patch_can_explode_neither_in_depth_nor_in_size() {
    let server = server();
    define(&server, definition("widgets", "Widget", &json!({}))).await;
    let widgets = "/apis/example.dev/v1/namespaces/default/widgets";
    let widget = json!({
        "apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"a": {"text": "x".repeat(1000)}},
    });
    post(&server, widgets, widget).await;
    let path = format!("{widgets}/w");
    let deep: Vec<Value> =
        (0..200).map(|_| json!({"op": "copy", "from": "/spec/a", "path": "/spec/a/a"})).collect();
    assert_eq!(patch_json(&server, &path, &deep.into()).await, StatusCode::UNPROCESSABLE_ENTITY);
    let wide: Vec<Value> = (0..40)
        .map(|n| json!({"op": "copy", "from": "/spec", "path": format!("/spec/b{n}")}))
        .collect();
    assert_eq!(patch_json(&server, &path, &wide.into()).await, StatusCode::UNPROCESSABLE_ENTITY);
    let mut nested = json!(1);
    for _ in 0..120 {
        nested = json!({"n": nested});
    }
    let add = json!([{"op": "add", "path": "/spec/a/b/c", "value": 1}]);
    assert_eq!(patch_json(&server, &path, &add).await, StatusCode::UNPROCESSABLE_ENTITY);
    let add = json!([{"op": "add", "path": "/spec/deep", "value": nested}, {"op": "move", "from": "/spec/deep", "path": "/spec/a/deep"}]);
    let status = patch_json(&server, &path, &add).await;
    assert!(status == StatusCode::OK || status == StatusCode::UNPROCESSABLE_ENTITY, "{status}");
    assert_eq!(
        delete(&server, &path, "Background").await.0,
        StatusCode::OK,
        "it must stay readable"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_ask_for_more_time_than_there_is() {
    let server = server();
    let mut lines = watch(&server, "&timeoutSeconds=9223372036854775807").await;
    create(&server, "a").await;
    assert_eq!(lines.event().await.1, "a");
}

#[tokio::test]
async fn events_are_selected_alike_through_both_groups() {
    let server = server();
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "action": "A", "reason": "R", "type": "Normal",
        "reportingController": "c", "reportingInstance": "i", "note": "n",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    let (status, body) = post(&server, new, event).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let core = "/api/v1/namespaces/default/events";
    for (path, selector) in [
        (core, "involvedObject.name=p"),
        (core, "reason=R"),
        (core, "type=Normal"),
        (new, "regarding.name=p"),
        (new, "reason=R"),
    ] {
        let (_, list) =
            get(&server, &format!("{path}?fieldSelector={}", selector.replace('=', "%3D"))).await;
        assert_eq!(names(&list), ["e"], "{selector}");
    }
}

#[tokio::test]
async fn a_changed_definition_is_seen_in_its_objects_and_ends_its_watches() {
    let server = server();
    let fields = |paths: &[&str]| {
        json!(paths.iter().map(|path| json!({"jsonPath": path})).collect::<Vec<_>>())
    };
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "string"}, "d": {"type": "string"}}}}}});
    let version_of = |selectable: Value, schema: &Value| json!({"selectableFields": selectable, "schema": schema});
    define(&server, definition("widgets", "Widget", &version_of(fields(&[".spec.a"]), &schema)))
        .await;
    let widgets = "/apis/example.dev/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "x"},
        "spec": {"a": "AA", "b": "BB"}});
    let (_, made) = post(&server, widgets, widget).await;

    let mut defaulted = schema.clone();
    defaulted["openAPIV3Schema"]["properties"]["spec"]["properties"]["d"]["default"] = "D".into();
    let changed =
        definition("widgets", "Widget", &version_of(fields(&[".spec.b", ".spec.a"]), &defaulted));
    let change = json!({"spec": {"versions": changed["spec"]["versions"]}});
    let (status, body) =
        call(&server, Method::PATCH, &format!("{DEFINITIONS}/widgets.example.dev"), Some(change))
            .await;
    assert_eq!(status, StatusCode::OK, "{body}");

    for (selector, found) in [("spec.a%3DAA", 1), ("spec.b%3DBB", 1), ("spec.b%3DAA", 0)] {
        let (_, list) = get(&server, &format!("{widgets}?fieldSelector={selector}")).await;
        assert_eq!(names(&list).len(), found, "{selector}");
    }
    let (_, seen) = get(&server, &format!("{widgets}/x")).await;
    assert_eq!(seen["spec"]["d"], "D");
    assert_eq!(version(&seen), version(&made), "a default is no change");
}

fn owned(name: &str, owner: &Value) -> Value {
    let mut child = config_map(name, "0");
    child["metadata"]["ownerReferences"] = json!([owner]);
    child
}

fn reference(owner: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true})
}

#[tokio::test]
async fn garbage_is_what_has_no_owner_of_that_uid_kind_and_name() {
    let server = server();
    let (_, owner) = post(&server, CONFIG_MAPS, config_map("owner", "0")).await;
    let with = |field: &str, value: &str| {
        let mut changed = reference(&owner);
        changed[field] = value.into();
        changed
    };
    for (name, reference, kept) in [
        ("right", reference(&owner), true),
        ("unknown-kind", with("apiVersion", "nope.dev/v1"), true),
        ("wrong-name", with("name", "other"), false),
        ("wrong-kind", with("kind", "Secret"), false),
        ("wrong-uid", with("uid", "00000000-0000-0000-0000-000000000000"), false),
    ] {
        post(&server, CONFIG_MAPS, owned(name, &reference)).await;
        let found = get(&server, &format!("{CONFIG_MAPS}/{name}")).await.0 == StatusCode::OK;
        assert_eq!(found, kept, "{name}");
    }
}

#[tokio::test]
async fn two_that_own_each_other_go_together() {
    let server = server();
    let (_, a) = post(&server, CONFIG_MAPS, config_map("a", "0")).await;
    let (_, b) = post(&server, CONFIG_MAPS, owned("b", &reference(&a))).await;
    let change = json!({"metadata": {"ownerReferences": [reference(&b)]}});
    call(&server, Method::PATCH, &format!("{CONFIG_MAPS}/a"), Some(change)).await;
    delete(&server, &format!("{CONFIG_MAPS}/a"), "Foreground").await;
    assert_eq!(names(&get(&server, CONFIG_MAPS).await.1), [""; 0]);
}

#[tokio::test]
async fn a_second_delete_with_another_policy_leaves_no_zombie() {
    let server = server();
    let (_, owner) = post(&server, CONFIG_MAPS, config_map("owner", "0")).await;
    let mut child = owned("child", &reference(&owner));
    child["metadata"]["finalizers"] = json!(["a/b"]);
    post(&server, CONFIG_MAPS, child).await;
    let path = format!("{CONFIG_MAPS}/owner");
    delete(&server, &path, "Foreground").await;
    assert_eq!(get(&server, &path).await.0, StatusCode::OK, "it waits for its child");
    delete(&server, &path, "Background").await;
    assert_eq!(get(&server, &path).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_restored_server_ends_watches_that_nobody_looked_at() {
    let server = server();
    let snapshot = server.snapshot();
    for name in ["a", "b", "c"] {
        create(&server, name).await;
    }
    let from = server.revision();
    let mut lines = watch(&server, &format!("&resourceVersion={from}")).await;
    server.restore(&snapshot);
    for name in ["d", "e", "f", "g", "h"] {
        create(&server, name).await;
    }
    assert_eq!(lines.next().await, Next::End, "it must not go on in another history");
}

#[tokio::test(start_paused = true)]
async fn compaction_leaves_watches_alone_that_have_seen_everything() {
    let server = server();
    let from = create(&server, "a").await;
    let mut lines = watch(&server, &format!("&resourceVersion={from}")).await;
    let idle = timeout(Duration::from_secs(1), lines.next()).await;
    assert!(idle.is_err(), "nothing has changed yet");
    post(&server, "/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await;
    server.compact();
    set(&server, "a", "1").await;
    assert_eq!(lines.event().await.0, "MODIFIED");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_never_catches_up_is_ended_in_time() {
    let server = server();
    create(&server, "a").await;
    let start = Instant::now();
    let mut lines = watch(&server, "&timeoutSeconds=5").await;
    for value in 0..1000 {
        set(&server, "a", &value.to_string()).await;
    }
    loop {
        match lines.next().await {
            Next::End => break,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        set(&server, "a", &format!("at {:?}", start.elapsed())).await;
        assert!(start.elapsed() < Duration::from_secs(6), "the watch must end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_event_delays_none_before_it_and_outlasts_no_timeout() {
    let server = server();
    let from = create(&server, "a").await;
    server.faults().add(FaultRule::new(Fault::DelayEvent(Duration::from_hours(1))).after(2));
    let mut lines = watch(&server, &format!("&timeoutSeconds=60&resourceVersion={from}")).await;
    let start = Instant::now();
    for value in ["1", "2", "3"] {
        set(&server, "a", value).await;
    }
    lines.event().await;
    lines.event().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(lines.next().await, Next::End);
    assert_eq!(start.elapsed(), Duration::from_mins(1));
}

#[tokio::test]
async fn a_definition_whose_names_become_free_is_established() {
    let server = server();
    define(&server, definition("widgets", "Widget", &json!({}))).await;
    define(&server, definition("gizmos", "Widget", &json!({}))).await;
    let gizmos = "/apis/example.dev/v1/namespaces/default/gizmos";
    assert_eq!(get(&server, gizmos).await.0, StatusCode::NOT_FOUND);
    delete(&server, &format!("{DEFINITIONS}/widgets.example.dev"), "Background").await;
    assert_eq!(get(&server, gizmos).await.0, StatusCode::OK);
}

#[tokio::test]
async fn deletecollection_deletes_what_it_answers_with() {
    let server = server();
    for name in ["a", "b", "c", "d", "e"] {
        create(&server, name).await;
    }
    let (_, gone) = call(&server, Method::DELETE, &format!("{CONFIG_MAPS}?limit=2"), None).await;
    assert_eq!(names(&gone), ["a", "b"]);
    assert_eq!(names(&get(&server, CONFIG_MAPS).await.1), ["c", "d", "e"]);
}

#[tokio::test]
async fn a_stale_list_is_never_older_than_history() {
    let server = server();
    for name in ["a", "b", "c"] {
        create(&server, name).await;
    }
    server.compact();
    server.faults().add(FaultRule::new(Fault::StaleRead { revisions: 2 }));
    let (_, list) = get(&server, CONFIG_MAPS).await;
    assert_eq!(names(&list), ["a", "b", "c"]);
    assert_eq!(version(&list), server.revision().to_string());
}

#[tokio::test]
async fn no_debug_output_shows_an_object_or_a_token() {
    let server = ApiServer::builder()
        .token("the-token", windlass_apiserver::User::named("u"))
        .rule(windlass_apiserver::Rule::allow())
        .build();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "the-secret"}});
    let (status, body) = post(&server, "/api/v1/namespaces/default/secrets", secret).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let shown = format!("{server:?} {:?} {:?}", server.service(), server.snapshot());
    for hidden in ["the-token", "the-secret", "dGhlLXNlY3JldA=="] {
        assert!(!shown.contains(hidden), "{hidden} shows");
    }
}

#[tokio::test]
async fn a_scale_must_be_one_of_the_object() {
    let server = server();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let (status, body) = post(&server, deployments, deployment).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let path = format!("{deployments}/d/scale");
    for bad in [
        json!([]),
        json!({"metadata": {"name": "other"}, "spec": {"replicas": 3}}),
        json!({"kind": "Pod", "apiVersion": "v1", "spec": {"replicas": 3}}),
        json!({"spec": {"replicas": 99_999_999_999_i64}}),
    ] {
        let (status, body) = call(&server, Method::PUT, &path, Some(bad)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    }
    let good = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}});
    assert_eq!(call(&server, Method::PUT, &path, Some(good)).await.1["spec"]["replicas"], 3);
}

#[tokio::test]
async fn a_generation_at_its_end_wraps() {
    let server = server();
    let mut object = config_map("a", "0");
    object["metadata"]["generation"] = i64::MAX.into();
    object["metadata"]["finalizers"] = json!(["a/b"]);
    post(&server, CONFIG_MAPS, object).await;
    assert_eq!(delete(&server, &format!("{CONFIG_MAPS}/a"), "Background").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_binding_and_an_eviction_must_fit_their_pod() {
    let server = server();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p", "finalizers": ["a/b"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (status, body) = post(&server, pods, pod).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let bind = async |metadata: Value| {
        let binding = json!({"metadata": metadata, "target": {"kind": "Node", "name": "n"}});
        post(&server, &format!("{pods}/p/binding"), binding).await.0
    };
    assert_eq!(bind(json!({"name": "other"})).await, StatusCode::BAD_REQUEST);
    assert_eq!(bind(json!({"name": "p", "uid": "another"})).await, StatusCode::CONFLICT);
    let eviction = json!({"metadata": {"name": "other"}});
    let (status, _) = post(&server, &format!("{pods}/p/eviction"), eviction).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    delete(&server, &format!("{pods}/p"), "Background").await;
    assert_eq!(bind(json!({"name": "p"})).await, StatusCode::CONFLICT, "it is being deleted");
}

#[tokio::test]
async fn a_definition_that_is_forced_away_takes_its_objects_along() {
    let server = server();
    define(&server, definition("widgets", "Widget", &json!({}))).await;
    let widgets = "/apis/example.dev/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.dev/v1", "kind": "Widget",
        "metadata": {"name": "w", "finalizers": ["a/b"]}});
    post(&server, widgets, widget).await;
    let path = format!("{DEFINITIONS}/widgets.example.dev");
    delete(&server, &path, "Background").await;
    assert_eq!(get(&server, &path).await.0, StatusCode::OK, "it waits for its object");
    call(&server, Method::PATCH, &path, Some(json!({"metadata": {"finalizers": null}}))).await;
    assert_eq!(get(&server, &path).await.0, StatusCode::NOT_FOUND);
    define(&server, definition("widgets", "Widget", &json!({}))).await;
    assert_eq!(names(&get(&server, widgets).await.1), [""; 0]);
}

#[tokio::test]
async fn an_established_definition_stays_so_when_it_gains_a_conflict() {
    let server = server();
    define(&server, definition("widgets", "Widget", &json!({}))).await;
    define(&server, definition("gizmos", "Gizmo", &json!({}))).await;
    let path = format!("{DEFINITIONS}/gizmos.example.dev");
    let change = json!({"spec": {"names": {"shortNames": ["widget"]}}});
    let (status, body) = call(&server, Method::PATCH, &path, Some(change)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let (_, definition) = get(&server, &path).await;
    let conditions = definition["status"]["conditions"].as_array().expect("conditions").iter();
    let seen: Vec<_> =
        conditions.map(|condition| (&condition["type"], &condition["status"])).collect();
    assert_eq!(
        seen,
        [(&json!("NamesAccepted"), &json!("False")), (&json!("Established"), &json!("True"))]
    );
}
