//! Replicas that share a Secret.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_testserver::apiserver::{Fault, FaultRule};
use windlass_testserver::{TestServer, on_each_server};
use windlass_webhook::certificates::{CertificateState, Certificates, SECRET_TYPE};

use crate::certificates::cluster::{Cluster, DEFINITION, MUTATING, SECRET, VALIDATING, count};

#[tokio::test(start_paused = true)]
async fn replicas_that_start_at_once_agree_on_one_secret() {
    let cluster = Cluster::with_webhooks().await;
    let mut replicas: Vec<_> = (0..3).map(|_| cluster.certificates()).collect();
    let ensured = join_all(replicas.iter_mut().map(Certificates::ensure)).await;
    assert!(ensured.iter().all(Result::is_ok), "{ensured:?}");
    for path in [MUTATING, VALIDATING, DEFINITION] {
        for bundle in cluster.bundles(path).await {
            assert_eq!(count(&bundle.expect("a bundle")), 1, "{path}");
        }
    }
    for replica in &replicas {
        cluster.call_by_all_bundles(&replica.served()).await;
    }
    let secret = cluster.get(SECRET).await;
    assert_eq!(secret["type"], SECRET_TYPE);
    let keys: Vec<_> = secret["data"].as_object().expect("data").keys().collect();
    assert_eq!(keys, ["ca.crt", "ca.key"]);
}

on_each_server!(authority_is_rotated);
async fn authority_is_rotated(server: TestServer) {
    let cluster = Cluster::on(server).await;
    for path in [MUTATING, VALIDATING, DEFINITION] {
        cluster.install(path).await;
    }
    let (mut one, mut late) = (cluster.certificates(), cluster.certificates());
    for replica in [&mut one, &mut late] {
        replica.ensure().await.expect("certificates");
        cluster.call_by_all_bundles(&replica.served()).await;
    }
    let first = one.served().state();
    // Half of the time is over, then nearly all of it.
    for seconds in [16, 10] {
        cluster.add_seconds(seconds);
        one.ensure().await.expect("certificates");
        assert_eq!(count(&one.served().bundle().expect("a bundle")), 2);
        for replica in [&one, &late] {
            cluster.call_by_all_bundles(&replica.served()).await;
        }
    }
    assert_ne!(one.served().state(), first);
    assert_eq!(late.served().state(), first);
    late.ensure().await.expect("certificates");
    assert_eq!(late.served().state(), one.served().state());
}

#[tokio::test(start_paused = true)]
async fn restarted_replica_uses_what_is_there() {
    let cluster = Cluster::with_webhooks().await;
    cluster.certificates().ensure().await.expect("certificates");
    let before = [SECRET, MUTATING, VALIDATING, DEFINITION];
    let before = join_all(before.iter().map(|path| cluster.get(path))).await;
    let mut again = cluster.certificates();
    assert_eq!(again.served().state(), CertificateState::Missing);
    again.ensure().await.expect("certificates");
    let after = [SECRET, MUTATING, VALIDATING, DEFINITION];
    let after = join_all(after.iter().map(|path| cluster.get(path))).await;
    assert_eq!(before, after);
    cluster.call_by_all_bundles(&again.served()).await;
}

#[tokio::test(start_paused = true)]
async fn late_replica_takes_no_certificate_out_of_a_bundle() {
    let cluster = Cluster::with_webhooks().await;
    let (mut one, mut late) = (cluster.certificates(), cluster.certificates());
    one.ensure().await.expect("certificates");
    let faults = cluster.server.server().expect("embedded").faults();
    for name in ["operator", "websites.example.com"] {
        let delay = FaultRule::new(Fault::Delay(Duration::from_millis(900)));
        faults.add(delay.verb("get").name(name).times(1));
    }
    let (ensured, ()) = tokio::join!(late.ensure(), async {
        // Meanwhile the other replica makes the next certificate authority.
        sleep(Duration::from_millis(100)).await;
        cluster.add_seconds(20);
        one.ensure().await.expect("certificates");
        assert_eq!(count(&one.served().bundle().expect("a bundle")), 2);
    });
    ensured.expect("certificates");
    for path in [MUTATING, VALIDATING, DEFINITION] {
        for bundle in cluster.bundles(path).await {
            assert_eq!(bundle.as_deref(), one.served().bundle().as_deref(), "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn replica_whose_clock_is_wrong_serves_what_the_others_do() {
    const DAY: i64 = 24 * 60 * 60;
    let cluster = Cluster::with_webhooks().await;
    let mut right = cluster.certificates();
    right.ensure().await.expect("certificates");
    let before = cluster.get(SECRET).await["data"].clone();
    for days in [400, 3, -3, -400] {
        let mut wrong = cluster.certificates_wrong_by(days * DAY);
        wrong.ensure().await.expect("certificates");
        assert_eq!(cluster.get(SECRET).await["data"], before, "{days}");
        assert_eq!(wrong.served().state(), right.served().state());
        wrong.served().check().expect("valid, for whoever calls it");
        right.ensure().await.expect("certificates");
        for replica in [&right, &wrong] {
            cluster.call_by_all_bundles(&replica.served()).await;
        }
    }
    // It makes the next authority as the others would, if it is the first to see that it is time.
    let mut wrong = cluster.certificates_wrong_by(400 * DAY);
    cluster.add_seconds(16);
    wrong.ensure().await.expect("certificates");
    assert_eq!(cluster.get(SECRET).await["data"]["ca.crt"], before["ca.crt"]);
    for replica in [&right, &wrong] {
        cluster.call_by_all_bundles(&replica.served()).await;
    }
    cluster.add_seconds(10);
    right.ensure().await.expect("certificates");
    wrong.ensure().await.expect("certificates");
    assert_ne!(cluster.get(SECRET).await["data"]["ca.crt"], before["ca.crt"]);
    assert_eq!(wrong.served().state(), right.served().state());
    for replica in [&right, &wrong] {
        cluster.call_by_all_bundles(&replica.served()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn secret_that_a_chart_creates_empty_is_filled() {
    let cluster = Cluster::with_webhooks().await;
    let labels = json!({"app": "operator"});
    let empty = json!({
        "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
        "metadata": {"name": "certificates", "labels": labels},
    });
    let path = SECRET.rsplit_once('/').expect("a path").0;
    cluster.send(http::Method::POST, path, Some(&empty)).await.expect("created");
    let mut certificates = cluster.certificates();
    certificates.ensure().await.expect("certificates");
    cluster.call_by_all_bundles(&certificates.served()).await;
    assert_eq!(cluster.get(SECRET).await["metadata"]["labels"], labels);
}

#[tokio::test(start_paused = true)]
async fn garbage_in_the_secret_is_replaced() {
    let cluster = Cluster::with_webhooks().await;
    let mut first = cluster.certificates();
    first.ensure().await.expect("certificates");
    let good = cluster.get(SECRET).await["data"].clone();
    let cut = |key: &str| {
        let text = good[key].as_str().expect("text");
        Value::from(&text[..text.len() / 2 / 4 * 4])
    };
    for garbage in [
        json!({"ca.crt": null, "ca.key": null}),
        json!({"ca.crt": "", "ca.key": ""}),
        json!({"ca.crt": "AAAA", "ca.key": "/////w=="}),
        json!({"ca.crt": cut("ca.crt")}),
        json!({"ca.key": cut("ca.key")}),
        json!({"ca.crt": good["ca.key"], "ca.key": good["ca.crt"]}),
        json!({"next.crt": good["ca.crt"], "next.key": "AAAA", "previous.crt": "AAAA"}),
    ] {
        cluster.merge(SECRET, &json!({ "data": good })).await;
        cluster.merge(SECRET, &json!({ "data": garbage })).await;
        // One that has just started, and one that was there before, and has not noticed yet.
        let mut new = cluster.certificates();
        new.ensure().await.expect("certificates");
        for replica in [&new, &first] {
            cluster.call_by_all_bundles(&replica.served()).await;
        }
        first.ensure().await.expect("certificates");
        cluster.call_by_all_bundles(&first.served()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn conversion_without_a_webhook_is_left_alone() {
    let cluster = Cluster::new().await;
    cluster.install(DEFINITION).await;
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    cluster.merge(DEFINITION, &none).await;
    let before = cluster.get(DEFINITION).await;
    cluster.certificates().ensure().await.expect("certificates");
    assert_eq!(cluster.get(DEFINITION).await, before);
}
