//! Rotations, with a lifetime of 30 s on the paused clock.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_webhook::certificates::{CertificateState, Served};

use crate::certificates::cluster::{
    Cluster, DEFINITION, LIFETIME, MUTATING, SECRET, VALIDATING, count,
};

/// Replicas that run until this is dropped.
struct Running {
    served: Vec<Served>,
    stop: CancellationToken,
}

impl Running {
    async fn start(cluster: &Cluster, replicas: usize) -> Self {
        let (stop, tasks, mut served) = (CancellationToken::new(), TaskTracker::new(), Vec::new());
        for _ in 0..replicas {
            let mut certificates = cluster.certificates();
            certificates.ensure().await.expect("certificates");
            served.push(certificates.served());
            let stop = stop.clone();
            tasks.spawn(async move { certificates.run(&stop).await });
        }
        Self { served, stop }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn until(served: &Served) -> i64 {
    match served.state() {
        CertificateState::Valid { until } => until.as_second(),
        state => panic!("{state:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn no_handshake_fails_during_five_rotations() {
    let cluster = Cluster::with_webhooks().await;
    let running = Running::start(&cluster, 2).await;
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    // Far more than five rotations need: each takes a little more than half of a lifetime.
    for _ in 0..(LIFETIME.as_millis() * 4 / 400) {
        for (served, seen) in running.served.iter().zip(&mut seen) {
            cluster.call_by_all_bundles(served).await;
            seen.insert(until(served));
        }
        sleep(Duration::from_millis(400)).await;
    }
    assert!(seen.iter().all(|seen| seen.len() > 5), "{seen:?}");
    // What has expired is gone.
    for bundle in cluster.bundles(MUTATING).await {
        assert!(count(&bundle.expect("a bundle")) <= 3);
    }
}

#[tokio::test(start_paused = true)]
async fn next_authority_is_in_every_bundle_before_it_signs() {
    let cluster = Cluster::with_webhooks().await;
    let running = Running::start(&cluster, 1).await;
    let served = &running.served[0];
    let first = until(served);
    while count(&served.bundle().expect("a bundle")) < 2 {
        sleep(Duration::from_millis(100)).await;
    }
    // The replica that saw it first waits for the overlap, a tenth of the lifetime.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(until(served), first);
    for path in [MUTATING, VALIDATING, DEFINITION] {
        for bundle in cluster.bundles(path).await {
            assert_eq!(bundle.as_deref(), served.bundle().as_deref(), "{path}");
        }
    }
    while until(served) == first {
        cluster.call_by_all_bundles(served).await;
        sleep(Duration::from_millis(100)).await;
    }
    cluster.call_by_all_bundles(served).await;
}

#[tokio::test(start_paused = true)]
async fn authority_that_cannot_be_published_does_not_sign_before_the_deadline() {
    use windlass_testserver::apiserver::{Fault, FaultRule};

    let cluster = Cluster::with_webhooks().await;
    let running = Running::start(&cluster, 1).await;
    let served = &running.served[0];
    let first = until(served);
    let refuse = FaultRule::new(Fault::Fail { code: 403, retry_after: None });
    let faults = cluster.server.server().expect("embedded").faults();
    faults.add(refuse.verb("patch").name("websites.example.com"));
    // The old certificate is served as long as clients accept it.
    sleep(Duration::from_secs(22)).await;
    assert_eq!(until(served), first);
    cluster.call_by_all_bundles(served).await;
    // Then the others go on.
    sleep(Duration::from_secs(5)).await;
    assert_ne!(until(served), first);
    for bundle in cluster.bundles(VALIDATING).await {
        cluster.call(served, &bundle.expect("a bundle")).await.expect("accepted");
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_secret_leads_to_new_keys_without_a_gap() {
    let cluster = Cluster::with_webhooks().await;
    let running = Running::start(&cluster, 2).await;
    let first = cluster.get(SECRET).await["data"]["ca.crt"].clone();
    cluster.delete(SECRET).await;
    // The new certificate authority is published first.
    sleep(Duration::from_secs(1)).await;
    let restored = cluster.get(SECRET).await["data"].clone();
    assert_eq!(restored["ca.crt"], first);
    assert!(restored["next.crt"].is_string());
    // Long before a rotation is due.
    for _ in 0..40 {
        for served in &running.served {
            cluster.call_by_all_bundles(served).await;
        }
        sleep(Duration::from_millis(200)).await;
    }
    assert_ne!(cluster.get(SECRET).await["data"]["ca.crt"], first);
}

#[tokio::test(start_paused = true)]
async fn bundle_that_somebody_resets_is_repaired() {
    let cluster = Cluster::with_webhooks().await;
    let running = Running::start(&cluster, 2).await;
    let empty = serde_json::json!({"spec": {"conversion": {"webhook": {"clientConfig": {
        "caBundle": null,
    }}}}});
    cluster.merge(DEFINITION, &empty).await;
    assert_eq!(cluster.bundles(DEFINITION).await, [None]);
    // As `kubectl replace` does it.
    cluster.delete(VALIDATING).await;
    cluster.install(VALIDATING).await;
    sleep(Duration::from_secs(1)).await;
    cluster.call_by_all_bundles(&running.served[0]).await;
}

#[tokio::test(start_paused = true)]
async fn object_that_is_created_later_gets_its_bundle() {
    let cluster = Cluster::new().await;
    let running = Running::start(&cluster, 1).await;
    assert!(cluster.send(Method::GET, VALIDATING, None).await.is_err());
    for path in [MUTATING, VALIDATING, DEFINITION] {
        cluster.install(path).await;
    }
    sleep(Duration::from_secs(1)).await;
    cluster.call_by_all_bundles(&running.served[0]).await;
}
