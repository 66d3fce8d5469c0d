//! What the server answers to kubectl without the feature `kubectl`:
//! `cargo test -p windlass-apiserver --no-default-features`.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::Service as _;
use windlass_apiserver::ApiServer;

use crate::support::{CONFIG_MAPS, call, create, get, send, server};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Lists with this `Accept` header.
async fn list(server: &ApiServer, path: &str, accept: &str) -> (StatusCode, Value) {
    let request =
        Request::builder().uri(path).header("accept", accept).body(Full::<Bytes>::default());
    let answer = server.service().call(request.expect("a request")).await.expect("an answer");
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
    (status, serde_json::from_slice(&body).expect("JSON"))
}

#[tokio::test]
async fn table_is_refused_as_an_unknown_form_is() {
    let server = server();
    let refused = list(&server, CONFIG_MAPS, TABLE).await;
    assert_eq!(refused.0, StatusCode::NOT_ACCEPTABLE);
    // As on a real server.
    let unknown = list(&server, CONFIG_MAPS, "application/json;as=Table;v=v7;g=meta.k8s.io").await;
    assert_eq!(refused, unknown);
}

#[tokio::test]
async fn client_that_also_takes_json_gets_json() {
    let server = server();
    create(&server, "a").await;
    let (status, list) = list(&server, CONFIG_MAPS, &format!("{TABLE},application/json")).await;
    assert_eq!((status, &list["kind"]), (StatusCode::OK, &json!("ConfigMapList")));
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
}

#[tokio::test]
async fn strategic_merge_patch_is_refused_with_the_name_of_the_feature() {
    let server = server();
    create(&server, "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let patch = json!({"data": {"v": "1"}}).to_string().into_bytes();
    let strategic = "application/strategic-merge-patch+json";
    let answer = send(&server, Method::PATCH, &path, strategic, patch).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
    let status: Value = serde_json::from_slice(&body).expect("JSON");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("the feature `kubectl` of windlass-apiserver"), "{message}");
    assert_eq!(get(&server, &path).await.1["data"]["v"], "0");
}

#[tokio::test]
async fn there_are_no_openapi_documents() {
    let server = server();
    for path in ["/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"] {
        let (status, body) = get(&server, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        let message = body["message"].as_str().unwrap_or_default();
        assert!(message.contains("the feature `kubectl` of windlass-apiserver"), "{message}");
    }
}

/// The columns are part of a definition, so they are checked and stored all the same.
#[tokio::test]
async fn kind_with_columns_is_served() {
    let server = server();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.windlass.dev"},
        "spec": {
            "group": "windlass.dev",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                ],
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, body) = call(&server, Method::POST, definitions, Some(definition)).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let things = "/apis/windlass.dev/v1/namespaces/default/things";
    assert_eq!(get(&server, things).await.0, StatusCode::OK);
    assert_eq!(list(&server, things, TABLE).await.0, StatusCode::NOT_ACCEPTABLE);
}
