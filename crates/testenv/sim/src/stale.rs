//! Reads from the past: with `resourceVersion=0`, an API server may answer from its watch cache,
//! which may lag behind. All other reads are consistent.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::call::{Call, query_of};
use crate::server::Server;

/// Whether a server may answer this from the past.
pub(crate) fn may_be_stale(call: &Call, request: &Request<Bytes>) -> bool {
    matches!(call.verb, "get" | "list") && query_of(request, "resourceVersion") == Some("0")
}

/// Answers a read as a server does that still shows this revision. `None` if the read must be
/// consistent.
pub(crate) fn stale_read(
    server: &Server,
    call: &Call,
    request: &Request<Bytes>,
    revision: u64,
) -> Option<Response<Bytes>> {
    if !may_be_stale(call, request) {
        return None;
    }
    let past = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    if call.verb == "list" {
        let others = query.split('&').filter(|pair| !pair.starts_with("resourceVersion"));
        let query: Vec<&str> = others.chain([past.as_str()]).collect();
        return Some(read(server, &format!("{path}?{}", query.join("&"))));
    }
    let (collection, name) = path.rsplit_once('/')?;
    let uri = format!("{collection}?fieldSelector=metadata.name%3D{name}&{past}");
    let answer = read(server, &uri);
    if !answer.status().is_success() {
        return Some(answer);
    }
    let mut list: Value = serde_json::from_slice(answer.body()).ok()?;
    let found = list["items"].as_array_mut().and_then(Vec::pop);
    let (code, body) = match found {
        Some(mut object) => {
            let kind = list["kind"].as_str().unwrap_or_default();
            object["kind"] = kind.strip_suffix("List").unwrap_or(kind).into();
            object["apiVersion"] = list["apiVersion"].clone();
            (StatusCode::OK, object)
        }
        None => (StatusCode::NOT_FOUND, not_found(call)),
    };
    let answer = Response::builder().status(code).header("content-type", "application/json");
    answer.body(Bytes::from(body.to_string())).ok()
}

fn read(server: &Server, uri: &str) -> Response<Bytes> {
    let request = Request::builder().method(Method::GET).uri(uri).body(Bytes::new());
    server.ask(request.expect("a read must be a request"))
}

fn not_found(call: &Call) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("{} \"{}\" not found", call.kind, call.name),
        "reason": "NotFound", "code": 404,
    })
}
