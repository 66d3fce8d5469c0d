//! Elections while something goes wrong, on the real server: never may two replicas write at the
//! same time. The same cases and more are in `election_faults.rs`, on the embedded server and the
//! paused clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams};
use serde_json::json;
use tokio_util::task::TaskTracker;
use windlass_manager::ElectionEnd;
use windlass_testserver::{ControlPlane, ControlPlaneOptions, TestServer};

use crate::support::{
    FAILS, HANGS, IS_SLOW, NAME, REAL, Replica, WORKS, holder, led_on, let_pass, patch,
};

/// Longer than a standby may need to take over from a leader that is silent: the lease duration,
/// and a try.
const TAKEOVER: Duration = Duration::from_secs(2 * REAL.lease_duration.as_secs());

/// Enough for several renewals.
const A_WHILE: Duration = REAL.lease_duration;

/// The shared control plane.
async fn real_cluster() -> TestServer {
    TestServer::real().await.expect("a control plane")
}

/// A leader and a standby that knows it, in a namespace of a cluster.
struct Pair {
    leases: Api<Lease>,
    leader: Replica,
    standby: Replica,
    // Its tasks end when the test's runtime does.
    _tasks: TaskTracker,
}

impl Pair {
    async fn start(cluster: &TestServer) -> Self {
        let namespace = cluster.namespace("election").await.expect("a namespace");
        Self::start_in(cluster, &namespace).await
    }

    async fn start_in(cluster: &TestServer, namespace: &str) -> Self {
        Self::start_with_clocks(cluster, namespace, Timestamp::now, Timestamp::now).await
    }

    async fn start_with_clocks(
        cluster: &TestServer,
        namespace: &str,
        clock_of_the_leader: impl Fn() -> Timestamp + Send + Sync + 'static,
        clock_of_the_standby: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let tasks = TaskTracker::new();
        let mut leader = Replica::on(&tasks, cluster, namespace, |builder| {
            builder.identity("leader").clock(clock_of_the_leader)
        });
        leader.wait_until_leading().await;
        let mut standby = Replica::on(&tasks, cluster, namespace, |builder| {
            builder.identity("standby").clock(clock_of_the_standby)
        });
        standby.wait_for_leader("leader").await;
        leader.leadership.mark_unchanged();
        let leases = Api::namespaced(cluster.client().expect("a client"), namespace);
        Self { leases, leader, standby, _tasks: tasks }
    }

    /// Lets time pass while at most one of them may write.
    async fn let_pass(&self, time: Duration) {
        let_pass(&[&self.leader.fence, &self.standby.fence], time).await;
    }
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn leader_that_is_cut_off_stops_before_the_standby_leads_and_learns_it_afterwards() {
    let cluster = real_cluster().await;
    for line in [FAILS, HANGS] {
        let mut pair = Pair::start(&cluster).await;
        pair.leader.set_line(line);
        pair.let_pass(TAKEOVER).await;
        pair.standby.wait_until_leading().await;
        pair.standby.leadership.mark_unchanged();
        pair.leader.set_line(WORKS);
        pair.let_pass(A_WHILE).await;
        assert!(led_on(&mut pair.standby));
        assert_eq!(pair.leader.run.await.expect("no panic"), ElectionEnd::Lost);
    }
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn slow_way_to_the_server_does_not_end_the_leadership() {
    let cluster = real_cluster().await;
    let mut pair = Pair::start(&cluster).await;
    pair.leader.set_line(IS_SLOW);
    pair.standby.set_line(IS_SLOW);
    pair.let_pass(3 * REAL.lease_duration).await;
    assert!(led_on(&mut pair.leader));
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn wall_clocks_that_are_wrong_and_jump_change_nothing() {
    let cluster = real_cluster().await;
    let namespace = cluster.namespace("election").await.expect("a namespace");
    let looks = AtomicI64::new(0);
    // One goes backwards by an hour with every look at it, the other one jumps.
    let backwards = move || {
        Timestamp::now() - SignedDuration::from_hours(looks.fetch_add(1, Ordering::Relaxed))
    };
    let looks = AtomicI64::new(0);
    let jumping = move || {
        let days = if looks.fetch_add(1, Ordering::Relaxed) % 2 == 0 { 1 } else { -1 };
        Timestamp::now() + SignedDuration::from_hours(24 * days)
    };
    let mut pair = Pair::start_with_clocks(&cluster, &namespace, backwards, jumping).await;
    pair.let_pass(2 * REAL.lease_duration).await;
    assert!(led_on(&mut pair.leader));
    pair.leader.set_line(FAILS);
    pair.let_pass(TAKEOVER).await;
    pair.standby.wait_until_leading().await;
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn label_that_somebody_sets_on_the_lease_changes_nothing() {
    let cluster = real_cluster().await;
    let mut pair = Pair::start(&cluster).await;
    for step in 0..10 {
        let labels = json!({"metadata": {"labels": {"step": step.to_string()}}});
        patch(&pair.leases, labels).await;
        pair.let_pass(Duration::from_millis(200)).await;
    }
    assert!(led_on(&mut pair.leader));
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn leader_whose_lease_is_given_to_another_by_hand_stops_and_the_standby_waits_for_its_end() {
    let cluster = real_cluster().await;
    let mut pair = Pair::start(&cluster).await;
    patch(&pair.leases, json!({"spec": {"holderIdentity": "somebody else"}})).await;
    pair.let_pass(TAKEOVER).await;
    assert_eq!(pair.leader.run.await.expect("no panic"), ElectionEnd::Lost);
    pair.standby.wait_until_leading().await;
    assert_eq!(holder(&pair.leases).await, "standby");
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn lease_that_is_deleted_is_made_again_by_its_holder() {
    let cluster = real_cluster().await;
    let mut pair = Pair::start(&cluster).await;
    for _ in 0..3 {
        pair.leases.delete(NAME, &DeleteParams::default()).await.expect("it is deleted");
        pair.let_pass(A_WHILE).await;
        assert!(led_on(&mut pair.leader));
        assert_eq!(holder(&pair.leases).await, "leader");
    }
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn server_that_is_restored_to_a_time_without_the_lease_has_one_leader_again() {
    // One of its own: the other tests of this process would not like it.
    let real = ControlPlane::start(ControlPlaneOptions::new()).await.expect("a control plane");
    let cluster = TestServer::on_control_plane(real);
    let namespace = cluster.namespace("election").await.expect("a namespace");
    let real = cluster.control_plane().expect("it is real");
    let backup = real.etcd_snapshot().await.expect("a backup");

    let pair = Pair::start_in(&cluster, &namespace).await;
    // Restoring takes longer than a lease, so either of them may lead afterwards.
    let restored = async {
        real.restore(&backup).await.expect("it is restored");
        pair.let_pass(TAKEOVER).await;
    };
    tokio::select! {
        () = restored => {}
        () = pair.let_pass(Duration::from_mins(5)) => panic!("it is not restored"),
    }
    let holder = holder(&pair.leases).await;
    let leads = [&pair.leader, &pair.standby].map(|one| one.leadership.borrow().is_leading());
    assert_eq!(leads, [holder == "leader", holder == "standby"], "{holder} holds the Lease");
    assert!(leads.contains(&true), "nobody leads");
}
