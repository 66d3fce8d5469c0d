//! Keys show in no log line, error or debug output.
//!
//! A program of its own: other tests would decide which log lines are enabled.

#[allow(dead_code, reason = "other tests use the rest of it")]
use tracing::Level;
use windlass_testserver::Log;
use windlass_testserver::apiserver::{Fault, FaultRule};

use crate::certificates::cluster::{Cluster, SECRET, decode};

#[tokio::test(start_paused = true)]
async fn keys_show_nowhere() {
    let log = Log::start_at(Level::TRACE);
    let cluster = Cluster::with_webhooks().await;
    let faults = cluster.server.server().expect("embedded").faults();
    let mut certificates = cluster.certificates();
    certificates.ensure().await.expect("certificates");
    let encoded = read_key(&cluster.client).await;

    // Answers that cannot be read, and requests that are refused.
    let mut shown = format!("{certificates:?} {:?}", certificates.served());
    for fault in [
        Fault::CutAnswer { after_bytes: 700 },
        Fault::Fail { code: 422, retry_after: None },
        Fault::Fail { code: 500, retry_after: None },
        Fault::LoseAnswer,
    ] {
        faults.add(FaultRule::new(fault).resource("secrets").times(1));
        let error = certificates.ensure().await.expect_err("a fault");
        shown.extend([format!("{error} {error:?} {error:#?}")]);
    }
    shown += &log.text();
    assert!(shown.contains("a new certificate is served"), "{shown}");
    let decoded = decode(&encoded.clone().into()).expect("text");
    let line = decoded.lines().nth(1).expect("a line");
    for secret in [&encoded[..40], &encoded[40..80], &line[..40], "PRIVATE KEY"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// Without `kube::Api` and the log lines of this test's own requests.
async fn read_key(client: &kube::Client) -> String {
    let _guard = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::default());
    let request = http::Request::get(SECRET).body(Vec::new()).expect("a request");
    let secret: serde_json::Value = client.request(request).await.expect("the Secret");
    secret["data"]["ca.key"].as_str().expect("a key").to_owned()
}
