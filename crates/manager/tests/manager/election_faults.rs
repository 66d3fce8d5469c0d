//! Elections while something goes wrong: never may two replicas write at the same time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_manager::{ElectionEnd, Elector, Leadership};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};
use windlass_testserver::{TestServer, on_each_server};

use crate::support::{
    FAILS, HANGS, NAME, QUICK, Replica, WORKS, holder, leases, led_on, let_pass, patch,
};

/// Longer than a standby may need to take over from a leader that is silent: the lease duration,
/// and a try.
const TAKEOVER: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn leader_that_was_paused_past_its_lease_goes_on_as_one_that_lost_it() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let mut second = Replica::start(&tasks, &server, "second");
    second.wait_for_leader("first").await;
    first.set_paused(true);
    second.wait_until_leading().await;
    assert!(!first.fence.is_open(), "it is closed by the clock: nobody runs who could close it");
    // What it believed is still what it says.
    assert!(first.leadership.borrow().is_leading());
    let version = leases(&server).get(NAME).await.expect("a Lease").metadata.resource_version;

    first.set_paused(false);
    assert_eq!(first.run.await.expect("no panic"), ElectionEnd::Lost);
    let lease = leases(&server).get(NAME).await.expect("a Lease");
    assert_eq!(lease.metadata.resource_version, version, "it did not write the Lease");
    assert!(second.leadership.borrow().is_leading());
}

#[tokio::test(start_paused = true)]
async fn leader_that_is_paused_for_less_than_the_renew_deadline_leads_on() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let second = Replica::start(&tasks, &server, "second");
    first.leadership.mark_unchanged();
    for _ in 0..5 {
        first.set_paused(true);
        let_pass(&[&first.fence, &second.fence], Duration::from_secs(7)).await;
        first.set_paused(false);
        let_pass(&[&first.fence, &second.fence], Duration::from_secs(3)).await;
        assert!(led_on(&mut first));
    }
}

#[tokio::test(start_paused = true)]
async fn standby_that_comes_back_does_not_take_over_from_a_leader_that_renews() {
    for is_paused in [true, false] {
        let (server, tasks) = (ApiServer::new(), TaskTracker::new());
        let mut first = Replica::start(&tasks, &server, "first");
        first.wait_until_leading().await;
        let mut second = Replica::start(&tasks, &server, "second");
        second.wait_for_leader("first").await;
        first.leadership.mark_unchanged();
        // For longer than the Lease that it knows lasts.
        if is_paused {
            second.set_paused(true);
        } else {
            second.set_line(HANGS);
        }
        let_pass(&[&first.fence, &second.fence], Duration::from_mins(1)).await;
        second.set_paused(false);
        second.set_line(WORKS);
        let_pass(&[&first.fence, &second.fence], Duration::from_mins(1)).await;
        assert!(led_on(&mut first));
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_standbys_one_takes_over() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let mut second = Replica::start(&tasks, &server, "second");
    let mut third = Replica::start(&tasks, &server, "third");
    second.wait_for_leader("first").await;
    third.wait_for_leader("first").await;
    first.set_line(FAILS);
    let fences = [&first.fence, &second.fence, &third.fence];
    let_pass(&fences, TAKEOVER + Duration::from_mins(1)).await;
    let states = [&second, &third].map(|one| one.leadership.borrow().clone());
    let leader = holder(&leases(&server)).await;
    let standby = Leadership::Standby { leader: Some(leader.clone()) };
    let wanted = match leader.as_str() {
        "second" => [Leadership::Leading, standby],
        _ => [standby, Leadership::Leading],
    };
    assert_eq!(states, wanted);
}

#[tokio::test(start_paused = true)]
async fn standby_that_can_read_the_lease_but_not_write_it_is_in_trouble_until_it_can() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let broken = FaultRule::new(Fault::Fail { code: 500, retry_after: None });
    server.faults().add(broken.verb("create").resource("leases"));
    let client = kube::Client::new(server.service(), "default");
    let elector = Elector::builder(client, "default", NAME).build().expect("valid settings");
    let (mut trouble, stop) = (elector.trouble(), CancellationToken::new());
    let run = tasks.spawn(elector.run(stop.clone()));
    let text = trouble.wait_for(Option::is_some).await.expect("it runs").clone();
    assert!(text.is_some_and(|text| text.contains("500") || text.contains("injected")));
    trouble.mark_unchanged();
    sleep(Duration::from_mins(1)).await;
    assert!(!trouble.has_changed().expect("it runs"), "it was read many times since");
    server.faults().clear();
    trouble.wait_for(Option::is_none).await.expect("it runs");
    stop.cancel();
    assert_eq!(run.await.expect("no panic"), ElectionEnd::Stopped);
}

#[tokio::test(start_paused = true)]
async fn slow_server_does_not_end_the_leadership() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let second = Replica::start(&tasks, &server, "second");
    first.leadership.mark_unchanged();
    server.faults().add(FaultRule::new(Fault::Delay(Duration::from_secs(4))).resource("leases"));
    let_pass(&[&first.fence, &second.fence], Duration::from_mins(3)).await;
    assert!(led_on(&mut first));
}

#[tokio::test(start_paused = true)]
async fn server_that_is_too_slow_has_no_leader_until_it_is_quicker() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let mut second = Replica::start(&tasks, &server, "second");
    second.wait_for_leader("first").await;
    // Half of the renew deadline is the most that a request may take.
    let slow = FaultRule::new(Fault::Delay(Duration::from_secs(6))).resource("leases");
    server.faults().add(slow);
    let_pass(&[&first.fence, &second.fence], Duration::from_mins(2)).await;
    assert_eq!(first.run.await.expect("no panic"), ElectionEnd::Lost);
    assert!(!second.leadership.borrow().is_leading());
    server.faults().clear();
    second.wait_until_leading().await;
}

#[tokio::test(start_paused = true)]
async fn wall_clocks_that_are_wrong_and_jump_change_nothing() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    // One goes backwards by an hour with every look at it, from a day ago.
    let looks = AtomicI64::new(24);
    let backwards = move || {
        let hours = looks.fetch_add(1, Ordering::Relaxed);
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1_000_000 - hours)
    };
    // The other one jumps between tomorrow and yesterday.
    let looks = AtomicI64::new(0);
    let jumping = move || {
        let days = if looks.fetch_add(1, Ordering::Relaxed) % 2 == 0 { 1 } else { -1 };
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1_000_000 + 24 * days)
    };
    let mut first = Replica::start_with(&tasks, &server, "first", |one| one.clock(backwards));
    first.wait_until_leading().await;
    let mut second = Replica::start_with(&tasks, &server, "second", |one| one.clock(jumping));
    second.wait_for_leader("first").await;
    first.leadership.mark_unchanged();
    let_pass(&[&first.fence, &second.fence], Duration::from_mins(5)).await;
    assert!(led_on(&mut first));

    first.set_line(FAILS);
    let_pass(&[&first.fence, &second.fence], TAKEOVER).await;
    assert!(second.leadership.borrow().is_leading(), "it takes over as with right clocks");
}

#[tokio::test(start_paused = true)]
async fn label_that_somebody_sets_on_the_lease_stays_and_the_leader_leads_on() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let second = Replica::start(&tasks, &server, "second");
    first.leadership.mark_unchanged();
    for step in 0..20 {
        patch(&leases(&server), json!({"metadata": {"labels": {"step": step.to_string()}}})).await;
        let_pass(&[&first.fence, &second.fence], Duration::from_millis(700)).await;
    }
    assert!(led_on(&mut first));
    let labels = leases(&server).get(NAME).await.expect("a Lease").metadata.labels;
    assert_eq!(labels.and_then(|labels| labels.get("step").cloned()).as_deref(), Some("19"));
}

#[tokio::test(start_paused = true)]
async fn lease_whose_holder_is_emptied_by_hand_has_one_leader_after_a_retry_period() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let mut second = Replica::start(&tasks, &server, "second");
    second.wait_for_leader("first").await;
    patch(&leases(&server), json!({"spec": {"holderIdentity": ""}})).await;
    // Longer than the retry period, after which the first one looks at the Lease.
    sleep(Duration::from_millis(2_500)).await;
    let leader = holder(&leases(&server)).await;
    let_pass(&[&first.fence, &second.fence], Duration::from_mins(1)).await;
    let leads = [&first, &second].map(|one| one.leadership.borrow().is_leading());
    assert_eq!(leads, [leader == "first", leader == "second"]);
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_deleted_is_made_again_by_its_holder_and_not_taken_by_a_standby() {
    // At different times between two tries of the replicas.
    for step in 0..12 {
        let (server, tasks) = (ApiServer::new(), TaskTracker::new());
        let mut first = Replica::start(&tasks, &server, "first");
        first.wait_until_leading().await;
        let mut second = Replica::start(&tasks, &server, "second");
        second.wait_for_leader("first").await;
        first.leadership.mark_unchanged();
        sleep(Duration::from_millis(200) * step).await;
        leases(&server).delete(NAME, &DeleteParams::default()).await.expect("it is deleted");
        let_pass(&[&first.fence, &second.fence], Duration::from_secs(30)).await;
        assert!(led_on(&mut first), "step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_deleted_when_its_holder_is_dead_is_made_by_a_standby() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let mut second = Replica::start(&tasks, &server, "second");
    second.wait_for_leader("first").await;
    first.set_line(FAILS);
    leases(&server).delete(NAME, &DeleteParams::default()).await.expect("it is deleted");
    let_pass(&[&first.fence, &second.fence], TAKEOVER).await;
    assert!(second.leadership.borrow().is_leading());
}

#[tokio::test(start_paused = true)]
async fn server_that_is_restored_to_a_time_without_the_lease_keeps_its_leader() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let backup = server.snapshot();
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let mut second = Replica::start(&tasks, &server, "second");
    second.wait_for_leader("first").await;
    first.leadership.mark_unchanged();
    server.restore(&backup);
    let_pass(&[&first.fence, &second.fence], Duration::from_mins(1)).await;
    assert!(led_on(&mut first));
    assert_eq!(holder(&leases(&server)).await, "first");
}

#[tokio::test(start_paused = true)]
async fn server_that_is_restored_to_a_time_of_another_holder_has_one_leader_in_the_end() {
    let (server, tasks) = (ApiServer::new(), TaskTracker::new());
    let mut old = Replica::start(&tasks, &server, "old");
    old.wait_until_leading().await;
    let backup = server.snapshot();
    old.set_line(FAILS);
    let mut first = Replica::start(&tasks, &server, "first");
    first.wait_until_leading().await;
    let mut second = Replica::start(&tasks, &server, "second");
    second.wait_for_leader("first").await;

    server.restore(&backup);
    let fences = [&old.fence, &first.fence, &second.fence];
    let_pass(&fences, TAKEOVER + Duration::from_secs(10)).await;
    // For the server another replica holds the Lease, so the leader stops. That one is dead.
    assert_eq!(first.run.await.expect("no panic"), ElectionEnd::Lost);
    assert!(second.leadership.borrow().is_leading());
}

on_each_server!(leaders_that_are_paused_cut_off_or_dead_are_followed_by_the_next);
async fn leaders_that_are_paused_cut_off_or_dead_are_followed_by_the_next(cluster: TestServer) {
    let namespace = cluster.namespace("election").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let tasks = TaskTracker::new();
    let start = |identity: &str| {
        let builder = Elector::builder(client.clone(), &namespace, NAME);
        Replica::run(&tasks, builder.identity(identity).timing(QUICK))
    };
    let mut first = start("first");
    first.wait_until_leading().await;
    let (mut second, mut third) = (start("second"), start("third"));
    second.wait_for_leader("first").await;
    third.wait_for_leader("first").await;

    first.set_paused(true);
    let (mut leader, mut standby) = {
        let second_leads = Box::pin(second.wait_until_leading());
        let third_leads = Box::pin(third.wait_until_leading());
        let is_second = tokio::select! {
            () = second_leads => true,
            () = third_leads => false,
        };
        if is_second { (second, third) } else { (third, second) }
    };
    assert!(!first.fence.is_open(), "it was closed before the next one leads");
    first.set_paused(false);
    assert_eq!(first.run.await.expect("no panic"), ElectionEnd::Lost);

    leader.leadership.mark_unchanged();
    leader.run.abort();
    standby.wait_until_leading().await;
    assert!(!leader.fence.is_open());
    let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let lease = leases.get(NAME).await.expect("a Lease");
    assert_eq!(lease.spec.and_then(|spec| spec.lease_transitions), Some(2));
    assert_eq!(standby.stop().await, ElectionEnd::Stopped);
    // A Lease that was released and made again by hand is nobody's.
    leases.delete(NAME, &DeleteParams::default()).await.expect("it is deleted");
    let mut made = Lease::default();
    made.metadata.name = Some(NAME.to_owned());
    leases.create(&PostParams::default(), &made).await.expect("it is made");
    start("fourth").wait_until_leading().await;
}
