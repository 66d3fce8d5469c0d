//! Electors that contend for a Lease: on the paused clock, and on both servers.

use std::num::NonZeroU32;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_informer::ClientStack;
use windlass_manager::{ElectionEnd, Elector, InvalidElection, Leadership, NotLeader, TookTooLong};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};
use windlass_testserver::{TestServer, on_each_server};

use crate::support::{FAILS, HANGS, NAME, QUICK, Replica, holder, leases};

fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

/// An error of a type in the chain of sources of another.
fn found<T: std::error::Error + 'static>(error: &kube::Error) -> Option<String> {
    let mut chain = windlass_informer::client::error_chain(error);
    chain.find_map(|error| error.downcast_ref::<T>()).map(ToString::to_string)
}

#[tokio::test(start_paused = true)]
async fn leader_that_stops_releases_the_lease_and_a_standby_leads_at_once() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let mut second = Replica::start(&tasks, &server, "second");
    second.wait_for_leader("first").await;

    let stopped = Instant::now();
    assert_eq!(first.stop().await, ElectionEnd::Stopped);
    assert_eq!(holder(&leases(&server)).await, "");
    second.wait_until_leading().await;
    // Its next try, and not the end of the lease.
    assert!(stopped.elapsed() <= Duration::from_millis(2_400));
    assert_eq!(holder(&leases(&server)).await, "second");
}

#[tokio::test(start_paused = true)]
async fn leader_that_is_cut_off_stops_leading_before_a_standby_takes_over() {
    for trouble in [FAILS, HANGS] {
        let (server, tasks) = (ApiServer::new(), TaskTracker::new());
        let mut first = Replica::start(&tasks, &server, "first");
        first.wait_until_leading().await;
        let mut second = Replica::start(&tasks, &server, "second");
        second.wait_for_leader("first").await;
        let cut = Instant::now();
        first.set_line(trouble);
        assert_eq!(first.run.await.expect("no panic"), ElectionEnd::Lost);
        assert!(cut.elapsed() <= Duration::from_secs(10), "the renew deadline");
        assert!(!first.fence.is_open());
        assert!(!first.leadership.borrow().is_leading());
        assert!(!second.leadership.borrow().is_leading());

        second.wait_until_leading().await;
        let spec = leases(&server).get(NAME).await.expect("it is there").spec;
        assert_eq!(spec.and_then(|spec| spec.lease_transitions), Some(1));
    }
}

#[tokio::test(start_paused = true)]
async fn elector_whose_server_hangs_can_be_stopped() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut leader = Replica::start(&tasks, &server, "first");
    leader.wait_until_leading().await;
    leader.set_line(HANGS);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let began = Instant::now();
    assert_eq!(leader.stop().await, ElectionEnd::Stopped);
    assert!(began.elapsed() <= Duration::from_secs(5), "it gives up the release");
}

#[tokio::test(start_paused = true)]
async fn lease_is_released_if_the_answer_to_the_last_renewal_was_lost() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut leader = Replica::start(&tasks, &server, "first");
    leader.wait_until_leading().await;
    let lost = FaultRule::new(Fault::LoseAnswer).resource("leases").verb("update");
    server.faults().add(lost.times(1));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(leader.stop().await, ElectionEnd::Stopped);
    assert_eq!(holder(&leases(&server)).await, "");
}

#[tokio::test(start_paused = true)]
async fn lease_is_released_if_nobody_knows_whether_it_was_taken() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let lost = FaultRule::new(Fault::LoseAnswer).resource("leases").verb("create");
    server.faults().add(lost.times(1));
    // The read after it, which would show the holder, fails as well.
    let failed = Fault::Fail { code: 500, retry_after: None };
    let failed = FaultRule::new(failed).resource("leases").verb("get").after(1).times(1);
    let failed = server.faults().add(failed);
    let replica = Replica::start(&tasks, &server, "first");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(server.faults().times_applied(failed), 1);
    assert_eq!(replica.stop().await, ElectionEnd::Stopped);
    assert_eq!(holder(&leases(&server)).await, "");
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes_through_its_fence() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let mut second = Replica::start(&tasks, &server, "second");
    second.wait_for_leader("first").await;
    let (params, delete) = (PostParams::default(), DeleteParams::default());
    let created = first.fenced(&server).create(&params, &config_map("settings")).await;
    created.expect("the leader may write");
    let refused = second.fenced(&server).delete("settings", &delete).await;
    let reason = found::<NotLeader>(&refused.expect_err("a standby may not write"));
    let reason = reason.expect("it says why");
    assert!(reason.contains("delete configmaps default/settings was not sent"), "{reason}");
    second.fenced(&server).get("settings").await.expect("a standby may read");

    // The clock closes the fence of a process that was paused, and knows nothing yet.
    let times = first.fence.clone();
    assert!(times.is_open());
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(!times.is_open());
}

#[tokio::test(start_paused = true)]
async fn elector_that_is_dropped_no_longer_leads() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    first.run.abort();
    first.leadership.wait_for(|state| !state.is_leading()).await.expect("it was published");
    assert!(!first.fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn write_that_waits_for_the_rate_limit_past_the_renew_deadline_is_not_sent() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let one = NonZeroU32::MIN;
    let stack = ClientStack::new().rate(one, one).layer(first.fence.clone());
    let client = stack.around(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    first.set_line(FAILS);
    let (params, map) = (PostParams::default(), config_map("a"));
    // One a second, so the last of them have their turn after the fence was closed.
    let writes = (0..20).map(|_| maps.create(&params, &map));
    let answers = join_all(writes).await;
    answers[0].as_ref().expect("the first one goes at once");
    let last = answers[19].as_ref().expect_err("its turn came too late");
    assert!(found::<NotLeader>(last).is_some(), "{last}");
}

#[tokio::test(start_paused = true)]
async fn write_under_way_is_given_up_when_the_lease_may_expire_and_not_while_it_is_renewed() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let slow = |seconds| FaultRule::new(Fault::Delay(Duration::from_secs(seconds)));
    server.faults().add(slow(25).resource("configmaps").times(1));
    let (params, maps) = (PostParams::default(), first.fenced(&server));
    maps.create(&params, &config_map("a")).await.expect("the leader renews, so it may take long");

    server.faults().add(slow(25).resource("configmaps").times(1));
    let began = Instant::now();
    first.set_line(FAILS);
    let given_up = maps.create(&params, &config_map("b")).await.expect_err("the lease may expire");
    assert!(found::<TookTooLong>(&given_up).is_some(), "{given_up}");
    assert!(began.elapsed() <= Duration::from_secs(15), "the lease duration");
}

#[tokio::test(start_paused = true)]
async fn leader_whose_lease_is_given_to_another_by_hand_stops_leading() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let patch = serde_json::json!({"spec": {"holderIdentity": "a person"}});
    let params = PatchParams::default();
    leases(&server).patch(NAME, &params, &Patch::Merge(patch)).await.expect("it is patched");
    assert_eq!(first.run.await.expect("no panic"), ElectionEnd::Lost);
    // Nobody renews for that person, so another replica leads when the lease has expired.
    Replica::start(&tasks, &server, "second").wait_until_leading().await;
}

#[tokio::test(start_paused = true)]
async fn leader_whose_lease_is_deleted_goes_on_leading() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    leases(&server).delete(NAME, &DeleteParams::default()).await.expect("it is deleted");
    first.leadership.mark_unchanged();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(first.leadership.changed().now_or_never().is_none(), "its leadership went on");
    assert_eq!(holder(&leases(&server)).await, "first");
}

#[tokio::test]
async fn identities_are_unique_and_none_is_empty() {
    let client = || kube::Client::new(ApiServer::new().service(), "default");
    let elector = || Elector::builder(client(), "default", NAME).build().expect("valid");
    assert_ne!(elector().identity(), elector().identity());
    let empty = Elector::builder(client(), "default", NAME).identity("").build();
    assert_eq!(empty.map(drop), Err(InvalidElection::NoIdentity));
}

on_each_server!(replica_that_dies_is_followed_by_another);
async fn replica_that_dies_is_followed_by_another(cluster: TestServer) {
    let namespace = cluster.namespace("election").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let elector = || {
        let builder = Elector::builder(client.clone(), &namespace, NAME);
        builder.timing(QUICK).build().expect("valid")
    };
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let leads = async |leadership: &mut watch::Receiver<Leadership>| {
        leadership.wait_for(Leadership::is_leading).await.expect("it lives");
    };
    let (first, second) = (elector(), elector());
    let (mut first_leads, fence) = (first.leadership(), first.fence().clone());
    let mut second_leads = second.leadership();
    let killed = tasks.spawn(first.run(stop.clone()));
    leads(&mut first_leads).await;
    let standby = tasks.spawn(second.run(stop.clone()));
    killed.abort();
    leads(&mut second_leads).await;
    assert!(!fence.is_open(), "the first must have stopped before the second leads");
    stop.cancel();
    assert_eq!(standby.await.expect("no panic"), ElectionEnd::Stopped);
    let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    assert_eq!(holder(&leases).await, "", "the Lease was released");
}
