//! Metrics, and what is logged.

use std::future::pending;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tracing::Level;
use windlass_testkit::Log;
use windlass_webhook::{
    Admission, Conversion, Operation, Validate, Verdict, WebhookMetrics, Webhooks,
};

use crate::stage::{VALIDATE, ask, create, send, v1, v1alpha1, v2};

struct Counted;

impl Validate<v1::Website> for Counted {
    async fn validate(&self, operation: Operation<'_, v1::Website>, _: &Admission) -> Verdict {
        match operation.new_object().and_then(|new| new.spec.replicas) {
            Some(1) => panic!("as the test wants it"),
            Some(2) => pending().await,
            Some(3) => Verdict::deny("three"),
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
