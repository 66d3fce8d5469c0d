//! Arbitrary protobuf bodies, most of them almost valid: no panic, no 5xx, and an accepted object
//! can be read in protobuf and written back without a change. Also tests behaviour that only this
//! server has.

use crate::support::server;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::Service;
use windlass_apiserver::ApiServer;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Collections, and an object for each, as seeds for changed bytes.
fn seeds() -> Vec<(&'static str, Value)> {
    vec![
        (
            "/api/v1/namespaces/default/configmaps",
            json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"a": "1"},
                "binaryData": {"b": "AP8="}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "a"}, "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "a"}},
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {
                    "containers": [{"name": "a", "image": "a", "env": [{"name": "A", "value": "b"}],
                        "resources": {"limits": {"cpu": "500m"}},
                        "readinessProbe": {"tcpSocket": {"port": 80}}}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                }},
            }}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me",
                "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000001Z"}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/controllerrevisions",
            json!({"metadata": {"name": "a"}, "data": {"x": [1, null]}, "revision": 1}),
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!({"metadata": {"name": "things.example.dev"}, "spec": {
                "group": "example.dev", "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                    {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "integer",
                        "default": 1, "enum": [1, 2], "maximum": 3}}}}}],
            }}),
        ),
    ]
}

/// One change of a byte string.
#[derive(Debug, Clone)]
enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Truncate(prop::sample::Index),
    /// Copies a piece to another place.
    Copy(prop::sample::Index, prop::sample::Index, usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        match self {
            Self::Set(at, byte) => bytes[at.index(length)] = *byte,
            Self::Insert(at, byte) => bytes.insert(at.index(length), *byte),
            Self::Remove(at) => drop(bytes.remove(at.index(length))),
            Self::Truncate(at) => bytes.truncate(at.index(length)),
            Self::Copy(from, to, count) => {
                let from = from.index(length);
                let piece = bytes[from..length.min(from + count)].to_vec();
                let to = to.index(length);
                bytes.splice(to..to, piece);
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        6 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        2 => at().prop_map(Change::Remove),
        1 => at().prop_map(Change::Truncate),
        1 => (at(), at(), 1_usize..20).prop_map(|(from, to, count)| Change::Copy(from, to, count)),
    ]
}

async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    media: [&str; 2],
    body: Vec<u8>,
) -> (StatusCode, Bytes) {
    let [content_type, accept] = media;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("accept", accept)
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let answer = server.service().call(request).await.expect("an answer");
    let status = answer.status();
    (status, answer.into_body().collect().await.expect("a whole body").to_bytes())
}

#[tokio::test]
async fn the_same_object_comes_of_json_and_of_protobuf() {
    for (path, object) in seeds() {
        let (json, protobuf) = (server(), server());
        let media = ["application/json"; 2];
        let body = object.to_string().into_bytes();
        let (status, of_json) = send(&json, Method::POST, path, media, body).await;
        assert_eq!(status, StatusCode::CREATED);
        let media = [PROTOBUF, "application/json"];
        let body = bytes_of(path, &object).await;
        let (_, of_protobuf) = send(&protobuf, Method::POST, path, media, body).await;
        assert_eq!(String::from_utf8_lossy(&of_protobuf), String::from_utf8_lossy(&of_json));
    }
}

/// Returns the object in protobuf as the server writes it, without a version.
async fn bytes_of(path: &str, object: &Value) -> Vec<u8> {
    let server = server();
    let media = ["application/json", PROTOBUF];
    let body = object.to_string().into_bytes();
    let path = format!("{path}?dryRun=All");
    let (status, bytes) = send(&server, Method::POST, &path, media, body).await;
    assert_eq!(status, StatusCode::CREATED, "{bytes:?}");
    bytes.to_vec()
}

/// Checks that an accepted object can be read in protobuf, and that writing it back changes
/// nothing.
async fn check_round_trip(server: &ApiServer, path: &str, created: &Value) {
    let name = created["metadata"]["name"].as_str().expect("a name");
    let path = format!("{path}/{name}");
    let (status, bytes) = send(server, Method::GET, &path, ["", PROTOBUF], Vec::new()).await;
    assert_eq!(status, StatusCode::OK);
    let media = [PROTOBUF, "application/json"];
    let (status, text) = send(server, Method::PUT, &path, media, bytes.to_vec()).await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&text));
    let (_, json) = send(server, Method::GET, &path, ["", "application/json"], Vec::new()).await;
    assert_eq!(text, json, "an object that is written back must stay as it is");
    let written: Value = serde_json::from_slice(&text).expect("JSON");
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    // A definition is established in the meantime, which changes its version.
    if created["kind"] != "CustomResourceDefinition" {
        assert_eq!(version(&written), version(created));
    }
}

#[tokio::test]
async fn custom_resources_in_protobuf_are_refused() {
    let server = server();
    let (definitions, definition) = &seeds()[4];
    let media = ["application/json", "application/json"];
    let body = definition.to_string().into_bytes();
    let (status, _) = send(&server, Method::POST, definitions, media, body).await;
    assert_eq!(status, StatusCode::CREATED);
    let path = "/apis/example.dev/v1/namespaces/default/things";
    let media = [PROTOBUF, "application/json"];
    let (status, text) = send(&server, Method::POST, path, media, b"k8s\0\x12\0".to_vec()).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let text: Value = serde_json::from_slice(&text).expect("JSON");
    let accepted = "the body of the request was in an unknown format - accepted media types \
                    include: application/json, application/yaml";
    assert_eq!(text["message"], accepted);
}

#[tokio::test]
async fn clients_that_accept_json_as_well_get_json() {
    let server = server();
    let path = "/api/v1/namespaces/default";
    for accept in ["application/json", "application/json;q=0.1", "*/*"] {
        let accept = format!("{PROTOBUF},{accept}");
        let (_, text) = send(&server, Method::GET, path, ["", &accept], Vec::new()).await;
        let object: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(object["kind"], "Namespace", "{accept}");
    }
    let (_, bytes) = send(&server, Method::GET, path, ["", PROTOBUF], Vec::new()).await;
    assert!(bytes.starts_with(b"k8s\0"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::support::cases(1000)))]

    #[test]
    fn bodies_that_are_almost_right(
        seed in 0..seeds().len(),
        changes in prop::collection::vec(change(), 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (path, object) = &seeds()[seed];
            let mut body = bytes_of(path, object).await;
            for change in &changes {
                change.apply(&mut body);
            }
            let server = server();
            let media = [PROTOBUF, "application/json"];
            let (status, text) = send(&server, Method::POST, path, media, body.clone()).await;
            let shown = String::from_utf8_lossy(&text);
            // The real server, too, answers 500 if a new object has a version.
            let known = shown.contains("resourceVersion should not be set");
            assert!(status.as_u16() < 500 || known, "{status} {shown}");
            if status == StatusCode::CREATED {
                let created = serde_json::from_slice(&text).expect("JSON");
                check_round_trip(&server, path, &created).await;
            }
            // The bytes as options, and as the body of other requests.
            for (method, path) in [
                (Method::DELETE, format!("{path}/a")),
                (Method::PUT, format!("{path}/a")),
                (Method::PUT, format!("{path}/a/scale")),
                (Method::POST, "/api/v1/namespaces/default/pods/a/binding".to_owned()),
            ] {
                let media = [PROTOBUF, PROTOBUF];
                let (status, bytes) = send(&server, method, &path, media, body.clone()).await;
                assert!(status.as_u16() < 500, "{path}: {status} {bytes:?}");
            }
        });
    }

    #[test]
    fn bodies_that_are_anything(
        body in prop::collection::vec(any::<u8>(), 0..60),
        prefixed in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let server = server();
            let body = if prefixed { [b"k8s\0", body.as_slice()].concat() } else { body };
            for (path, _) in seeds() {
                let media = [PROTOBUF, PROTOBUF];
                let (status, bytes) = send(&server, Method::POST, path, media, body.clone()).await;
                assert!(status.is_client_error(), "{path}: {status} {bytes:?}");
            }
        });
    }
}
