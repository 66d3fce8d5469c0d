//! A small client that sends requests straight to the service, for tests that check every byte.

#![allow(dead_code, reason = "each test binary uses its part")]

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::Service;
use windlass_apiserver::{ApiServer, Body, Disconnected, WallClock};

/// Returns a server with a fixed clock, so that its bytes depend only on its requests.
pub(crate) fn server() -> ApiServer {
    ApiServer::builder().clock(WallClock::fixed(moment())).build()
}

/// Returns the number of inputs of a random test: `usual`, unless `PROPTEST_CASES` is set. proptest
/// itself reads the variable only if a test sets no number.
pub(crate) fn cases(usual: u32) -> u32 {
    match std::env::var("PROPTEST_CASES") {
        Ok(text) => text.parse().expect("PROPTEST_CASES must be a number"),
        Err(_) => usual,
    }
}

pub(crate) fn moment() -> jiff::Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a timestamp")
}

pub(crate) async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: Vec<u8>,
) -> Result<Response<Body>, Disconnected> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    server.service().call(request).await
}

/// Returns the status, and the body as JSON (`null` if it is not JSON).
pub(crate) async fn call(
    server: &ApiServer,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (StatusCode, Value) {
    let content_type =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = body.map(|value| value.to_string().into_bytes()).unwrap_or_default();
    let response = send(server, method, path, content_type, body).await.expect("an answer");
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

pub(crate) async fn get(server: &ApiServer, path: &str) -> (StatusCode, Value) {
    call(server, Method::GET, path, None).await
}

pub(crate) async fn delete_answer(server: &ApiServer, path: &str) -> (StatusCode, Value) {
    call(server, Method::DELETE, path, None).await
}

pub(crate) async fn post(server: &ApiServer, path: &str, body: Value) -> (StatusCode, Value) {
    call(server, Method::POST, path, Some(body)).await
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}})
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Creates a config map and returns its version.
pub(crate) async fn create(server: &ApiServer, name: &str) -> String {
    let (status, body) = post(server, CONFIG_MAPS, config_map(name, "0")).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    version(&body)
}

pub(crate) async fn set(server: &ApiServer, name: &str, value: &str) -> (StatusCode, Value) {
    let path = format!("{CONFIG_MAPS}/{name}");
    call(server, Method::PATCH, &path, Some(json!({"data": {"v": value}}))).await
}

pub(crate) fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
}

/// A watch that is read line by line.
pub(crate) struct Lines {
    body: Body,
    buffer: BytesMut,
}

/// The next item of a watch.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Event(String, Value),
    End,
    /// The connection broke after so many bytes of a line.
    Broken(usize),
}

pub(crate) async fn watch(server: &ApiServer, query: &str) -> Lines {
    watch_at(server, &format!("{CONFIG_MAPS}?watch=true{query}")).await
}

/// Opens a watch at any path; its query must ask for a watch.
pub(crate) async fn watch_at(server: &ApiServer, path: &str) -> Lines {
    let response = send(server, Method::GET, path, "application/json", Vec::new()).await;
    let response = response.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    Lines { body: response.into_body(), buffer: BytesMut::new() }
}

impl Lines {
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                let mut event: Value = serde_json::from_slice(&line).expect("a line of JSON");
                let kind = event["type"].as_str().expect("a type").to_owned();
                return Next::Event(kind, event["object"].take());
            }
            match self.body.frame().await {
                None => return Next::End,
                Some(Err(_)) => return Next::Broken(self.buffer.len()),
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame.into_data().expect("data")),
            }
        }
    }

    /// Returns type, name and version of the next event.
    pub(crate) async fn event(&mut self) -> (String, String, String) {
        match self.next().await {
            Next::Event(kind, object) => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                (kind, name, version(&object))
            }
            other => panic!("an event was expected, not {other:?}"),
        }
    }
}
