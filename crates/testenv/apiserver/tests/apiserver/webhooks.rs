//! Webhooks in process, on a paused clock: cases that take minutes, or depend on chance, on a real
//! server, so that the conformance suite cannot cover them.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{CONFIG_MAPS, Next, call, config_map, create, get, post, server, set};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_apiserver::ApiServer;

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Answers a call, given its path and its body.
type Answer = Arc<dyn Fn(String, Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// Registers a webhook at every URL of `https://hooks.test/`.
fn handle(server: &ApiServer, answer: Answer) {
    server.webhooks().handle("https://hooks.test/", service(answer));
}

fn service(
    answer: Answer,
) -> impl tower::Service<
    Request<Full<Bytes>>,
    Response = Response<Full<Bytes>>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ Sync
+ 'static {
    tower::service_fn(move |request: Request<Full<Bytes>>| {
        let answer = answer.clone();
        async move {
            let path = request.uri().to_string();
            let body = request.into_body().collect().await?.to_bytes();
            let review = serde_json::from_slice(&body).expect("a review must be JSON");
            Ok(Response::new(Full::from(answer(path, review).await.to_string())))
        }
    })
}

fn response(review: &Value, more: &Value) -> Value {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    for (field, value) in more.as_object().into_iter().flatten() {
        response[field] = value.clone();
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

fn patch(review: &Value, operations: &Value) -> Value {
    use base64::Engine as _;
    let patch = base64::prelude::BASE64_STANDARD.encode(operations.to_string());
    response(review, &json!({"patch": patch, "patchType": "JSONPatch"}))
}

/// Creates a configuration with one webhook for config maps.
async fn configure(server: &ApiServer, collection: &str, name: &str, more: &Value) {
    let mut hook = json!({
        "name": format!("{name}.windlass.dev"),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": format!("https://hooks.test/{name}")},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"],
            "resources": ["configmaps"]}],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        hook[field] = value.clone();
    }
    let mutating = collection == MUTATING;
    let kind =
        if mutating { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": [hook]});
    let (status, body) = post(server, collection, configuration).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
}

/// Returns a webhook that answers with the result of a function.
fn plain(answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Answer {
    Arc::new(move |path, review| {
        let answer = answer(&path, &review);
        Box::pin(async move { answer })
    })
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_costs_its_timeout_and_no_real_time() {
    let server = server();
    handle(&server, Arc::new(|_, _| Box::pin(std::future::pending())));
    configure(&server, VALIDATING, "hangs", &json!({"timeoutSeconds": 7})).await;
    let start = Instant::now();
    let (status, body) = post(&server, CONFIG_MAPS, config_map("a", "0")).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        body["message"],
        "Internal error occurred: failed calling webhook \"hangs.windlass.dev\": failed to call \
         webhook: Post \"https://hooks.test/hangs?timeout=7s\": context deadline exceeded"
    );
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}

#[tokio::test]
async fn other_requests_are_answered_while_a_webhook_is_asked() {
    let server = server();
    let inner = server.clone();
    let answer: Answer = Arc::new(move |_, review| {
        let server = inner.clone();
        Box::pin(async move {
            // This would wait forever if the lock were held.
            let (status, _) = get(&server, CONFIG_MAPS).await;
            assert_eq!(status, StatusCode::OK);
            if review["request"]["name"] == "a" {
                create(&server, "by-the-webhook").await;
            }
            response(&review, &Value::Null)
        })
    });
    handle(&server, answer);
    configure(&server, VALIDATING, "asks", &Value::Null).await;
    create(&server, "a").await;
    let (status, _) = get(&server, &format!("{CONFIG_MAPS}/by-the-webhook")).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_write_whose_object_changes_meanwhile_asks_again_about_the_new_one() {
    let server = server();
    create(&server, "a").await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (inner, seen_by) = (server.clone(), seen.clone());
    let answer: Answer = Arc::new(move |_, review| {
        let (server, seen) = (inner.clone(), seen_by.clone());
        Box::pin(async move {
            let old = review["request"]["oldObject"]["data"].clone();
            let first = {
                let mut seen = seen.lock().expect("no panic");
                seen.push(old);
                seen.len() == 1
            };
            if first {
                // Another client writes while the webhook is being called. The write does not
                // concern `b`.
                let change = json!({"data": {"other": "yes"}});
                let path = format!("{CONFIG_MAPS}/a?fieldManager=other");
                patch_object(&server, &path, &change).await;
            }
            response(&review, &Value::Null)
        })
    });
    handle(&server, answer);
    let mine = json!({"matchConditions": [{"name": "mine",
        "expression": "!has(request.options.fieldManager)"}]});
    configure(&server, VALIDATING, "slow", &mine).await;
    let (status, body) =
        patch_object(&server, &format!("{CONFIG_MAPS}/a"), &json!({"data": {"mine": "yes"}})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body["data"]["other"], "yes");
    assert_eq!(body["data"]["mine"], "yes");
    let seen = seen.lock().expect("no panic").clone();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0].get("other").is_none() && seen[1]["other"] == "yes", "{seen:?}");
}

async fn patch_object(server: &ApiServer, path: &str, change: &Value) -> (StatusCode, Value) {
    call(server, Method::PATCH, path, Some(change.clone())).await
}

#[tokio::test]
async fn a_put_whose_object_changes_meanwhile_is_a_conflict() {
    let server = server();
    create(&server, "a").await;
    let (_, held) = get(&server, &format!("{CONFIG_MAPS}/a")).await;
    let inner = server.clone();
    let once = Arc::new(AtomicUsize::new(0));
    let answer: Answer = Arc::new(move |_, review| {
        let (server, once) = (inner.clone(), once.clone());
        Box::pin(async move {
            if once.fetch_add(1, Ordering::SeqCst) == 0 {
                set(&server, "a", "other").await;
            }
            response(&review, &Value::Null)
        })
    });
    handle(&server, answer);
    configure(&server, MUTATING, "slow", &Value::Null).await;
    let (status, body) = call(&server, Method::PUT, &format!("{CONFIG_MAPS}/a"), Some(held)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
}

#[tokio::test]
async fn each_webhook_is_called_once_for_a_write() {
    let server = server();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = calls.clone();
    handle(
        &server,
        plain(move |path, review| {
            noted.lock().expect("no panic").push(path.to_owned());
            if path.starts_with("/first") {
                return patch(
                    review,
                    &json!([{"op": "add", "path": "/data/hook", "value": "yes"}]),
                );
            }
            assert_eq!(review["request"]["object"]["data"]["hook"], "yes");
            response(review, &Value::Null)
        }),
    );
    configure(&server, MUTATING, "first", &Value::Null).await;
    configure(&server, MUTATING, "second", &Value::Null).await;
    configure(&server, VALIDATING, "third", &Value::Null).await;
    configure(&server, VALIDATING, "fourth", &Value::Null).await;
    let mut object = config_map("a", "0");
    object["metadata"] = json!({"generateName": "some-"});
    let (status, body) = post(&server, CONFIG_MAPS, object).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    assert_eq!(body["data"]["hook"], "yes");
    let calls = calls.lock().expect("no panic").clone();
    let expected =
        ["/first", "/second", "/fourth", "/third"].map(|path| format!("{path}?timeout=10s"));
    assert_eq!(calls, expected);
}

#[tokio::test]
async fn the_same_requests_give_the_same_answers() {
    async fn run() -> Value {
        let clock =
            windlass_apiserver::WallClock::fixed("2026-01-01T00:00:00Z".parse().expect("a time"));
        let server = ApiServer::builder().seed(7).clock(clock).build();
        handle(
            &server,
            plain(|_, review| {
                let uid = review["request"]["uid"].clone();
                patch(review, &json!([{"op": "add", "path": "/data/review", "value": uid}]))
            }),
        );
        configure(&server, MUTATING, "notes", &Value::Null).await;
        let mut object = config_map("a", "0");
        object["metadata"] = json!({"generateName": "some-"});
        post(&server, CONFIG_MAPS, object).await.1
    }
    let (one, other) = (run().await, run().await);
    assert!(one["data"]["review"].is_string(), "{one}");
    assert_eq!(one, other);
}

#[tokio::test]
async fn a_service_is_found_by_its_name_and_says_so_if_not() {
    let server = server();
    let service_of =
        |name: &str| json!({"clientConfig": {"service": {"namespace": "hooks", "name": name}}});
    let answer = plain(|path, review| {
        assert_eq!(path, "/?timeout=10s");
        response(review, &json!({"allowed": false, "status": {"message": "no"}}))
    });
    server.webhooks().handle_service("hooks", "known", service(answer));
    configure(&server, VALIDATING, "known", &service_of("known")).await;
    let (_, body) = post(&server, CONFIG_MAPS, config_map("a", "0")).await;
    assert_eq!(body["message"], "admission webhook \"known.windlass.dev\" denied the request: no");
    call(&server, Method::DELETE, &format!("{VALIDATING}/known"), None).await;
    configure(&server, VALIDATING, "unknown", &service_of("unknown")).await;
    let (_, body) = post(&server, CONFIG_MAPS, config_map("a", "0")).await;
    let message = body["message"].as_str().expect("a message");
    assert!(message.ends_with("service \"unknown\" not found"), "{message}");
}

#[tokio::test]
async fn configurations_that_are_deleted_or_restored_away_have_no_effect() {
    let server = server();
    let before = server.snapshot();
    handle(&server, plain(|_, review| response(review, &json!({"allowed": false}))));
    configure(&server, VALIDATING, "denies", &Value::Null).await;
    let (status, _) = post(&server, CONFIG_MAPS, config_map("a", "0")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let after = server.snapshot();
    call(&server, Method::DELETE, &format!("{VALIDATING}/denies"), None).await;
    let (status, _) = post(&server, CONFIG_MAPS, config_map("a", "0")).await;
    assert_eq!(status, StatusCode::CREATED);
    server.restore(&after);
    let (status, _) = post(&server, CONFIG_MAPS, config_map("b", "0")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    server.restore(&before);
    let (status, _) = post(&server, CONFIG_MAPS, config_map("b", "0")).await;
    assert_eq!(status, StatusCode::CREATED);
}

/// Returns a conversion webhook: `v1` has `spec.size`, `v2` has `spec.dimensions.size`.
fn converter(calls: Arc<AtomicUsize>) -> Answer {
    plain(move |_, review| {
        calls.fetch_add(1, Ordering::SeqCst);
        let request = &review["request"];
        let wanted = request["desiredAPIVersion"].as_str().expect("a version");
        let objects = request["objects"].as_array().expect("objects").iter().map(|object| {
            let mut object = object.clone();
            let spec = object["spec"].take();
            object["spec"] = if wanted.ends_with("/v2") {
                json!({"dimensions": {"size": spec["size"]}})
            } else {
                json!({"size": spec["dimensions"]["size"]})
            };
            object["apiVersion"] = wanted.into();
            object
        });
        let objects: Vec<Value> = objects.collect();
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": request["uid"], "convertedObjects": objects,
                "result": {"status": "Success"}}})
    })
}

fn versions(storage: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str| {
        json!({"name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": open}})
    };
    json!([version("v1"), version("v2")])
}

async fn define(server: &ApiServer) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.dev"},
        "spec": {"group": "example.dev", "scope": "Cluster", "versions": versions("v1"),
            "names": {"plural": "things", "kind": "Thing"},
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://hooks.test/convert"}}}},
    });
    let (status, body) = post(server, DEFINITIONS, definition).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
}

const V1: &str = "/apis/example.dev/v1/things";
const V2: &str = "/apis/example.dev/v2/things";

fn thing(name: &str, size: u32) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": name},
        "spec": {"size": size}})
}

#[tokio::test]
async fn a_list_is_converted_in_one_request_and_not_at_all_in_its_own_version() {
    let server = server();
    let calls = Arc::new(AtomicUsize::new(0));
    handle(&server, converter(calls.clone()));
    define(&server).await;
    for size in 0..5 {
        post(&server, V1, thing(&format!("t{size}"), size)).await;
    }
    assert_eq!(get(&server, V1).await.1["items"][4]["spec"]["size"], 4);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let (_, list) = get(&server, V2).await;
    assert_eq!(list["items"][4]["spec"]["dimensions"]["size"], 4, "{list}");
    assert_eq!(list["items"][0]["apiVersion"], "example.dev/v2");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn objects_stay_in_the_version_in_which_they_were_stored_until_they_are_written() {
    let server = server();
    handle(&server, converter(Arc::default()));
    define(&server).await;
    post(&server, V1, thing("a", 1)).await;
    let path = format!("{DEFINITIONS}/things.example.dev");
    let change = json!({"spec": {"versions": versions("v2")}});
    let (status, body) = patch_object(&server, &path, &change).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    // The old object is stored in v1, and a new one in v2.
    assert_eq!(get(&server, &format!("{V2}/a")).await.1["spec"]["dimensions"]["size"], 1);
    assert_eq!(get(&server, &format!("{V1}/a")).await.1["spec"]["size"], 1);
    post(&server, V1, thing("b", 2)).await;
    assert_eq!(get(&server, &format!("{V2}/b")).await.1["spec"]["dimensions"]["size"], 2);
    let (_, before) = get(&server, &format!("{V1}/a")).await;
    // A write that changes nothing stores the object in the new version.
    let (_, after) = patch_object(&server, &format!("{V1}/a"), &json!({})).await;
    assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!(after["spec"]["size"], 1);
    let (_, again) = patch_object(&server, &format!("{V1}/a"), &json!({})).await;
    assert_eq!(again["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_deletion_that_waits_keeps_the_object_in_its_version() {
    let server = server();
    handle(&server, converter(Arc::default()));
    define(&server).await;
    let mut object = thing("a", 1);
    object["metadata"]["finalizers"] = json!(["example.dev/wait"]);
    post(&server, V1, object).await;
    let path = format!("{DEFINITIONS}/things.example.dev");
    patch_object(&server, &path, &json!({"spec": {"versions": versions("v2")}})).await;
    let (status, body) = call(&server, Method::DELETE, &format!("{V2}/a"), None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["spec"]["dimensions"]["size"], 1, "{body}");
    assert_eq!(get(&server, &format!("{V1}/a")).await.1["spec"]["size"], 1);
}

#[tokio::test]
async fn a_watch_that_cannot_convert_ends_with_an_error() {
    let server = server();
    handle(
        &server,
        plain(|_, review| {
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": review["request"]["uid"], "result": {"status": "Failure",
                "message": "not today"}}})
        }),
    );
    define(&server).await;
    post(&server, V1, thing("a", 1)).await;
    let mut watch = crate::support::watch_at(&server, &format!("{V2}?watch=1")).await;
    let Next::Event(kind, status) = watch.next().await else { panic!("an event was expected") };
    assert_eq!(kind, "ERROR");
    let why = "conversion webhook for example.dev/v1, Kind=Thing failed: not today";
    assert_eq!(status["message"], why);
    assert_eq!(watch.next().await, Next::End);
}
