//! Requests that fail, and what is said about it.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass_testkit::TestCluster;
use windlass_testkit::apiserver::{Fault, FaultRule};
use windlass_webhook::certificates::{CertificateState, Certificates, CertificatesError};

use crate::cluster::{Cluster, SECRET, decode};

fn fail(code: u16) -> FaultRule {
    FaultRule::new(Fault::Fail { code, retry_after: None })
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_retried() {
    let cluster = Cluster::with_webhooks().await;
    let faults = cluster.server.server().expect("embedded").faults();
    faults.add(fail(409).verb("create").resource("secrets").times(1));
    for name in ["operator", "websites.example.com"] {
        faults.add(fail(409).verb("patch").name(name).times(1));
    }
    let mut certificates = cluster.certificates();
    certificates.ensure().await.expect("certificates");
    cluster.call_by_all_bundles(&certificates.served()).await;

    // Not forever.
    cluster.delete(SECRET).await;
    let id = faults.add(fail(409).verb("create").resource("secrets"));
    let error = certificates.ensure().await.expect_err("conflicts").to_string();
    assert!(error.contains("secrets/certificates in default was changed"), "{error}");
    assert_eq!(faults.struck(id), 5);
}

#[tokio::test(start_paused = true)]
async fn write_whose_answer_is_lost_is_found_later() {
    let cluster = Cluster::with_webhooks().await;
    let faults = cluster.server.server().expect("embedded").faults();
    for verb in ["create", "patch"] {
        faults.add(FaultRule::new(Fault::LoseAnswer).verb(verb).times(1));
    }
    let mut certificates = cluster.certificates();
    certificates.ensure().await.expect_err("no answer");
    let made = cluster.get(SECRET).await["data"].clone();
    certificates.ensure().await.expect_err("no answer");
    certificates.ensure().await.expect("certificates");
    assert_eq!(cluster.get(SECRET).await["data"], made);
    cluster.call_by_all_bundles(&certificates.served()).await;
}

#[tokio::test(start_paused = true)]
async fn server_that_does_not_answer_is_not_waited_for_forever() {
    let cluster = Cluster::with_webhooks().await;
    let faults = cluster.server.server().expect("embedded").faults();
    let id = faults.add(FaultRule::new(Fault::Hang).verb("get").resource("secrets"));
    let mut certificates = cluster.certificates();
    let error = certificates.ensure().await.expect_err("no answer");
    assert!(matches!(error, CertificatesError::TookTooLong { verb: "get", .. }), "{error}");
    assert!(certificates.served().check().is_err());
    faults.remove(id);
    certificates.ensure().await.expect("certificates");
    certificates.served().check().expect("valid");
}

#[tokio::test(start_paused = true)]
async fn secret_of_somebody_else_is_refused_and_left_alone() {
    let cluster = Cluster::with_webhooks().await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certificates"},
        "data": {"ca.crt": "AAAA", "password": "c2VjcmV0"},
    });
    let path = SECRET.rsplit_once('/').expect("a path").0;
    cluster.send(http::Method::POST, path, Some(&foreign)).await.expect("created");
    let before = cluster.get(SECRET).await;
    let mut certificates = cluster.certificates();
    let error = certificates.ensure().await.expect_err("foreign");
    assert!(matches!(error, CertificatesError::ForeignSecret { .. }), "{error}");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("the Secret default/certificates has the type `Opaque`"), "{shown}");
    assert!(!shown.contains("c2VjcmV0"), "{shown}");
    assert_eq!(cluster.get(SECRET).await, before);
    assert_eq!(certificates.served().state(), CertificateState::Missing);
}

#[tokio::test]
async fn missing_right_is_named() {
    let cluster = Cluster::on(TestCluster::embedded_with_roles()).await;
    let account = cluster.server.account("default", "operator").await.expect("an account");
    let mut certificates = cluster.certificates_by(account.client().expect("a client"));
    let error = certificates.ensure().await.expect_err("no right").to_string();
    let rule = "{apiGroups: [\"\"], resources: [secrets], verbs: [get]}";
    assert!(error.contains("not allowed to get secrets/certificates in default"), "{error}");
    assert!(error.contains(rule), "{error}");

    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]});
    account.grant(&[rule]).await.expect("granted");
    let error = certificates.ensure().await.expect_err("no right").to_string();
    assert!(error.contains("not allowed to get mutatingwebhookconfigurations/operator"), "{error}");
    // What can be done is done.
    certificates.served().check().expect("valid");
}

#[test]
fn names_are_checked() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _entered = runtime.enter();
    let client = TestCluster::embedded().client().expect("a client");
    let new = |names: &[&str]| {
        let names = names.iter().copied();
        Certificates::new(client.clone(), "default", "certificates", names).err()
    };
    assert!(new(&["operator.default.svc", "10.0.0.1", "::1", "localhost"]).is_none());
    assert!(matches!(new(&[]), Some(CertificatesError::NoNames)));
    for name in ["", "a b", "*", "https://localhost", "a/b"] {
        let error = new(&["localhost", name]);
        assert!(matches!(error, Some(CertificatesError::InvalidName { .. })), "{name}: {error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn name_that_would_change_a_path_is_refused() {
    let cluster = Cluster::new().await;
    for secret in ["", "../configmaps/x", "a?b", "a/b"] {
        let client = cluster.client.clone();
        let mut certificates =
            Certificates::new(client, "default", secret, ["localhost"]).expect("a valid name");
        let error = certificates.ensure().await.expect_err("no name").to_string();
        assert!(error.contains("it is no valid name"), "{error}");
    }
}

/// The log lines of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn keys_show_nowhere() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let cluster = Cluster::with_webhooks().await;
    let faults = cluster.server.server().expect("embedded").faults();
    let mut certificates = cluster.certificates();
    certificates.ensure().await.expect("certificates");
    let key = &cluster.server.client().expect("a client");
    let encoded = read_key(key).await;

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
        shown += &format!("{error} {error:?} {error:#?}");
    }
    shown += &String::from_utf8_lossy(&log.0.lock().expect("not poisoned"));
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
