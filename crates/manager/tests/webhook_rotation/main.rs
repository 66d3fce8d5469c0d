//! Certificates that live for 30 s are renewed five times, while two replicas behind a balancer are
//! restarted one after the other, and no request fails.

mod balancer;
#[path = "../webhooks/gadgets.rs"]
mod gadgets;
mod load;

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use tokio::time::{sleep, timeout};
use windlass_manager::Options;
use windlass_testkit::cluster::{REAL_TIER, real_tier_is_on};
use windlass_testkit::{RealCluster, RealOptions, TestCluster};

use balancer::{Backend, Balancer};
use gadgets::{NAME, PAUSE, Replica, free_address, manager};
use load::Load;

const LIFETIME: Duration = Duration::from_secs(30);

const ROTATIONS: usize = 5;

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

fn options(namespace: &str, backend: Backend, balancer: SocketAddr) -> Options {
    let mut options = Options::default().without_http();
    options.health_probe_bind_address = backend.probes.to_string();
    options.webhook_bind_address = backend.webhooks.to_string();
    options.webhook_url = Some(format!("https://{balancer}"));
    options.webhook_namespace = Some(namespace.to_owned());
    options.webhook_cert_lifetime = Some(LIFETIME);
    options
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_certificates_rotate_and_replicas_restart() {
    if !real_tier_is_on() {
        println!("skipped on a real kube-apiserver: run `cargo xtask test --real`");
        return;
    }
    let cluster = match RealCluster::start(RealOptions::new()).await {
        Ok(cluster) => TestCluster::on_control_plane(cluster),
        Err(error) => panic!("{REAL_TIER} is set, but there is no real cluster: {error}"),
    };
    timeout(LIMIT, rotate(&cluster)).await.expect("the certificates must rotate");
}

async fn rotate(cluster: &TestCluster) {
    let namespace = cluster.namespace("rotation").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let address = |_| Backend { webhooks: free_address(), probes: free_address() };
    let backends = [0, 1].map(address);
    let balancer = Balancer::start(&backends).await;
    let start = |backend: Backend| {
        Replica::start(manager(cluster, options(&namespace, backend, balancer.address)))
    };
    let mut replicas = backends.map(start);
    for at in 0..replicas.len() {
        balancer.wait_until(at, true).await;
    }
    load::wait_until_called(&client, &namespace).await;
    let load = Load::start(&client, &namespace);

    let secrets = Api::namespaced(client.clone(), &namespace);
    let mut rotations = Rotations { secrets, last: None, count: 0 };
    let mut restarts = 0;
    while rotations.count < ROTATIONS {
        let at = restarts % replicas.len();
        let restart = async {
            let old = &mut replicas[at];
            old.stop.cancel();
            balancer.wait_until(at, false).await;
            (&mut old.task).await.expect("it must not panic").expect("it must stop");
            *old = start(backends[at]);
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
    }
    let (done, failed) = load.end().await;
    println!("{done} requests, {} rotations, {restarts} restarts", rotations.count);
    assert!(failed.is_empty(), "{} of {done} requests failed: {failed:#?}", failed.len());
    for replica in replicas {
        replica.end().await;
    }
}
