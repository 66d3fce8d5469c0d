//! Metrics, and what is logged.

use std::future::pending;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::advance;
use tracing::Level;
use windlass_testserver::Log;
use windlass_webhook::{
    Admission, Conversion, Operation, Validate, Verdict, WebhookMetrics, Webhooks,
};

use crate::webhooks::stage::{VALIDATE, ask, create, send, v1, v1alpha1, v2};

struct Counted;

impl Validate<v1::Website> for Counted {
    async fn validate(&self, operation: Operation<'_, v1::Website>, _: &Admission) -> Verdict {
        match operation.new_object().and_then(|new| new.spec.replicas) {
            Some(1) => panic!("as the test wants it"),
            Some(2) => pending().await,
            Some(3) => Verdict::deny("three"),
            Some(4) => Verdict::undecided("the registry is down"),
            Some(5) => Verdict::allow().audit("not a key", "x"),
            _ => Verdict::allow(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_under_controller_runtimes_names() {
    let mut registry = Registry::default();
    let metrics = WebhookMetrics::register(&mut registry);
    let router = Webhooks::new()
        .validate::<v1::Website>(Counted)
        .convert(Conversion::hub::<v2::Website>().spoke::<v1alpha1::Website>())
        .metrics(&metrics)
        .router()
        .unwrap();
    for replicas in [0, 1, 2, 3] {
        ask(&router, VALIDATE, &create(json!({"replicas": replicas}))).await;
    }
    send(&router, VALIDATE, "{").await;
    let object = json!({
        "apiVersion": "example.com/v1alpha1",
        "kind": "Website",
        "spec": {"hosts": "panic"},
    });
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": [object]},
    });
    ask(&router, "/convert", &review).await;
    let hanging = send(&router, VALIDATE, create(json!({"replicas": 2})).to_string());
    let given_up = tokio::time::timeout(std::time::Duration::from_secs(1), hanging).await;
    assert!(given_up.is_err());

    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let webhook = format!("webhook=\"{VALIDATE}\"");
    let expected = [
        format!("controller_runtime_webhook_requests_total{{{webhook},code=\"200\"}} 4"),
        format!("controller_runtime_webhook_requests_total{{{webhook},code=\"400\"}} 1"),
        "controller_runtime_webhook_requests_total{webhook=\"/convert\",code=\"200\"} 1".to_owned(),
        format!("controller_runtime_webhook_requests_in_flight{{{webhook}}} 0"),
        format!("controller_runtime_webhook_latency_seconds_count{{{webhook}}} 5"),
        "controller_runtime_webhook_panics_total 1".to_owned(),
        "controller_runtime_conversion_webhook_panics_total 1".to_owned(),
        format!("windlass_webhook_answers_total{{{webhook},answer=\"allowed\"}} 1"),
        format!("windlass_webhook_answers_total{{{webhook},answer=\"denied\"}} 1"),
        format!("windlass_webhook_answers_total{{{webhook},answer=\"panic\"}} 1"),
        format!("windlass_webhook_answers_total{{{webhook},answer=\"timeout\"}} 1"),
        format!("windlass_webhook_answers_total{{{webhook},answer=\"refused\"}} 1"),
        format!("windlass_webhook_answers_total{{{webhook},answer=\"cancelled\"}} 1"),
    ];
    for line in expected {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
}

#[test]
fn debug_output_shows_no_content() {
    let review = create(json!({"pages": [{"name": "hunter2"}]}));
    let request = serde_json::from_value(review["request"].clone()).unwrap();
    let shown = format!("{:?}", Admission::new(request));
    assert!(shown.contains("0c9a8d74"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn spans_name_the_request_and_neither_they_nor_log_lines_show_content() {
    let log = Log::with_spans(Level::TRACE);
    let conversion = Conversion::hub::<v2::Website>().spoke::<v1::Website>();
    let webhooks = Webhooks::new().validate::<v1::Website>(Counted).convert(conversion);
    let router = webhooks.router().unwrap();
    for replicas in [json!(0), json!(1), json!(2), json!(3), json!("hunter2")] {
        let spec = json!({"replicas": replicas, "pages": [{"name": "hunter2"}]});
        ask(&router, VALIDATE, &create(spec)).await;
    }
    send(&router, VALIDATE, "hunter2").await;
    let object = json!({
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": "converted"},
        "spec": {"replicas": "hunter2"},
    });
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": [object]},
    });
    ask(&router, "/convert", &review).await;

    let logged = log.text();
    for field in [
        "uid=\"0c9a8d74\"",
        "operation=\"CREATE\"",
        "kind=\"Website\"",
        "namespace=\"default\"",
        "name=\"x\"",
        "to=\"example.com/v2\"",
        "converted",
    ] {
        assert!(logged.contains(field), "{field} is not in {logged}");
    }
    assert!(!logged.contains("hunter2"), "{logged}");
}

/// Without authentication, anybody who reaches the port can send all of these.
#[tokio::test(start_paused = true)]
async fn flood_of_requests_logs_one_line_a_minute_of_each_kind() {
    let log = Log::start();
    let conversion = Conversion::hub::<v2::Website>().spoke::<v1::Website>();
    let conversion = conversion.spoke::<v1alpha1::Website>().keep_unknown_fields();
    let webhooks = Webhooks::new().validate::<v1::Website>(Counted).convert(conversion);
    let router = webhooks.router().unwrap();
    let mut reviews: Vec<_> = [json!(1), json!(2), json!(4), json!(5), json!("x")]
        .into_iter()
        .map(|replicas| (VALIDATE, create(json!({"replicas": replicas}))))
        .collect();
    let mut other = create(json!({}));
    other["request"]["resource"]["resource"] = json!("others");
    reviews.push((VALIDATE, other));
    let large = "x".repeat(200_000);
    let unconvertible = json!({"kept-fields.windlass.dev/v2": "{\"spec\":7}"});
    for (spec, annotations) in [
        (json!({"hosts": "panic"}), json!({})),
        (json!({"hosts": 7}), json!({})),
        (json!({"unknown": large}), json!({})),
        (json!({}), unconvertible),
    ] {
        let object = json!({
            "apiVersion": "example.com/v1alpha1",
            "kind": "Website",
            "metadata": {"name": "x", "annotations": annotations},
            "spec": spec,
        });
        let request =
            json!({"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": [object]});
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request,
        });
        reviews.push(("/convert", review));
    }
    let flood = async || {
        for path in [VALIDATE, "/convert"] {
            send(&router, path, "{").await;
            send(&router, path, "").await;
        }
        for (path, review) in &reviews {
            ask(&router, path, review).await;
        }
    };
    flood().await;
    let kinds = log.lines().len();
    for line in [
        "the body is not valid JSON",
        "the webhook at",
        "the handler could not decide",
        "not understood",
        "the handler panicked",
        "it took too long",
        "its key is invalid",
        "a converter panicked",
        "a conversion failed",
        "too large to be kept",
        "kept fields are not restored",
    ] {
        assert!(!log.lines_with(line).is_empty(), "{line} is not in {:#?}", log.lines());
    }
    // A slow handler has its ten seconds each time, so not many fit into a minute.
    for _ in 0..4 {
        flood().await;
    }
    assert_eq!(log.lines().len(), kinds, "{:#?}", log.lines());
    advance(Duration::from_mins(1)).await;
    flood().await;
    assert_eq!(log.lines().len(), 2 * kinds, "{:#?}", log.lines());
    let panics = log.lines_with("the handler panicked");
    assert!(panics[1].contains("left_out=4"), "{panics:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_makes_up_is_cut_in_lines_and_answers() {
    let log = Log::with_spans(Level::TRACE);
    let conversion = Conversion::hub::<v2::Website>().spoke::<v1::Website>();
    let webhooks = Webhooks::new().validate::<v1::Website>(Counted).convert(conversion);
    let router = webhooks.router().unwrap();
    let huge = "ä".repeat(10_000);
    let mut named = create(json!({"replicas": "mistyped"}));
    for field in ["name", "namespace", "subResource"] {
        named["request"][field] = json!(huge);
    }
    for field in ["group", "version", "kind"] {
        named["request"]["kind"][field] = json!(huge);
    }
    let mut other = create(json!({}));
    for field in ["group", "version", "resource"] {
        other["request"]["resource"][field] = json!(huge);
    }
    let object = |api_version: &str, kind: &str| {
        let metadata = json!({"name": huge, "namespace": huge});
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    };
    let review = |to: &str, object| {
        let request = json!({"uid": "u", "desiredAPIVersion": to, "objects": [object]});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request,
        })
    };
    let (v1, v2) = ("example.com/v1", "example.com/v2");
    for (path, review) in [
        (VALIDATE, named),
        (VALIDATE, other),
        ("/convert", review(v2, object(v1, &huge))),
        ("/convert", review(v2, object(&format!("{huge}/v1"), "Website"))),
        ("/convert", review(v2, object(&format!("example.com/{huge}"), "Website"))),
        ("/convert", review(&huge, object(v1, "Website"))),
        ("/convert", review(&format!("example.com/{huge}"), object(v1, "Website"))),
    ] {
        let answer = ask(&router, path, &review).await.to_string();
        assert!(answer.len() < 3_000, "{} bytes: {answer}", answer.len());
        advance(Duration::from_mins(1)).await;
    }
    let longest = log.lines().into_iter().max_by_key(String::len).expect("a line");
    assert!(longest.len() < 5_000, "{} bytes: {longest}", longest.len());
}
