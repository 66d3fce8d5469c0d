//! What a scrape shows of the requests of a client. The names are client-go's, as
//! controller-runtime shows them.
#![cfg(feature = "prometheus")]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::client::Body;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use windlass_informer::{ClientStack, RequestMetrics};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";

fn request(method: &str, uri: &str, body: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(uri);
    request
        .header("content-type", "application/json")
        .body(body.as_bytes().to_vec().into())
        .expect("valid")
}

fn get(uri: &str) -> Request<Body> {
    request("GET", uri, "")
}

fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    text::encode(&mut text, registry).expect("a string takes everything");
    text
}

/// The samples whose names begin so, sorted: those of a family have no order.
fn samples(registry: &Registry, prefix: &str) -> Vec<String> {
    let scrape = scrape(registry);
    let lines = scrape.lines().filter(|line| line.starts_with(prefix));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_code_method_and_host() {
    let mut registry = Registry::default();
    let metrics = RequestMetrics::register(&mut registry);
    let server = ApiServer::builder().build();
    let client = ClientStack::new().observer(Arc::new(metrics)).around(server.service(), "default");
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    for request in [
        get(CONFIGS),
        request("POST", CONFIGS, object),
        request("POST", CONFIGS, object),
        get(&format!("{CONFIGS}?watch=true&timeoutSeconds=1")),
    ] {
        client.send(request).await.expect("an answer");
    }
    server.faults().add(FaultRule::new(Fault::Hang));
    let impatient = tokio::time::timeout(Duration::from_secs(3), client.send(get(CONFIGS)));
    impatient.await.expect_err("no answer yet");

    assert_eq!(
        samples(&registry, "rest_client_requests_total"),
        [
            r#"rest_client_requests_total{code="200",method="GET",host="in-process"} 2"#,
            r#"rest_client_requests_total{code="201",method="POST",host="in-process"} 1"#,
            r#"rest_client_requests_total{code="409",method="POST",host="in-process"} 1"#,
            r#"rest_client_requests_total{code="<error>",method="GET",host="in-process"} 1"#,
        ]
    );
    // The watch has no duration: its answer begins when the server has something to say.
    assert_eq!(
        samples(&registry, "rest_client_request_duration_seconds_count"),
        [
            r#"rest_client_request_duration_seconds_count{verb="GET",host="in-process"} 2"#,
            r#"rest_client_request_duration_seconds_count{verb="POST",host="in-process"} 2"#,
        ]
    );
    let buckets = samples(&registry, "rest_client_request_duration_seconds_bucket{le=\"2.0\"");
    assert!(buckets[0].ends_with(r#"verb="GET",host="in-process"} 1"#), "{buckets:?}");
    let buckets = samples(&registry, "rest_client_request_duration_seconds_bucket{le=\"4.0\"");
    assert!(buckets[0].ends_with(r#"verb="GET",host="in-process"} 2"#), "{buckets:?}");
    assert_eq!(samples(&registry, "rest_client_rate_limiter_duration_seconds"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn rate_limit_is_shown_for_every_request_that_passed_it() {
    let mut registry = Registry::default();
    let metrics = RequestMetrics::register(&mut registry);
    let server = ApiServer::builder().build();
    let one = NonZeroU32::new(1).expect("not zero");
    let stack = ClientStack::new().rate(one, one).observer(Arc::new(metrics));
    let client = stack.around(server.service(), "default");
    for _ in 0..3 {
        client.send(get(CONFIGS)).await.expect("an answer");
    }
    let samples_of =
        |what: &str| samples(&registry, &format!("rest_client_rate_limiter_duration_{what}"));
    let labels = r#"{verb="GET",host="in-process"}"#;
    let name = "rest_client_rate_limiter_duration_seconds";
    assert_eq!(samples_of("seconds_count"), [format!("{name}_count{labels} 3")]);
    assert_eq!(samples_of("seconds_sum"), [format!("{name}_sum{labels} 2.0")]);
    assert_eq!(samples_of("seconds_bucket{le=\"0.5\"").len(), 1);
    assert!(
        samples_of("seconds_bucket{le=\"0.5\"")[0].ends_with(" 1"),
        "the first was not held back"
    );
}

#[tokio::test]
async fn host_is_the_server_of_the_configuration() {
    let mut registry = Registry::default();
    let metrics = RequestMetrics::register(&mut registry);
    // Nobody listens there.
    let config = kube::Config::new("http://user:secret@127.0.0.1:1/".parse().expect("a URL"));
    let client = ClientStack::new().observer(Arc::new(metrics)).connect(config).expect("a client");
    client.send(get(CONFIGS)).await.expect_err("no server");
    assert_eq!(
        samples(&registry, "rest_client_requests_total"),
        [r#"rest_client_requests_total{code="<error>",method="GET",host="127.0.0.1:1"} 1"#]
    );
    assert!(!scrape(&registry).contains("secret"));
}
