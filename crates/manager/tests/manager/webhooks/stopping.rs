//! A replica that stops serves its webhooks on, until nobody calls it any more.

use std::time::Duration;

use kube::api::{Api, PostParams};
use tokio::net::TcpStream;
use tokio::time::{advance, pause, resume};
use windlass_testserver::TestServer;

use crate::webhooks::gadgets::kinds::v2;
use crate::webhooks::gadgets::{Replica, free_address, gadget, manager, options};

#[tokio::test]
async fn replica_that_stops_is_unready_and_serves_for_the_drain() {
    // Long enough that it does not end by itself.
    const DRAIN: Duration = Duration::from_hours(1);
    let (cluster, address) = (TestServer::embedded(), free_address());
    let namespace = cluster.namespace("stopping").await.expect("a namespace");
    let mut options = options(&namespace, address);
    options.webhook_drain = DRAIN;
    let replica = Replica::start_and_wait(manager(&cluster, options)).await;
    replica.stop.cancel();
    replica.wait_for_readyz("[-]manager failed: stopping").await;

    let gadgets: Api<v2::Gadget> = Api::namespaced(cluster.client().expect("one"), &namespace);
    let made = gadgets.create(&PostParams::default(), &gadget("red", None)).await;
    assert_eq!(made.expect("it is admitted").spec.shape.size, Some(7));
    assert!(!replica.task.is_finished());

    pause();
    advance(DRAIN).await;
    resume();
    replica.task.await.expect("it must not panic").expect("it must stop");
    TcpStream::connect(address).await.expect_err("the port must be closed");
}
