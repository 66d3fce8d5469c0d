//! What `windlass-protobuf` decodes is what the server sends as JSON: the same object is read in
//! both forms, and the two are equal.
//!
//! On the real server, objects of every served kind with every field set come from etcd, into which
//! the test writes them: kube-apiserver checks what it is sent, but not what it has stored.

use futures::AsyncBufReadExt as _;
use http::Request;
use kube::Client;
use serde_json::{Map, Value, json};
use windlass_protobuf::{
    Envelope, EventType, ListParser, ListPart, MEDIA_TYPE, WatchEvent, from_raw, split_frame,
};
use windlass_testserver::{ControlPlane, ControlPlaneOptions, TestServer, on_each_server};

/// Sends a GET, and returns the body.
async fn get(client: &Client, path: &str, accept: &str) -> Result<Vec<u8>, String> {
    let request = Request::get(path).header("accept", accept).body(kube::client::Body::empty());
    let response = client.send(request.expect("a request")).await;
    let response = response.map_err(|error| error.to_string())?;
    let status = response.status();
    let body = response.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
    let body = body.to_vec();
    if status.is_success() { Ok(body) } else { Err(String::from_utf8_lossy(&body).into_owned()) }
}

async fn get_json(client: &Client, path: &str) -> Result<Value, String> {
    let body = get(client, path, "application/json").await?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// Returns the items of a list in protobuf, as the server would send them in JSON.
fn items(body: &[u8]) -> Result<Vec<Value>, windlass_protobuf::Error> {
    let (mut parser, mut rest, mut items) = (ListParser::new(), body, Vec::new());
    while let Some(part) = parser.next(&mut rest)? {
        if let ListPart::Item(raw) = part {
            let mut item: Value = from_raw(parser.api_version(), parser.item_kind(), raw)?;
            // JSON has them for the whole list.
            for field in ["kind", "apiVersion"] {
                item.as_object_mut().and_then(|item| item.remove(field));
            }
            items.push(item);
        }
    }
    parser.finish(rest)?;
    Ok(items)
}

/// Reads an object and a list in both forms, and returns what differs.
async fn difference(client: &Client, object: &str, list: &str) -> Option<String> {
    let outcome = async {
        for path in [object, list] {
            let (mut json, body) = both(client, path).await?;
            let envelope = Envelope::read(&body).map_err(|error| error.to_string())?;
            let mut whole: Value = envelope.decode().map_err(|error| error.to_string())?;
            remove_different(&envelope.kind, &mut json);
            remove_different(&envelope.kind, &mut whole);
            if whole != json {
                return Err(format!("{path}: {}", first_difference("", &json, &whole)));
            }
            if path == list {
                let mut items = Value::Array(items(&body).map_err(|error| error.to_string())?);
                for (_, path) in
                    DIFFERENT.iter().filter(|(kind, _)| envelope.kind.starts_with(kind))
                {
                    remove(&mut items, path);
                }
                if items != json["items"] {
                    return Err(format!(
                        "{path}: {}",
                        first_difference("", &json["items"], &items)
                    ));
                }
            }
        }
        Ok(())
    };
    outcome.await.err()
}

/// Reads JSON and protobuf at the same version, while controllers of the server may write.
async fn both(client: &Client, path: &str) -> Result<(Value, Vec<u8>), String> {
    loop {
        let before = get_json(client, path).await?;
        let body = get(client, path, MEDIA_TYPE).await?;
        if get_json(client, path).await? == before {
            return Ok((before, body));
        }
    }
}

/// What differs: a kind and a path in it.
const DIFFERENT: [(&str, &str); 4] = [
    // 1.36 writes null if it is empty, 1.37 leaves it out.
    ("Pod", "status.nodeAllocatableResourceClaimStatuses.resources"),
    // 1.37 has it always, 1.36 does not know it.
    ("CSINode", "status"),
    // JSON has a kind here, for which protobuf has no field.
    ("StatefulSet", "spec.volumeClaimTemplates.kind"),
    ("StatefulSet", "spec.volumeClaimTemplates.apiVersion"),
];

/// Removes what differs from an object or an item of a list.
fn remove_different(kind: &str, value: &mut Value) {
    let kind = kind.trim_end_matches("List");
    for (_, path) in DIFFERENT.iter().filter(|(different, _)| *different == kind) {
        remove(value.get_mut("items").unwrap_or(&mut Value::Null), path);
        remove(value, path);
    }
}

fn remove(value: &mut Value, path: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| remove(item, path)),
        Value::Object(members) => match path.split_once('.') {
            Some((name, rest)) => members.get_mut(name).into_iter().for_each(|it| remove(it, rest)),
            None => drop(members.remove(path)),
        },
        _ => {}
    }
}

fn first_difference(path: &str, json: &Value, decoded: &Value) -> String {
    match (json, decoded) {
        (Value::Object(left), Value::Object(right)) => {
            let names = left.keys().chain(right.keys());
            let different = names.into_iter().find(|name| left.get(*name) != right.get(*name));
            let name = different.map_or("", String::as_str);
            let side = |side: &Map<String, Value>| side.get(name).cloned();
            match (side(left), side(right)) {
                (Some(left), Some(right)) => {
                    first_difference(&format!("{path}.{name}"), &left, &right)
                }
                (left, right) => format!("{path}.{name}: JSON {left:?}, protobuf {right:?}"),
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let place = left.iter().zip(right).position(|(left, right)| left != right);
            let place = place.unwrap_or(0);
            first_difference(&format!("{path}[{place}]"), &left[place], &right[place])
        }
        _ => format!("{path}: JSON {json}, protobuf {decoded}"),
    }
}

on_each_server!(objects_lists_and_watches_are_those_of_json, flavor = "multi_thread");
async fn objects_lists_and_watches_are_those_of_json(server: TestServer) {
    let client = server.client().expect("a client");
    let namespace = server.namespace("protobuf").await.expect("a namespace");
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let container = json!({
        "name": "a", "image": "a", "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    });
    for name in ["a", "b"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"b": "1", "a": "2"}},
            "spec": {
                "containers": [container], "automountServiceAccountToken": false,
                "volumes": [{"name": "v", "configMap": {"name": "c", "optional": true}}],
                "securityContext": {"supplementalGroups": [1, 2], "fsGroup": 0},
            },
        });
        let request = Request::post(&pods).header("content-type", "application/json");
        let request = request.body(pod.to_string().into_bytes()).expect("a request");
        client.request::<Value>(request).await.expect("the pod is valid");
    }
    let difference = difference(&client, &format!("{pods}/a"), &pods).await;
    assert_eq!(difference, None);

    for (query, types) in [
        ("resourceVersion=0", vec![EventType::Added, EventType::Added]),
        (
            "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
            vec![EventType::Added, EventType::Added, EventType::Bookmark],
        ),
    ] {
        let path = format!("{pods}?watch=1&timeoutSeconds=2&{query}");
        check_watch(&client, &path, &types).await;
    }
    if server.server().is_some() {
        server.compact().await.expect("a compaction");
        check_error(&client, &pods).await;
    }
}

/// Watches from a version that the server has compacted, which ends with an error event.
async fn check_error(client: &Client, collection: &str) {
    let path = format!("{collection}?watch=1&timeoutSeconds=2&resourceVersion=1");
    let body = get(client, &path, &format!("{MEDIA_TYPE};stream=watch")).await.expect("a watch");
    let (frame, _) = split_frame(&body).expect("it is short").expect("a frame");
    let event = WatchEvent::read(frame).expect("an event");
    let status: Value = event.object.decode().expect("a status");
    assert_eq!((event.event_type, &status["code"]), (EventType::Error, &json!(410)), "{status}");
}

/// Reads a watch in both forms, and compares its events.
async fn check_watch(client: &Client, path: &str, types: &[EventType]) {
    let request = Request::get(path).header("accept", "application/json").body(Vec::new());
    let lines = client.request_stream(request.expect("a request")).await.expect("a watch");
    let lines: Vec<String> =
        futures::TryStreamExt::try_collect(lines.lines()).await.expect("whole lines");
    let mut events: Vec<Value> = Vec::new();
    for line in lines.iter().take(types.len()) {
        events.push(serde_json::from_str(line).expect("JSON"));
    }
    let body = get(client, path, &format!("{MEDIA_TYPE};stream=watch")).await.expect("a watch");
    let mut rest = body.as_slice();
    for (event_type, json) in types.iter().zip(events) {
        let (frame, next) = split_frame(rest).expect("it is short").expect("a frame");
        rest = next;
        let event = WatchEvent::read(frame).expect("an event");
        assert_eq!(event.event_type, *event_type, "{path}");
        assert_eq!(event.event_type.name(), json["type"], "{path}");
        let mut object: Value = event.object.decode().expect("an object");
        let mut expected = json["object"].clone();
        if event.event_type == EventType::Bookmark {
            // The two watches end at versions of their own, and nothing else of such an object
            // means anything.
            for object in [&mut object, &mut expected] {
                assert!(object["metadata"]["resourceVersion"].is_string());
                *object = object["metadata"]["annotations"].take();
            }
        }
        assert_eq!(
            first_difference("", &expected, &object),
            first_difference("", &object, &object)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn errors_of_a_real_watch_are_events() {
    // Without a cache, the history is gone as soon as etcd has compacted it.
    let options = ControlPlaneOptions::new().apiserver_flag("--watch-cache-sizes=configmaps#0");
    let cluster = ControlPlane::start(options).await.expect("a control plane");
    cluster.compact().await.expect("a compaction");
    let client = cluster.client().expect("a client");
    check_error(&client, "/api/v1/namespaces/default/configmaps").await;
}

/// A resource that the server has, with the version and kind of its objects.
struct Resource {
    path: String,
    plural: String,
    api_version: String,
    kind: String,
    is_namespaced: bool,
}

async fn resources(client: &Client) -> Vec<Resource> {
    let groups = get_json(client, "/apis").await.expect("groups");
    let versions = groups["groups"].as_array().into_iter().flatten().flat_map(|group| {
        group["versions"].as_array().into_iter().flatten().map(|it| it["groupVersion"].clone())
    });
    let versions = versions.filter_map(|version| version.as_str().map(str::to_owned));
    let mut found = Vec::new();
    for version in std::iter::once("v1".to_owned()).chain(versions) {
        let prefix = if version.contains('/') { "apis" } else { "api" };
        let path = format!("/{prefix}/{version}");
        let list = get_json(client, &path).await.expect("resources");
        for resource in list["resources"].as_array().into_iter().flatten() {
            let text = |field: &str| resource[field].as_str().unwrap_or_default().to_owned();
            let is_read = resource["verbs"].as_array().is_some_and(|verbs| {
                verbs.contains(&json!("get")) && verbs.contains(&json!("list"))
            });
            if is_read && !text("name").contains('/') {
                found.push(Resource {
                    path: path.clone(),
                    plural: text("name"),
                    api_version: version.clone(),
                    kind: text("kind"),
                    is_namespaced: resource["namespaced"] == true,
                });
            }
        }
    }
    found
}

impl Resource {
    /// Returns the folder of the objects in etcd.
    fn folder(&self) -> String {
        let folder = match (self.api_version.split('/').next(), self.plural.as_str()) {
            (_, "replicationcontrollers") => "controllers",
            (_, "endpoints") => "services/endpoints",
            (_, "services") => "services/specs",
            (_, "nodes") => "minions",
            (_, "ingresses") => "ingress",
            (Some(group @ ("apiextensions.k8s.io" | "apiregistration.k8s.io")), plural) => {
                return format!("{group}/{plural}");
            }
            (_, plural) => plural,
        };
        folder.to_owned()
    }
}

/// The name of all objects. kube-apiserver panics if that of an `APIService` has no dot.
const NAME: &str = "every.field";

/// Objects that kube-apiserver itself reads and cannot live with, with the reason.
const UNREADABLE: [(&str, &str); 1] =
    [("componentstatuses", "they are not stored, but made from checks of health")];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn every_field_of_every_served_kind_is_that_of_json() {
    let options = ControlPlaneOptions::new().apiserver_flag("--runtime-config=api/all=true");
    let cluster = ControlPlane::start(options).await.expect("a control plane");
    let client = cluster.client().expect("a client");
    let (mut problems, mut compared) = (Vec::new(), 0);
    for resource in resources(&client).await {
        if UNREADABLE.iter().any(|(plural, _)| *plural == resource.plural) {
            continue;
        }
        let Resource { path, plural, api_version, kind, is_namespaced } = &resource;
        let sample = windlass_protobuf::sample(api_version, kind);
        let mut object = sample.unwrap_or_else(|error| panic!("{api_version} {kind}: {error}"));
        object["metadata"]["name"] = NAME.into();
        let (mut key, mut folder) = (format!("/registry/{}", resource.folder()), path.clone());
        if *is_namespaced {
            object["metadata"]["namespace"] = "default".into();
            key.push_str("/default");
            folder.push_str("/namespaces/default");
        }
        key.push('/');
        key.push_str(NAME);
        let list = format!("{folder}/{plural}");
        let bytes = windlass_protobuf::from_json(&object).expect("a sample can be encoded");
        cluster.put_into_etcd(&key, &bytes).await.expect("etcd takes it");
        if let Some(difference) = difference(&client, &format!("{list}/{NAME}"), &list).await {
            problems.push(format!("{api_version} {kind}: {difference}"));
        }
        cluster.delete_from_etcd(&key).await.expect("etcd drops it");
        compared += 1;
    }
    assert!(problems.is_empty(), "{} of {compared}:\n{}", problems.len(), problems.join("\n"));
    assert!(compared > 60, "only {compared} kinds");
}
