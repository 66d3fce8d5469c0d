//! Requests that fail, and what is said about it.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::{Fault, FaultRule};
use windlass_webhook::certificates::{CertificateState, Certificates, CertificatesError};

use crate::certificates::cluster::{Cluster, SECRET, VALIDATING};

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
    assert_eq!(faults.times_applied(id), 5);
}

#[tokio::test(start_paused = true)]
async fn object_that_changes_before_it_is_written_is_read_again() {
    let cluster = Cluster::with_webhooks().await;
    let faults = cluster.server.server().expect("embedded").faults();
    let delay = FaultRule::new(Fault::Delay(Duration::from_millis(900)));
    faults.add(delay.verb("patch").resource("validatingwebhookconfigurations").times(1));
    let mut certificates = cluster.certificates();
    let (ensured, ()) = tokio::join!(certificates.ensure(), async {
        // Meanwhile somebody removes the first of two webhooks.
        sleep(Duration::from_millis(100)).await;
        let webhooks = cluster.get(VALIDATING).await["webhooks"].clone();
        cluster.merge(VALIDATING, &json!({"webhooks": [webhooks[1]]})).await;
    });
    ensured.expect("certificates");
    let bundles = cluster.bundles(VALIDATING).await;
    assert_eq!(bundles.len(), 1);
    cluster.call_by_all_bundles(&certificates.served()).await;
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
    let cluster = Cluster::on(TestServer::embedded_with_roles()).await;
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
    let client = TestServer::embedded().client().expect("a client");
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
