//! A webhook server inside the test process: over TLS on loopback, called by both API servers.
//!
//! Its answer depends only on the path, so that a case reads as a list of paths. It records the
//! reviews that it receives.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, service_fn};
use windlass_serve::{Limits, RequestBody, serve, server_config, single_certificate};

/// The delay of a webhook that exceeds every timeout.
const FOREVER: Duration = Duration::from_mins(10);

/// A running server. It ends when it is dropped.
pub(crate) struct HookServer {
    url: String,
    /// The certificate of its authority, as base64 of PEM.
    authority: String,
    calls: Calls,
    #[expect(dead_code, reason = "it is held, not read")]
    serving: JoinSet<()>,
}

/// Path and review of each call.
type Calls = Arc<Mutex<Vec<(String, Value)>>>;

/// The response to send.
enum Sent {
    Json(Value),
    Text(u16, &'static str),
    Nothing,
}

impl HookServer {
    pub(crate) async fn start() -> Self {
        let (acceptor, authority) = certificates();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port must be free");
        let address = listener.local_addr().expect("a listener must have an address");
        let calls = Calls::default();
        let recorded = calls.clone();
        let service = service_fn(move |request| receive(request, recorded.clone()));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let stop = CancellationToken::new();
            serve(listener, service, Some(acceptor), Limits::TRUSTED, &stop).await;
        });
        Self {
            url: format!("https://{address}"),
            authority: BASE64_STANDARD.encode(authority),
            calls,
            serving,
        }
    }

    /// The `clientConfig` of a webhook at this path.
    pub(crate) fn client(&self, path: &str) -> Value {
        json!({"url": format!("{}{path}", self.url), "caBundle": self.authority})
    }

    /// Returns how often a path was called.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.calls().iter().filter(|(called, _)| called == path).count()
    }

    /// Returns the calls since the last call of this function.
    pub(crate) fn take(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.calls())
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Vec<(String, Value)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn certificates() -> (TlsAcceptor, String) {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "webhooks");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().expect("a key must be possible");
    let certificate = authority.self_signed(&authority_key).expect("a certificate");
    let issuer = Issuer::new(authority, authority_key);
    let serving = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address is a name");
    let key = KeyPair::generate().expect("a key must be possible");
    let leaf = serving.signed_by(&key, &issuer).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let served = single_certificate(vec![leaf.der().clone()], key);
    let config = server_config(served.expect("the certificate must fit its key"), None);
    (TlsAcceptor::from(Arc::new(config)), certificate.pem())
}

/// Answers a call, and records it.
async fn receive(
    request: Request<RequestBody>,
    calls: Calls,
) -> Result<Response<String>, BoxError> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let sent = answer(&path, &review);
    calls.lock().unwrap_or_else(PoisonError::into_inner).push((path, review));
    let (code, body) = match sent {
        Sent::Json(value) => (200, value.to_string()),
        Sent::Text(code, text) => (code, text.to_owned()),
        Sent::Nothing => {
            tokio::time::sleep(FOREVER).await;
            (200, String::new())
        }
    };
    let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
    let response = Response::builder().status(code).header("content-type", kind);
    Ok(response.body(body).expect("a response must be valid"))
}

/// Returns the answer of a path.
fn answer(path: &str, review: &Value) -> Sent {
    if path.starts_with("/convert") {
        return convert(path, review);
    }
    let request = &review["request"];
    let allow = |more: Value| {
        let mut response = json!({"uid": request["uid"], "allowed": true});
        if let Value::Object(more) = more {
            response.as_object_mut().expect("an object").extend(more);
        }
        Sent::Json(json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
        }))
    };
    let change = |operations: Value| {
        let encoded = BASE64_STANDARD.encode(operations.to_string());
        allow(json!({"patch": encoded, "patchType": "JSONPatch"}))
    };
    let deny = |status: Value| allow(json!({"allowed": false, "status": status}));
    match path.split_at(path[1..].find('/').map_or(path.len(), |at| at + 1)) {
        ("/deny", "") => deny(json!({
            "code": 403,
            "reason": "Forbidden",
            "message": "not today",
            "details": {"name": "x", "causes": [{"field": "data.a", "message": "is wrong"}]},
        })),
        ("/deny", "/silently") => deny(Value::Null),
        ("/deny", "/reason") => deny(json!({"reason": "Because", "code": 200})),
        ("/deny", "/big") if request["object"]["data"]["a"] == "big" => {
            deny(json!({"code": 422, "reason": "Invalid", "message": "too big"}))
        }
        ("/warn", _) => allow(json!({"warnings": ["be careful", "or \"else\""]})),
        // Adds a note with its name to the object.
        ("/note", name) => {
            let held = request["object"]["data"]["order"].as_str().unwrap_or_default();
            let order = format!("{held}{}", name.trim_start_matches('/'));
            change(json!([{"op": "add", "path": "/data/order", "value": order}]))
        }
        ("/note-once", _) if request["object"]["data"]["once"].is_null() => {
            change(json!([{"op": "add", "path": "/data/once", "value": "yes"}]))
        }
        ("/replicas", _) => {
            change(json!([{"op": "replace", "path": "/spec/replicas", "value": 7}]))
        }
        ("/patch", "/nowhere") => change(json!([{"op": "add", "path": "/a/b", "value": 1}])),
        ("/patch", "/type") => change(json!([{"op": "replace", "path": "/data", "value": 3}])),
        ("/patch", "/none") => change(json!({"a": 1})),
        ("/patch", "/unknown") => change(json!([{"op": "add", "path": "/bogus", "value": 1}])),
        ("/patch", "/label") => {
            change(json!([{"op": "add", "path": "/metadata/labels", "value": {"hook": "yes"}}]))
        }
        ("/answer", "/garbage") => Sent::Text(200, "garbage"),
        ("/answer", "/empty") => Sent::Text(200, ""),
        ("/answer", "/error") => Sent::Text(500, "boom"),
        ("/answer", "/missing") => Sent::Text(404, "nope"),
        ("/answer", "/other-uid") => allow(json!({"uid": "another"})),
        ("/answer", "/no-response") => {
            Sent::Json(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}))
        }
        ("/answer", "/old-version") => {
            Sent::Json(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}))
        }
        ("/slow", _) => Sent::Nothing,
        _ => allow(Value::Null),
    }
}

/// `v1` has `spec.size`, `v2` has `spec.dimensions.size`.
fn convert(path: &str, review: &Value) -> Sent {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let converted = request["objects"].as_array().into_iter().flatten().map(|object| {
        let mut object = object.clone();
        object["apiVersion"] = wanted.into();
        let spec = object["spec"].take();
        object["spec"] = if wanted.ends_with("/v2") {
            json!({"dimensions": {"size": spec["size"]}, "color": spec["color"]})
        } else {
            json!({"size": spec["dimensions"]["size"], "color": spec["color"]})
        };
        if path == "/convert/renamed" {
            object["metadata"]["name"] = "another".into();
        }
        object
    });
    let converted: Vec<Value> =
        if path == "/convert/too-few" { Vec::new() } else { converted.collect() };
    let big = request["objects"].as_array().into_iter().flatten();
    let is_cursed = big.into_iter().any(|object| object["spec"]["color"] == "cursed");
    let result = if path == "/convert/failing" || is_cursed {
        json!({"status": "Failure", "message": "the colour is cursed"})
    } else {
        json!({"status": "Success"})
    };
    Sent::Json(json!({
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "response": {"uid": request["uid"], "convertedObjects": converted, "result": result},
    }))
}
