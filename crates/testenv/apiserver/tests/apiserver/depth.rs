//! Deeply nested custom resources. Test threads have a stack of 2 MiB, like those of tokio, so a
//! deep value on the wrong thread ends the test program.

use crate::support::{CONFIG_MAPS, create, delete_answer, post, send, server};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::json;
use windlass_apiserver::ApiServer;

const THINGS: &str = "/apis/example.dev/v1/namespaces/default/things";

/// The depth that a real server accepts.
const LEVELS_MAX: usize = 10_000;

async fn with_things() -> ApiServer {
    let server = server();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": open},
            "additionalPrinterColumns": [
                {"name": "Free", "type": "string", "jsonPath": ".spec.free"},
            ],
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true), version("v2", false)],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&server, definitions, definition).await.0, StatusCode::CREATED);
    server
}

fn nested(open: &str, close: &str, levels: usize) -> String {
    format!("{}7{}", open.repeat(levels), close.repeat(levels))
}

/// An object with this many levels, including two of its own.
fn thing(name: &str, free: &str) -> String {
    format!(
        r#"{{"apiVersion":"example.dev/v1","kind":"Thing","metadata":{{"name":"{name}"}},"spec":{{"free":{free}}}}}"#
    )
}

async fn ask(
    server: &ApiServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: &str,
) -> (StatusCode, String) {
    let answer = send(server, method, path, content_type, body.into()).await.expect("an answer");
    let status = answer.status();
    let bytes = answer.into_body().collect().await.expect("a whole body").to_bytes();
    (status, String::from_utf8(bytes.to_vec()).expect("text"))
}

const JSON: &str = "application/json";

#[tokio::test]
async fn custom_resources_of_any_depth_live_beside_others() {
    let server = with_things().await;
    for (name, open, close, levels) in [
        ("a", "[", "]", 125),
        ("b", "[", "]", 1_000),
        ("c", r#"{"a":"#, "}", 5_000),
        ("d", "[", "]", LEVELS_MAX - 2),
    ] {
        let free = nested(open, close, levels);
        let shown = format!(r#""free":{free}"#);
        let (status, made) = ask(&server, Method::POST, THINGS, JSON, &thing(name, &free)).await;
        assert_eq!(status, StatusCode::CREATED, "{levels}: {}", &made[..made.len().min(300)]);
        let path = format!("{THINGS}/{name}");
        // An update, and each type of patch.
        let merge = r#"{"metadata":{"labels":{"l":"m"}}}"#;
        let operations = r#"[{"op":"add","path":"/metadata/labels/o","value":"p"}]"#;
        let applied = thing(name, "{}").replace("\"free\":{}", "\"other\":1");
        for (method, at, content_type, body) in [
            (Method::PUT, path.clone(), JSON, &*made),
            (Method::PATCH, path.clone(), "application/merge-patch+json", merge),
            (Method::PATCH, path.clone(), "application/json-patch+json", operations),
            (
                Method::PATCH,
                format!("{path}?fieldManager=m"),
                "application/apply-patch+yaml",
                &*applied,
            ),
        ] {
            let (status, answer) = ask(&server, method, &at, content_type, body).await;
            assert_eq!(status, StatusCode::OK, "{}", &answer[..answer.len().min(300)]);
            assert!(answer.contains(&shown), "{levels} levels: {content_type}");
        }
        for version in ["v1", "v2"] {
            for rest in ["", "?limit=100", "?labelSelector=l%3Dm", "?watch=1&timeoutSeconds=1"] {
                let list = THINGS.replace("/v1/", &format!("/{version}/")) + rest;
                let (status, list) = ask(&server, Method::GET, &list, JSON, "").await;
                assert_eq!(status, StatusCode::OK);
                assert!(list.contains(&shown), "{levels} levels: {version} {rest}");
            }
        }
    }
    // Other objects, and operations that read all objects.
    create(&server, "beside").await;
    let collection = delete_answer(&server, CONFIG_MAPS).await;
    assert_eq!(collection.0, StatusCode::OK);
    let kept = server.snapshot();
    assert_eq!(delete_answer(&server, THINGS).await.0, StatusCode::OK);
    let other = crate::support::server();
    other.restore(&kept);
    assert_eq!(delete_answer(&other, &format!("{THINGS}/d")).await.0, StatusCode::OK);
}

#[cfg(feature = "kubectl")]
#[tokio::test]
async fn tables_of_deep_objects_have_rows() {
    let server = with_things().await;
    let free = nested("[", "]", 9_000);
    ask(&server, Method::POST, THINGS, JSON, &thing("a", &free)).await;
    let request = http::Request::get(THINGS)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(http_body_util::Full::new(bytes::Bytes::new()))
        .expect("a request");
    let answer = tower::Service::call(&mut server.service(), request).await.expect("an answer");
    let bytes = answer.into_body().collect().await.expect("a whole body").to_bytes();
    assert!(String::from_utf8_lossy(&bytes).contains(r#""rows":[{"cells":["a""#));
}

#[tokio::test]
async fn watch_that_was_open_before_shows_a_deep_object() {
    let server = with_things().await;
    let watch = format!("{THINGS}?watch=1");
    let answer = send(&server, Method::GET, &watch, JSON, Vec::new()).await.expect("an answer");
    let mut body = answer.into_body();
    let free = nested("[", "]", LEVELS_MAX - 2);
    ask(&server, Method::POST, THINGS, JSON, &thing("a", &free)).await;
    let frame = body.frame().await.expect("an event").expect("a frame");
    let line = frame.into_data().expect("data");
    assert!(String::from_utf8_lossy(&line).contains(&free));
}

#[tokio::test]
async fn what_is_too_deep_is_refused_and_the_server_lives_on() {
    let server = with_things().await;
    let deepest = nested("[", "]", 1_000_000);
    for (path, name, levels) in
        [(THINGS, "a", LEVELS_MAX - 1), (CONFIG_MAPS, "a", 126), (THINGS, "a", 1_000_000)]
    {
        let free = &deepest[1_000_000 - levels..=1_000_000 + levels];
        let (status, answer) = ask(&server, Method::POST, path, JSON, &thing(name, free)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer.contains("nested deeper than"), "{answer}");
        let apply = format!("{path}/{name}?fieldManager=m");
        let yaml = "application/apply-patch+yaml";
        let (status, _) = ask(&server, Method::PATCH, &apply, yaml, &thing(name, free)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
    create(&server, "a").await;
}
