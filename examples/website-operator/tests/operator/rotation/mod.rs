//! The certificates of the webhooks live for 30 s and are renewed five times, while two replicas of
//! the operator behind a balancer are restarted one after the other. No request fails.

mod balancer;
mod load;
mod replica;

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use tokio::time::{sleep, timeout};
use website_operator::NAME;
use windlass_testing::testserver::{ControlPlane, ControlPlaneOptions, TestServer};

use balancer::Balancer;
use load::Load;
use replica::Deployed;

const ROTATIONS: usize = 5;

/// How long to wait before the server is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// Far longer than five rotations take.
const LIMIT: Duration = Duration::from_mins(10);

/// Counts the certificate authorities that have signed what is served.
struct Rotations {
    secrets: Api<Secret>,
    last: Option<ByteString>,
    count: usize,
}

impl Rotations {
    /// Waits for the next one.
    async fn wait_for_next(&mut self) {
        loop {
            let secret = self.secrets.get_opt(&format!("{NAME}-webhook-certificates")).await;
            let data = secret.expect("an answer").and_then(|secret| secret.data);
            let current = data.and_then(|mut data| data.remove("ca.crt"));
            if let Some(current) = current.filter(|current| self.last.as_ref() != Some(current)) {
                self.count += usize::from(self.last.is_some());
                self.last = Some(current);
                return;
            }
            sleep(PAUSE).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn no_request_fails_while_certificates_rotate_and_replicas_restart() {
    let cluster = ControlPlane::start(ControlPlaneOptions::new()).await;
    let cluster = TestServer::on_control_plane(cluster.expect("a real kube-apiserver"));
    timeout(LIMIT, rotate(&cluster)).await.expect("the certificates must rotate");
}

async fn rotate(cluster: &TestServer) {
    let namespace = cluster.namespace("rotation").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let backends = [0, 1].map(|_| replica::free_backend());
    let balancer = Balancer::start(&backends).await;
    let deployed = Deployed { cluster, namespace: &namespace, url: &balancer.url() };
    let mut replicas = backends.map(|backend| deployed.start(backend));
    for at in 0..replicas.len() {
        balancer.wait_until(at, true).await;
    }
    load::wait_until_called(&client, &namespace).await;
    let load = Load::start(&client, &namespace);

    let secrets = Api::namespaced(client, &namespace);
    let mut rotations = Rotations { secrets, last: None, count: 0 };
    let (mut restarts, mut done_before) = (0, 0);
    while rotations.count < ROTATIONS {
        let at = restarts % replicas.len();
        let restart = async {
            replicas[at].begin_to_stop();
            balancer.wait_until(at, false).await;
            replicas[at].wait_until_stopped().await;
            replicas[at] = deployed.start(backends[at]);
            balancer.wait_until(at, true).await;
        };
        let mut restart = std::pin::pin!(restart);
        loop {
            tokio::select! {
                () = &mut restart => break,
                () = rotations.wait_for_next() => {}
            }
        }
        restarts += 1;
        let done = load.done();
        assert!(done > done_before, "nothing was requested during restart {restarts}");
        done_before = done;
    }
    assert!(restarts >= replicas.len(), "each replica must have been restarted");
    let (done, failed) = load.end().await;
    println!("{done} requests, {} rotations, {restarts} restarts", rotations.count);
    assert!(failed.is_empty(), "{} of {done} requests failed: {failed:#?}", failed.len());
    for mut replica in replicas {
        replica.begin_to_stop();
        replica.wait_until_stopped().await;
    }
}
