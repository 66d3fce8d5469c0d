//! What goes wrong between an informer and its server, one test for each fault: what must hold
//! while it goes on, and that the end is the same as if it had never happened.
//!
//! Each test says which row of the list of faults it is for; "peers" are known bugs of other
//! informers. Rows that are about something else than informers are missing, 20 (a task that dies)
//! is in `factory.rs`, 26 (a huge list) in `memory.rs`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::by_hand::{self, Server, Wire, object, object_of, refusal};
use crate::support::{Cluster, Log, Running, content, idle, pass};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::util::MapRequestLayer;
use windlass_indexer::ResourceVersion;
use windlass_informer::observe::{Observation, Reaction, Relist};
use windlass_informer::source::{ListRequest, Request};
use windlass_informer::{
    Activity, Counts, FeedStatus, InformerOptions, ReflectorConfig, Resource, SharedInformer,
    SourceError,
};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule, User};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

fn options() -> InformerOptions {
    InformerOptions::new()
}

/// Options with an observer, and the reactions to failures that it is told.
fn observed() -> (InformerOptions, Arc<Mutex<Vec<Reaction>>>) {
    let reactions = Arc::<Mutex<Vec<Reaction>>>::default();
    let told = Arc::clone(&reactions);
    let observer = move |_: &Resource, observation: &Observation<'_>| {
        if let Observation::Failed { reaction, .. } = observation {
            told.lock().expect("no panic").push(*reaction);
        }
    };
    (options().observer(Arc::new(observer)), reactions)
}

fn feed(informer: &SharedInformer<ConfigMap>) -> FeedStatus {
    informer.status().feeds.remove(0)
}

fn counts(informer: &SharedInformer<ConfigMap>) -> Counts {
    feed(informer).counts
}

/// An informer with a handler that has listed these objects, with the versions 1, 2 and so on; the
/// watch goes on.
async fn watching(options: InformerOptions, names: &[&str]) -> (Running, Server, Wire, Log) {
    let (informer, mut server) = by_hand::running(options);
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let objects: Vec<_> =
        names.iter().zip(1..).map(|(name, version)| object(name, &version.to_string())).collect();
    let wire = server.lists(&objects, &names.len().to_string()).await;
    assert_eq!(log.take().await.len(), names.len());
    (informer, server, wire, log)
}

fn expired() -> Value {
    json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
}

/// Asserts that the informer waits before it asks again.
async fn backs_off(server: &mut Server) {
    idle().await;
    assert!(server.asked_already().is_none(), "it must wait");
}

// 1: the watch is cut in the middle of a frame.

#[tokio::test(start_paused = true)]
async fn half_a_frame_is_never_applied_and_the_watch_is_resumed_before_it() {
    let (informer, mut server, wire, log) = watching(options(), &["a"]).await;
    let event = json!({"type": "MODIFIED", "object": object("a", "3")}).to_string();
    wire.event("MODIFIED", &object("a", "2"));
    wire.sends(&event[..event.len() - 1]);
    wire.breaks();
    backs_off(&mut server).await;
    assert_eq!(log.take().await, ["~a=1→2"]);
    let wire = server.asked().await.resumes("2");
    wire.sends(&event);
    assert_eq!(log.take().await, ["~a=2→3"]);
    assert_eq!((counts(&informer).lists, counts(&informer).errors), (1, 1));
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_that_are_cut_anywhere_lose_nothing() {
    let cluster = Cluster::with(&["a"]).await;
    // One after the other is cut, each a little later than the one before.
    let cuts: Vec<_> = (0..80)
        .map(|number| {
            let cut =
                Fault::CutAnswer { after_bytes: 1 + 11 * usize::try_from(number).expect("few") };
            cluster.fault(FaultRule::new(cut).verb("watch").after(number).times(1))
        })
        .collect();
    let informer = cluster.running(options());
    for number in 1..=60 {
        cluster.set("a", &number.to_string()).await;
        cluster.create(&format!("b{number}")).await;
        pass(10 * SECOND).await;
    }
    while cuts.iter().any(|cut| cluster.server.faults().times_applied(*cut) == 0) {
        pass(MINUTE).await;
    }
    pass(30 * MINUTE).await;
    assert_eq!(informer.lister().reader().len(), 61);
    assert!(content(informer.lister()).starts_with("a=60 "), "{}", content(informer.lister()));
    let counts = counts(&informer);
    assert_eq!((counts.swept, counts.repaired, counts.restored), (0, 0, 0), "{counts:?}");
    assert!(counts.errors > 50, "{counts:?}");
    informer.end().await;
}

// 2: 410, as an answer and as an event.

#[tokio::test(start_paused = true)]
async fn expired_version_makes_a_list_whose_differences_become_events() {
    let (informer, mut server, wire, log) = watching(options(), &["a", "b", "c"]).await;
    wire.event("ERROR", &expired());
    backs_off(&mut server).await;
    let list = [object("a", "1"), object("b", "5"), object("d", "6")];
    let wire = server.lists(&list, "6").await;
    assert_eq!(log.take().await, ["~b=2→5", "+d=6", "-c=3 tombstone"]);
    // The same as the answer to a watch that is resumed.
    drop(wire);
    server.asked().await.fails(refusal(410, "Gone"));
    backs_off(&mut server).await;
    let _wire = server.lists(&[object("a", "1")], "7").await;
    assert_eq!(log.take().await, ["-b=5 tombstone", "-d=6 tombstone"]);
    assert_eq!((counts(&informer).gone, counts(&informer).lists), (2, 3));
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn compaction_during_an_outage_is_survived() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let informer = cluster.running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    informer.wait_for_sync().await.expect("it lists");
    log.take().await;
    // The next watch finds nobody, until the history is gone.
    let outage = cluster.fault(FaultRule::new(Fault::Refuse).verb("watch"));
    pass(11 * MINUTE).await;
    cluster.delete("a").await;
    cluster.set("b", "2").await;
    cluster.create("c").await;
    cluster.server.compact();
    cluster.server.faults().remove(outage);
    pass(3 * MINUTE).await;
    assert_eq!(log.take().await, ["~b=1→2", "+c=1", "-a=1 tombstone"]);
    assert!(counts(&informer).gone > 0);
    informer.end().await;
}

// 3: a silent watch.

#[tokio::test(start_paused = true)]
async fn silent_watch_is_given_up_after_its_time() {
    let (informer, mut server, wire, log) = watching(options(), &["a"]).await;
    let began = Instant::now();
    let resumed = server.asked().await;
    assert!(wire.is_given_up());
    assert!((5 * MINUTE..=11 * MINUTE).contains(&began.elapsed()), "{:?}", began.elapsed());
    let (error, _) = feed(&informer).last_error.expect("it is told");
    assert!(matches!(error, SourceError::Silent(_)), "{error}");
    let wire = resumed.resumes("1");
    wire.event("MODIFIED", &object("a", "2"));
    assert_eq!(log.take().await, ["~a=1→2"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn silent_watch_is_given_up_earlier_where_bookmarks_used_to_come() {
    let (informer, mut server, wire, _) = watching(options(), &["a"]).await;
    for version in ["2", "3", "4"] {
        pass(MINUTE).await;
        wire.bookmark(version);
    }
    let silent = Instant::now();
    let resumed = server.asked().await;
    assert!(silent.elapsed() < 4 * MINUTE, "{:?}", silent.elapsed());
    assert_eq!(resumed.from(), Some("4"), "a bookmark is as good as an event");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn request_that_is_never_answered_is_given_up() {
    let (informer, mut server) = by_hand::running(options());
    server.asked().await.stays_unanswered().await;
    let _wire = server.lists(&[object("a", "1")], "1").await;
    informer.wait_for_sync().await.expect("the second one was answered");
    informer.end().await;
}

// 4: events that come twice, late, or out of order.

#[tokio::test(start_paused = true)]
async fn version_that_is_held_never_goes_back() {
    let (informer, _server, wire, log) = watching(options(), &["a"]).await;
    for (change, version) in [
        ("MODIFIED", "3"),
        ("MODIFIED", "3"),
        ("MODIFIED", "2"),
        ("ADDED", "1"),
        ("DELETED", "2"),
        ("MODIFIED", "4"),
    ] {
        wire.event(change, &object("a", version));
    }
    assert_eq!(log.take().await, ["~a=1→3", "~a=3→4"]);
    assert_eq!(counts(&informer).stale, 4);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn doubled_and_late_events_are_told_once_and_in_order() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    informer.wait_for_sync().await.expect("it lists");
    cluster.fault(FaultRule::new(Fault::DuplicateEvent));
    cluster.fault(FaultRule::new(Fault::DelayEvent(MINUTE)).after(1).times(1));
    cluster.set("a", "2").await;
    cluster.set("a", "3").await;
    cluster.delete("a").await;
    cluster.create("a").await;
    pass(2 * MINUTE).await;
    assert_eq!(log.take().await, ["+a=1 initial", "~a=1→2", "~a=2→3", "-a=3", "+a=1"]);
    informer.end().await;
}

// 5, peers: deletions that nobody saw.

#[tokio::test(start_paused = true)]
async fn deletion_in_a_gap_of_the_watch_reaches_every_handler_as_a_tombstone() {
    let (informer, mut server, wire, log) = watching(options(), &["a", "b"]).await;
    let mut subscription = informer.subscribe().expect("it runs");
    wire.event("ERROR", &expired());
    let _wire = server.lists(&[object("b", "2")], "4").await;
    assert_eq!(log.take().await, ["-a=1 tombstone"]);
    for told in ["+a=1 initial", "+b=2 initial", "-a=1 tombstone"] {
        let event = subscription.next().await.expect("an event");
        assert_eq!(crate::support::text(&event), told);
    }
    assert_eq!(counts(&informer).swept, 1);
    informer.end().await;
}

/// Also peers: a streamed first list that is interrupted leaves ghosts behind.
#[tokio::test(start_paused = true)]
async fn interrupted_first_list_leaves_no_ghosts() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    let registration = informer.add_handler(log.handler()).expect("it runs");
    let wire = server.asked().await.streams();
    wire.event("ADDED", &object("a", "1"));
    wire.event("ADDED", &object("ghost", "2"));
    wire.breaks();
    assert_eq!(log.take().await, ["+a=1 initial", "+ghost=2 initial"]);
    assert!(!registration.has_synced() && !informer.has_synced());
    // Again, and interrupted again: that it did not come to the ghost deletes nothing.
    let wire = server.asked().await.streams();
    wire.event("ADDED", &object("a", "1"));
    wire.breaks();
    assert!(log.take().await.is_empty());
    assert_eq!(content(informer.lister()), "a=1 ghost=2");
    let _wire = server.lists(&[object("a", "1"), object("b", "3")], "4").await;
    assert_eq!(log.take().await, ["+b=3 initial", "-ghost=2 tombstone"]);
    assert!(registration.has_synced());
    assert_eq!(content(informer.lister()), "a=1 b=3");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn interrupted_relist_deletes_nothing() {
    let (informer, mut server, wire, log) = watching(options(), &["a", "b"]).await;
    wire.event("ERROR", &expired());
    let wire = server.asked().await.streams();
    wire.event("ADDED", &object("c", "5"));
    wire.breaks();
    assert_eq!(log.take().await, ["+c=5"]);
    assert_eq!(content(informer.lister()), "a=1 b=2 c=5");
    let _wire = server.lists(&[object("b", "2"), object("c", "5")], "6").await;
    assert_eq!(log.take().await, ["-a=1 tombstone"]);
    informer.end().await;
}

// 6: the server's watch loses an event.

#[tokio::test(start_paused = true)]
async fn audit_finds_and_repairs_what_a_watch_has_lost() {
    let cluster = Cluster::with(&["a", "b", "c"]).await;
    let informer = cluster.running(options().audit(MINUTE));
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    informer.wait_for_sync().await.expect("it lists");
    log.take().await;
    cluster.fault(FaultRule::new(Fault::DropEvent).times(3));
    cluster.set("a", "2").await;
    cluster.delete("b").await;
    cluster.create("d").await;
    cluster.set("c", "2").await;
    assert_eq!(log.take().await, ["~c=1→2"], "the others are lost");
    pass(2 * MINUTE).await;
    let mut repaired = log.take().await;
    repaired.sort();
    assert_eq!(repaired, ["+d=1", "-b=1 tombstone", "~a=1→2"]);
    let counts = counts(&informer);
    assert_eq!((counts.swept, counts.repaired), (1, 1), "{counts:?}");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn audit_that_is_due_while_a_watch_is_unanswered_is_no_failure() {
    let (informer, mut server, wire, _log) = watching(options().audit(MINUTE), &["a"]).await;
    pass(59 * SECOND).await;
    drop(wire);
    // The watch is resumed, and the server does not answer it.
    let unanswered = server.asked().await;
    assert_eq!(unanswered.from(), Some("1"));
    unanswered.stays_unanswered().await;
    let asked = server.asked_already().expect("the list follows at once");
    assert_eq!(asked.from(), None);
    assert_eq!(counts(&informer).errors, 0);
    informer.end().await;
}

// 7: another server answers, which lags behind.

#[tokio::test(start_paused = true)]
async fn list_that_is_older_than_what_is_known_is_not_believed() {
    let (informer, mut server, wire, log) = watching(options(), &["a"]).await;
    wire.event("MODIFIED", &object("a", "8"));
    wire.event("ADDED", &object("b", "9"));
    wire.event("ERROR", &expired());
    assert_eq!(log.take().await, ["~a=1→8", "+b=9"]);
    let _behind = server.lists(&[object("a", "5")], "6").await;
    backs_off(&mut server).await;
    assert!(log.take().await.is_empty());
    assert_eq!(content(informer.lister()), "a=8 b=9");
    let _wire = server.lists(&[object("a", "8"), object("b", "9")], "9").await;
    assert!(log.take().await.is_empty(), "nothing has happened");
    assert_eq!(counts(&informer).restored, 0);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn first_list_is_consistent_so_that_a_stale_server_cannot_answer_it() {
    let (informer, mut server) = by_hand::running(options());
    // That no version is named is what makes it so: `source_kube.rs` looks at what is sent.
    let asked = server.asked().await;
    assert_eq!(asked.from(), None);
    asked.fails(refusal(422, "Invalid"));
    let Request::List(list) = server.asked().await.request else { panic!("a list") };
    assert_eq!(list.continue_token, None);
    informer.end().await;
}

// 8: deleted and made again under the same name.

#[tokio::test(start_paused = true)]
async fn object_that_was_made_again_is_deleted_and_then_added() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    informer.wait_for_sync().await.expect("it lists");
    log.take().await;
    cluster.delete("a").await;
    cluster.create("a").await;
    assert_eq!(log.take().await, ["-a=1", "+a=1"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn object_that_was_made_again_in_a_gap_is_deleted_and_then_added() {
    let (informer, mut server, wire, log) = watching(options(), &["a"]).await;
    wire.event("MODIFIED", &object_of("another", "a", "3"));
    assert_eq!(log.take().await, ["-a=1 tombstone", "+a=3"]);
    wire.event("ERROR", &expired());
    let wire = server.lists(&[object_of("a third", "a", "6")], "6").await;
    assert_eq!(log.take().await, ["-a=3 tombstone", "+a=6"]);
    // The end of one that nobody saw is the end of the one that was seen.
    wire.event("DELETED", &object_of("a fourth", "a", "8"));
    assert_eq!(log.take().await, ["-a=6 tombstone"]);
    informer.end().await;
}

// 9: an object that cannot be read.

/// An object whose labels are no labels.
fn unreadable(name: &str, version: &str) -> Value {
    let mut object = object(name, version);
    object["metadata"]["labels"] = json!({"app": ["web"]});
    object
}

#[tokio::test(start_paused = true)]
async fn unreadable_object_is_reported_by_key_and_the_others_go_on() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let wire = server.lists(&[object("a", "1"), unreadable("b", "2"), object("c", "3")], "3").await;
    assert_eq!(log.take().await, ["+a=1 initial", "+c=3 initial"]);
    let quarantined = informer.status().quarantined;
    assert_eq!(quarantined.len(), 1);
    assert_eq!(
        quarantined[0].to_string(),
        "object default/b: metadata.labels is not an object whose values are strings"
    );
    wire.event("MODIFIED", &unreadable("a", "4"));
    wire.event("MODIFIED", &object("c", "5"));
    assert_eq!(log.take().await, ["~c=3→5"]);
    assert_eq!(content(informer.lister()), "a=1 c=5", "of a there is what could be read");
    assert_eq!((informer.status().quarantined.len(), informer.status().quarantined_total), (2, 2));
    // With the next version all is well.
    wire.event("MODIFIED", &object("a", "6"));
    wire.event("MODIFIED", &object("b", "7"));
    assert_eq!(log.take().await, ["~a=1→6", "+b=7"]);
    assert!(informer.status().quarantined.is_empty());
    assert_eq!(counts(&informer).lists, 1);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn object_that_is_deleted_unreadable_is_gone() {
    let (informer, _server, wire, log) = watching(options(), &["a"]).await;
    wire.event("MODIFIED", &unreadable("a", "2"));
    wire.event("ADDED", &unreadable("b", "3"));
    wire.event("DELETED", &unreadable("a", "4"));
    wire.event("DELETED", &unreadable("b", "5"));
    assert_eq!(log.take().await, ["-a=1 tombstone"]);
    assert_eq!(content(informer.lister()), "");
    assert!(informer.status().quarantined.is_empty(), "they are not there any more");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_object_in_a_relist_keeps_what_is_held_and_one_that_is_not_leaves() {
    let (informer, mut server, wire, log) = watching(options(), &["a", "b"]).await;
    wire.event("ADDED", &unreadable("c", "3"));
    wire.event("ERROR", &expired());
    let _wire = server.lists(&[unreadable("a", "5"), object("b", "2")], "6").await;
    assert!(log.take().await.is_empty());
    assert_eq!(content(informer.lister()), "a=1 b=2");
    let keys: Vec<_> =
        informer.status().quarantined.iter().filter_map(|error| error.key().cloned()).collect();
    assert_eq!(keys.iter().map(ToString::to_string).collect::<Vec<_>>(), ["default/a"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn object_that_does_not_decode_is_an_error_for_who_reads_it() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let mut odd = object("odd", "2");
    odd["data"] = json!([1]);
    let wire = server.lists(&[object("a", "1"), odd], "2").await;
    assert_eq!(log.take().await, ["+a=1 initial", "+odd=? initial"]);
    let error = informer.lister().get("default/odd").expect_err("data is no map");
    assert!(error.to_string().contains("object default/odd (uid uid-odd, version 2)"), "{error}");
    assert_eq!(informer.status().store.types[0].undecodable, 1);
    wire.event("MODIFIED", &object("odd", "3"));
    assert_eq!(log.take().await, ["~odd=?→3"]);
    assert!(informer.lister().get("default/odd").is_ok());
    assert_eq!(informer.status().store.types[0].undecodable, 0);
    informer.end().await;
}

// 10: a body that is no watch.

#[tokio::test(start_paused = true)]
async fn body_that_is_no_watch_is_an_error_and_is_backed_off_from() {
    for body in [
        "<html><body>502 Bad Gateway</body></html>",
        r#"{"kind":"ConfigMapList","apiVersion":"v1","items":[]}"#,
        "\u{1f}\u{8b}\u{8}",
        "[1,2,3]\n",
        "null",
        r#"{"type":"MODIFIED"}"#,
    ] {
        let (informer, mut server, wire, log) = watching(options(), &["a"]).await;
        drop(wire);
        let wire = server.asked().await.resumes("1");
        wire.sends(body);
        drop(wire);
        backs_off(&mut server).await;
        let (error, _) = feed(&informer).last_error.unwrap_or_else(|| panic!("{body}"));
        assert!(matches!(error, SourceError::Frame(_)), "{body}: {error}");
        let wire = server.asked().await.resumes("1");
        wire.event("MODIFIED", &object("a", "2"));
        assert_eq!(log.take().await, ["~a=1→2"]);
        informer.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn status_as_the_body_of_a_watch_is_what_it_says() {
    let (informer, mut server, wire, _) = watching(options(), &["a"]).await;
    drop(wire);
    let wire = server.asked().await.resumes("1");
    wire.sends(&expired().to_string());
    drop(wire);
    server.asked().await.streams();
    assert_eq!(counts(&informer).gone, 1);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn pretty_printed_watch_is_read_all_the_same() {
    let (informer, mut server, wire, log) = watching(options(), &["a"]).await;
    pass(MINUTE).await;
    drop(wire);
    let wire = server.asked().await.resumes("1");
    let event = json!({"type": "MODIFIED", "object": object("a", "2")});
    wire.sends(&serde_json::to_string_pretty(&event).expect("JSON"));
    assert_eq!(log.take().await, ["~a=1→2"]);
    assert_eq!(counts(&informer).errors, 0);
    informer.end().await;
}

// 11: 429 with Retry-After.

#[tokio::test(start_paused = true)]
async fn server_that_asks_to_be_left_alone_is() {
    let cluster = Cluster::with(&["a"]).await;
    let throttled = Fault::Fail { code: 429, retry_after: Some(120) };
    let fault = cluster.fault(FaultRule::new(throttled).times(1));
    let informer = cluster.running(options());
    idle().await;
    let status = feed(&informer);
    let (error, _) = status.last_error.expect("it is visible");
    assert!(error.is_throttled() && error.retry_after() == Some(2 * MINUTE), "{error}");
    assert!(
        matches!(status.activity, Activity::Waiting(until) if until > Instant::now() + 110 * SECOND),
        "{:?}",
        status.activity
    );
    pass(119 * SECOND).await;
    assert_eq!(cluster.asked("watch") + cluster.asked("list"), 1);
    informer.wait_for_sync().await.expect("it lists then");
    assert_eq!(content(informer.lister()), "a=1");
    assert_eq!(cluster.server.faults().remove(fault), Some(1));
    informer.end().await;
}

// 12, peers: one that fails, is slow or hangs, and the others.

#[tokio::test(start_paused = true)]
async fn informer_that_fails_pauses_no_other() {
    for fault in [
        Fault::Fail { code: 500, retry_after: None },
        Fault::Fail { code: 503, retry_after: Some(600) },
        Fault::Fail { code: 403, retry_after: None },
        Fault::Refuse,
        Fault::Hang,
        Fault::Delay(Duration::from_mins(20)),
        Fault::CutAnswer { after_bytes: 10 },
    ] {
        let cluster = Cluster::with(&["a"]).await;
        let fault = cluster.fault(FaultRule::new(fault).verb("watch").verb("list"));
        let factory = cluster.factory();
        let failing = factory.informer::<ConfigMap>().expect("an informer");
        let well = factory.informer::<Secret>().expect("an informer");
        factory.start();
        let began = Instant::now();
        well.wait_for_sync().await.expect("it lists");
        assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
        pass(30 * MINUTE).await;
        assert!(!failing.has_synced());
        let tries = cluster.server.faults().times_applied(fault);
        assert!((2..200).contains(&tries), "{tries} in half an hour");
        assert_eq!(well.status().feeds[0].counts.errors, 0);
        // It heals.
        cluster.server.faults().clear();
        factory.wait_for_sync().await.expect("both have listed");
        assert_eq!(content(failing.lister()), "a=1");
        factory.shut_down().await;
    }
}

#[tokio::test(start_paused = true)]
async fn outage_of_the_server_ends_in_the_servers_state_without_a_list() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options());
    informer.wait_for_sync().await.expect("it lists");
    let outage = Fault::Fail { code: 503, retry_after: None };
    let outage = cluster.fault(FaultRule::new(outage).verb("watch"));
    pass(15 * MINUTE).await;
    cluster.set("a", "2").await;
    cluster.create("b").await;
    cluster.server.faults().remove(outage);
    pass(MINUTE).await;
    assert_eq!(content(informer.lister()), "a=2 b=1");
    assert_eq!(counts(&informer).lists, 1, "the watch went on where it was");
    informer.end().await;
}

/// Also peers: a clean close that reconnects in a hot loop.
#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_make_no_hot_loop() {
    let (options, reactions) = observed();
    let (informer, mut server, wire, _) = watching(options, &["a"]).await;
    drop(wire);
    let began = Instant::now();
    let mut asked = 0_u32;
    while began.elapsed() < 10 * MINUTE {
        let request = server.asked().await;
        asked += 1;
        if request.from().is_some() {
            drop(request.opens());
        } else {
            // It may want to see whether a list helps.
            let wire = request.streams();
            wire.event("ADDED", &object("a", "1"));
            wire.ends_list("1");
        }
    }
    assert!(asked < 120, "{asked} requests in ten minutes");
    assert_eq!(content(informer.lister()), "a=1");
    let reactions = reactions.lock().expect("no panic").clone();
    let stuck = Reaction::Relist(Relist::Stuck);
    assert!(reactions.contains(&stuck) && reactions.contains(&Reaction::Retry), "{reactions:?}");
    assert!(matches!(feed(&informer).last_error, Some((SourceError::EndedEarly, _))));
    assert_eq!(counts(&informer).errors, reactions.len() as u64);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_in_its_time_is_no_failure() {
    let (options, reactions) = observed();
    let (informer, mut server, wire, _) = watching(options, &["a"]).await;
    pass(MINUTE).await;
    drop(wire);
    server.asked().await.resumes("1");
    assert_eq!(*reactions.lock().expect("no panic"), []);
    assert_eq!(counts(&informer).errors, 0);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn list_that_follows_a_watch_without_a_version_is_observed() {
    let reasons = Arc::<Mutex<Vec<Relist>>>::default();
    let told = Arc::clone(&reasons);
    let observer = move |_: &Resource, observation: &Observation<'_>| {
        if let Observation::WatchEndedForList(reason) = observation {
            told.lock().expect("no panic").push(*reason);
        }
    };
    let (informer, mut server) = by_hand::running(options().observer(Arc::new(observer)));
    server.asked().await.fails(refusal(422, "Invalid"));
    server.asked().await.sends_list(&[object("a", "1")], "");
    drop(server.asked().await.resumes(""));
    let request = server.asked().await.request;
    assert!(matches!(request, Request::List(_)), "{request:?}");
    assert_eq!(*reasons.lock().expect("no panic"), [Relist::Unversioned]);
    assert_eq!(counts(&informer).errors, 1, "only the streamed list has failed");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn lists_that_break_off_at_once_make_no_hot_loop() {
    let (options, reactions) = observed();
    let (informer, mut server) = by_hand::running(options);
    let began = Instant::now();
    let mut asked = 0_u32;
    while began.elapsed() < 10 * MINUTE {
        drop(server.asked().await.opens());
        asked += 1;
    }
    assert!(asked < 120, "{asked} requests in ten minutes");
    assert!(reactions.lock().expect("no panic").contains(&Reaction::Fallback));
    informer.end().await;
}

// 22, peers: a subscriber that stalls.

#[tokio::test(start_paused = true)]
async fn stalled_subscriber_costs_one_event_of_each_object_and_stalls_nobody() {
    let (informer, mut server) = by_hand::running(options());
    let mut stalled = informer.subscribe().expect("it runs");
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let objects: Vec<_> = (0..10).map(|number| object(&format!("o{number}"), "1")).collect();
    let wire = server.lists(&objects, "1").await;
    for version in 2..10_000 {
        wire.event("MODIFIED", &object(&format!("o{}", version % 10), &version.to_string()));
    }
    assert_eq!(log.take().await.len(), 10 + 9_998, "who is quick sees every one");
    // From there on one of each.
    assert!(stalled.status().pending <= 1_024 + 10, "{:?}", stalled.status());
    assert!(stalled.status().merged > 8_000);
    let mut last = 0;
    while stalled.status().pending > 0 {
        let event = stalled.next().await.expect("an event");
        last = crate::support::value(event.object()).parse().expect("a number");
    }
    assert!(last > 9_980, "and ends with what is there: {last}");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn server_that_never_pauses_keeps_nobody_from_running() {
    struct Flood;
    impl windlass_informer::source::ListWatch for Flood {
        fn request<'a>(&'a self, _: &'a Request) -> windlass_informer::source::Answer<'a> {
            let event = |version: u64| {
                let event = json!({"type": "ADDED", "object": object("a", &version.to_string())});
                bytes::Bytes::from(event.to_string())
            };
            Box::pin(async move { Ok(by_hand::body((1..).map(event))) })
        }
    }
    let resource = windlass_informer::Resource::of::<ConfigMap>();
    let informer = SharedInformer::with_source(Flood, resource, options()).expect("an informer");
    let informer = Running::<ConfigMap>::start(informer);
    let mut subscription = informer.subscribe().expect("it runs");
    assert!(subscription.next().await.is_some(), "who listens comes to hear it");
    informer.end().await;
}

// 24: odd resource versions.

#[tokio::test(start_paused = true)]
async fn versions_of_any_length_compare() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let nines = "9".repeat(30);
    let large = format!("1{}", "0".repeat(30));
    let wire = server.lists(&[object("a", &nines)], &nines).await;
    wire.event("MODIFIED", &object("a", &large));
    wire.event("MODIFIED", &object("a", &nines));
    wire.event("MODIFIED", &object("a", "18446744073709551616"));
    assert_eq!(log.take().await, [format!("+a={nines} initial"), format!("~a={nines}→{large}")]);
    wire.breaks();
    server.asked().await.resumes(&large);
    assert_eq!(feed(&informer).version, Some(ResourceVersion::new(&large)));
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_no_numbers_are_equal_or_newer() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let wire = server.lists(&[object("a", "red")], "red").await;
    wire.event("MODIFIED", &object("a", "blue"));
    wire.event("MODIFIED", &object("a", "blue"));
    assert_eq!(log.take().await, ["+a=red initial", "~a=red→blue"]);
    drop(wire);
    let wire = server.asked().await.resumes("blue");
    wire.event("ERROR", &expired());
    let _wire = server.lists(&[object("a", "blue"), object("b", "0x7")], "green").await;
    assert_eq!(log.take().await, ["+b=0x7"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn objects_without_versions_and_uids_are_listed_again_now_and_then() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let bare = |name: &str| json!({"metadata": {"name": name}, "data": {"value": "1"}});
    server.asked().await.fails(refusal(405, "MethodNotAllowed"));
    let list = |names: &[&str]| names.iter().map(|name| bare(name)).collect::<Vec<_>>();
    server.asked().await.sends_list(&list(&["a", "b"]), "");
    assert_eq!(log.take().await, ["+a=1 initial", "+b=1 initial"]);
    server.asked().await.fails(refusal(405, "MethodNotAllowed"));
    server.asked().await.sends_list(&list(&["b", "c"]), "");
    assert_eq!(log.take().await, ["+c=1", "-a=1 tombstone"]);
    informer.end().await;
}

// 25: the token is rotated.

#[tokio::test(start_paused = true)]
async fn token_that_is_not_valid_is_backed_off_from_until_it_is() {
    let server = ApiServer::builder().token("new", User::named("me")).build();
    let token = Arc::new(Mutex::new("old"));
    let cluster = Cluster::on(server, |stack| stack.layer(with_token(token.clone())));
    let informer = cluster.running(options());
    pass(10 * MINUTE).await;
    let (error, _) = feed(&informer).last_error.expect("it is visible");
    assert!(error.is_unauthorized(), "{error}");
    assert!((10..100).contains(&cluster.asked("watch")), "{}", cluster.asked("watch"));
    *token.lock().expect("no panic") = "new";
    informer.wait_for_sync().await.expect("it lists");
    informer.end().await;
}

/// Requests have the token that is valid when they are sent, as those of a client that reads it
/// from a file.
fn with_token(
    token: Arc<Mutex<&'static str>>,
) -> MapRequestLayer<
    impl Fn(http::Request<kube::client::Body>) -> http::Request<kube::client::Body> + Clone,
> {
    MapRequestLayer::new(move |mut request: http::Request<kube::client::Body>| {
        let bearer = format!("Bearer {}", token.lock().expect("no panic"));
        let bearer = HeaderValue::from_str(&bearer).expect("a header");
        request.headers_mut().insert(AUTHORIZATION, bearer);
        request
    })
}

// 27, peers: a server that ignores what it does not know.

#[tokio::test(start_paused = true)]
async fn server_that_ignores_that_a_list_is_to_be_streamed_is_listed_in_pages() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    // An old server: it sends what is there, and bookmarks, and never says that it was all.
    let wire = server.asked().await.streams();
    wire.event("ADDED", &object("a", "1"));
    wire.bookmark("2");
    let asked = server.asked().await;
    assert!(wire.is_given_up());
    asked.sends_list(&[object("a", "1"), object("b", "2")], "2");
    informer.wait_for_sync().await.expect("it lists");
    let wire = server.asked().await.resumes("2");
    assert_eq!(log.take().await, ["+a=1 initial", "+b=2 initial"]);
    // It is remembered.
    wire.event("ERROR", &expired());
    server.asked().await.sends_list(&[object("b", "2")], "3");
    assert_eq!(log.take().await, ["-a=1 tombstone"]);
    informer.end().await;
}

/// Peers: a watch-list that waits for its bookmark forever.
#[tokio::test(start_paused = true)]
async fn streamed_list_whose_end_never_comes_falls_back_to_pages() {
    let (informer, mut server) = by_hand::running(options());
    let began = Instant::now();
    let mut wires = Vec::new();
    loop {
        let asked = server.asked().await;
        if let Request::List(_) = asked.request {
            asked.sends_list(&[object("a", "1")], "1");
            break;
        }
        let wire = asked.streams();
        wire.event("ADDED", &object("a", "1"));
        wires.push(wire);
    }
    informer.wait_for_sync().await.expect("it lists");
    assert_eq!(wires.len(), 2, "it is tried twice");
    assert!(began.elapsed() < 2 * MINUTE, "{:?}", began.elapsed());
    informer.end().await;
}

/// Takes a parameter out of all requests, as a server that does not know it does.
fn without(
    parameter: &'static str,
) -> MapRequestLayer<
    impl Fn(http::Request<kube::client::Body>) -> http::Request<kube::client::Body> + Clone,
> {
    MapRequestLayer::new(move |mut request: http::Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default().split('&');
        let query: Vec<_> =
            query.filter(|pair| pair.split('=').next() != Some(parameter)).collect();
        let uri = format!("{}?{}", request.uri().path(), query.join("&"));
        *request.uri_mut() = uri.parse().expect("a URI");
        request
    })
}

/// Every parameter that an informer sends, ignored, and how the cache is in the end. All but one
/// are made up for:
///
/// - `limit`: everything comes at once. `continue`: the repeated page is noticed, and everything is
///   asked for at once.
/// - `sendInitialEvents`, `resourceVersionMatch`: the list is asked for in pages.
/// - `allowWatchBookmarks`, `timeoutSeconds`: the informer has its own position and deadline.
/// - `labelSelector`, `fieldSelector`: labels and names are checked here.
/// - `resourceVersion`: the watch begins with what is there, and what was received before is
///   dropped. A deletion between the list and the watch is found by the next list (an audit).
/// - `watch`: no list can be taken for a watch; the cache is filled by lists, and the error is
///   shown.
#[tokio::test(start_paused = true)]
async fn parameter_that_a_server_ignores_is_made_up_for() {
    for parameter in [
        "none",
        "limit",
        "continue",
        "sendInitialEvents",
        "resourceVersionMatch",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "labelSelector",
        "fieldSelector",
        "resourceVersion",
        "watch",
    ] {
        for is_paged in [false, true] {
            let streamed = if is_paged { "sendInitialEvents" } else { "none" };
            let cluster = Cluster::on(ApiServer::new(), |stack| {
                stack.layer(without(parameter)).layer(without(streamed))
            });
            for name in ["a", "b", "c", "other", "hidden"] {
                cluster.create(name).await;
                cluster.label(name, if name == "other" { "db" } else { "web" }).await;
            }
            let config = ReflectorConfig { page_size: 2, ..ReflectorConfig::default() };
            let selecting = options()
                .label_selector("app=web")
                .field_selector("metadata.name!=hidden")
                .reflector(config);
            let informer = cluster.running(selecting);
            informer.wait_for_sync().await.expect("it lists");
            assert_eq!(content(informer.lister()), "a=1 b=1 c=1", "{parameter}, paged: {is_paged}");

            cluster.set("a", "2").await;
            cluster.set("other", "2").await;
            cluster.set("hidden", "2").await;
            cluster.delete("b").await;
            cluster.label("c", "db").await;
            pass(20 * MINUTE).await;
            assert_eq!(content(informer.lister()), "a=2", "{parameter}, paged: {is_paged}");
            if parameter == "watch" {
                assert!(feed(&informer).last_error.is_some());
            }
            informer.end().await;
        }
    }
}

/// A page of a list, which goes on with the token, or ends it.
fn page(items: &[Value], token: &str) -> String {
    let metadata = json!({"resourceVersion": "9", "continue": token});
    json!({"kind": "ConfigMapList", "metadata": metadata, "items": items}).to_string()
}

/// The comparison of a cache with the server is a list, too.
#[tokio::test(start_paused = true)]
async fn comparison_with_a_server_that_ignores_continue_ends() {
    let cluster = Cluster::on(ApiServer::new(), |stack| stack.layer(without("continue")));
    for name in ["a", "b", "c", "d", "e"] {
        cluster.create(name).await;
    }
    let config = ReflectorConfig { page_size: 2, ..ReflectorConfig::default() };
    let informer = cluster.running(options().reflector(config));
    informer.wait_for_sync().await.expect("it lists");
    // Otherwise it would never end.
    cluster.fault(FaultRule::new(Fault::Refuse).verb("list").after(10));
    informer.cache().wait_until_current().await.expect("everything is asked for at once");
    assert_eq!(cluster.asked("list"), 3);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn comparison_with_a_server_that_repeats_a_page_under_new_tokens_fails() {
    let (informer, mut server, _wire, _) = watching(options(), &["a"]).await;
    let answers = async {
        for (token, limit, sent) in [("one", Some(500), None), ("two", Some(500), Some("one"))] {
            let asked = server.asked().await;
            let Request::List(list) = &asked.request else { panic!("{:?}", asked.request) };
            assert_eq!((list.limit, list.continue_token.as_deref()), (limit, sent));
            asked.opens().sends(&page(&[object("a", "1")], token));
        }
        let asked = server.asked().await;
        assert_eq!(asked.request, Request::List(ListRequest::default()), "all at once");
        asked.opens().sends(&page(&[object("a", "1")], "three"));
        idle().await;
        assert!(server.asked_already().is_none(), "it is not asked again at once");
    };
    let cache = informer.cache();
    let (ended, ()) = tokio::join!(cache.wait_until_current(), answers);
    assert!(matches!(ended, Err(SourceError::EndedEarly)), "{ended:?}");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn server_that_refuses_to_stream_is_asked_for_pages_at_once() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    server.asked().await.fails(refusal(422, "Invalid"));
    let asked = server.asked().await;
    let Request::List(list) = &asked.request else { panic!("{:?}", asked.request) };
    assert_eq!((list.limit, &list.continue_token), (Some(500), &None));
    asked.opens().sends(&page(&[object("a", "1")], "more"));
    let asked = server.asked().await;
    let Request::List(list) = &asked.request else { panic!("{:?}", asked.request) };
    assert_eq!(list.continue_token.as_deref(), Some("more"));
    assert!(!informer.has_synced());
    asked.opens().sends(&page(&[object("b", "2")], ""));
    informer.wait_for_sync().await.expect("it lists");
    assert_eq!(log.take().await, ["+a=1 initial", "+b=2 initial"]);
    server.asked().await.resumes("9");
    informer.end().await;
}

// 29: the cluster is restored from a backup.

#[tokio::test(start_paused = true)]
async fn restored_cluster_is_followed_and_its_differences_become_events() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let informer = cluster.running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    informer.wait_for_sync().await.expect("it lists");
    let backup = cluster.server.snapshot();
    cluster.set("a", "2").await;
    cluster.delete("b").await;
    cluster.create("c").await;
    log.take().await;
    // As in life, it is away for a while: watches end, and new ones find nobody.
    let outage = cluster.fault(FaultRule::new(Fault::Refuse));
    cluster.server.restore(&backup);
    pass(5 * MINUTE).await;
    cluster.server.faults().remove(outage);
    pass(5 * MINUTE).await;
    let mut told = log.take().await;
    told.sort();
    assert_eq!(told, ["+b=1", "-c=1 tombstone", "~a=2→1"]);
    assert_eq!(content(informer.lister()), "a=1 b=1");
    assert_eq!(counts(&informer).restored, 1);
    // And life goes on.
    cluster.set("a", "3").await;
    assert_eq!(log.take().await, ["~a=1→3"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn restored_cluster_that_has_overtaken_the_old_one_is_noticed_by_its_objects() {
    let (informer, mut server, wire, log) = watching(options(), &["a", "b"]).await;
    wire.event("MODIFIED", &object("a", "5"));
    wire.event("ERROR", &expired());
    assert_eq!(log.take().await, ["~a=1→5"]);
    // The list is newer than what is known, and an object in it is older.
    let list = [object("a", "3"), object("b", "2"), object("c", "7")];
    let _doubted = server.lists(&list, "8").await;
    backs_off(&mut server).await;
    assert_eq!(log.take().await, ["+c=7"], "it could be a mistake: nothing goes back yet");
    let _wire = server.lists(&list, "8").await;
    assert_eq!(log.take().await, ["~a=5→3"]);
    assert_eq!(counts(&informer).restored, 1);
    informer.end().await;
}
