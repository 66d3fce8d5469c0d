//! A replica whose clock is wrong, beside one whose clock is right.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use windlass_manager::Manager;
use windlass_testserver::{Log, TestServer};

use crate::webhooks::gadgets::{READY, Replica, free_address, manager, options};
use crate::webhooks::trust::{bundle, presented};

/// A manager whose clients are made by its own stack, which sees the `Date` of the answers.
fn by_its_stack(cluster: &TestServer, manager: Manager) -> Manager {
    let cluster = cluster.clone();
    manager.connect(move |stack| {
        let server = cluster.server().expect("an embedded server");
        Ok(stack.around(server.service(), "default"))
    })
}

#[tokio::test]
async fn replica_whose_clock_is_wrong_is_ready_and_says_so_and_replaces_nothing() {
    let cluster = TestServer::embedded();
    let namespace = cluster.namespace("clock").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let addresses = [free_address(), free_address()];
    let replica = |address| {
        let mut options = options(&namespace, address);
        options.webhook_url = Some(format!("https://{}", addresses[0]));
        by_its_stack(&cluster, manager(&cluster, options))
    };
    let log = Log::start();
    let warnings = || log.lines_with("this machine's clock is ");
    let right = Replica::start_and_wait(replica(addresses[0])).await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let stored = async || secrets.get("gadgets-webhook-certificates").await.expect("a Secret").data;
    let (before, trusted) = (stored().await, bundle(&client).await.expect("a bundle"));
    assert_eq!(warnings(), [""; 0]);

    for (seen, days) in [3, 400, -400].into_iter().enumerate() {
        let off = SignedDuration::from_hours(days * 24);
        let wrong = replica(addresses[1]).clock(move || Timestamp::now() + off);
        let wrong = Replica::start(wrong);
        wrong.wait_for_readyz(READY).await;
        wrong.wait_for_readyz("[+]manager ok: this machine's clock is ").await;
        assert_eq!(stored().await, before, "{days}");
        assert_eq!(bundle(&client).await.as_ref(), Some(&trusted), "{days}");
        for address in addresses {
            presented(address, &trusted).await.expect("a handshake");
        }
        assert_eq!(warnings().len(), seen + 1, "{:?}", warnings());
        wrong.end().await;
    }
    right.end().await;
}
