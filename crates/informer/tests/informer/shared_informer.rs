//! Handlers of a shared informer: who hears what, from when on, until when, and how resyncs reach
//! them.

use std::sync::mpsc;
use std::time::Duration;

use crate::support::by_hand::{self, object, object_of};
use crate::support::{Cluster, Log, Running, content, idle, pass, text};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Event, HandlerOptions, InformerOptions, InformerPhase, Stopped, Subscription, filtered,
};

const SECOND: Duration = Duration::from_secs(1);

fn options() -> InformerOptions {
    InformerOptions::new()
}

fn every(seconds: u64) -> HandlerOptions {
    HandlerOptions::new().resync(Duration::from_secs(seconds))
}

/// The next so many events of a subscription.
async fn events(subscription: &mut Subscription<ConfigMap>, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(text(&subscription.next().await.expect("an event")));
    }
    events
}

// Who joins when.

#[tokio::test(start_paused = true)]
async fn handler_hears_of_every_change_in_order() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    informer.wait_for_sync().await.expect("it lists");
    assert_eq!(log.take().await, ["+a=1 initial"]);
    cluster.create("b").await;
    cluster.set("b", "2").await;
    cluster.set("a", "3").await;
    cluster.delete("b").await;
    assert_eq!(log.take().await, ["+b=1", "~b=1→2", "~a=1→3", "-b=2"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn late_handler_is_shown_the_cache_and_then_what_changes() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let informer = cluster.running(options());
    informer.wait_for_sync().await.expect("it lists");
    cluster.set("a", "2").await;
    cluster.create("c").await;
    cluster.delete("b").await;
    idle().await;
    let log = Log::new();
    let registration = informer.add_handler(log.handler()).expect("it runs");
    cluster.set("c", "2").await;
    assert_eq!(log.take().await, ["+a=2 initial", "+c=1 initial", "~c=1→2"]);
    assert!(registration.has_synced());
    assert_eq!(cluster.asked("watch"), 1, "the cache knows it all");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn handler_that_joins_during_the_first_list_loses_and_doubles_nothing() {
    let (informer, mut server) = by_hand::running(options());
    let wire = server.asked().await.streams();
    wire.event("ADDED", &object("a", "1"));
    idle().await;
    let log = Log::new();
    let registration = informer.add_handler(log.handler()).expect("it runs");
    assert_eq!(log.take().await, ["+a=1 initial"]);
    wire.event("ADDED", &object("b", "2"));
    assert_eq!(log.take().await, ["+b=2 initial"]);
    assert!(!registration.has_synced(), "the list goes on");
    wire.ends_list("2");
    assert!(registration.wait_for_sync().await);
    wire.event("ADDED", &object("c", "3"));
    assert_eq!(log.take().await, ["+c=3"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn handlers_that_join_between_any_two_events_end_with_the_same_replica() {
    let (informer, mut server) = by_hand::running(options());
    let wire = server.asked().await.streams();
    let steps = [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("", "", "3"),
        ("MODIFIED", "a", "4"),
        ("DELETED", "b", "5"),
        ("ADDED", "b", "6"),
        ("DELETED", "a", "7"),
    ];
    let mut replicas = Vec::new();
    for (change, name, version) in steps {
        let log = Log::new();
        informer.add_handler(log.handler()).expect("it runs");
        replicas.push(log);
        match change {
            "" => wire.ends_list(version),
            change => wire.event(change, &object_of(&format!("{name}{change}"), name, version)),
        }
        idle().await;
    }
    for log in replicas {
        let told = log.take().await;
        // Of every object it is told that it comes, before anything else of it, and as often as it
        // goes, once more.
        for name in ["a", "b"] {
            let count = |sign: &str| {
                let start = format!("{sign}{name}=");
                told.iter().filter(|event| event.starts_with(&start)).count()
            };
            assert_eq!(count("+"), count("-") + usize::from(name == "b"), "{told:?}");
        }
        assert!(told.iter().any(|event| event == "+b=6" || event == "+b=6 initial"), "{told:?}");
    }
    assert_eq!(content(informer.lister()), "b=6");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn only_what_was_there_is_marked_as_initial() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let wire = server.asked().await.streams();
    wire.event("ADDED", &object("a", "1"));
    // It changed before the list was complete: the handler hears of both, and the first is marked.
    wire.event("MODIFIED", &object("a", "2"));
    wire.ends_list("2");
    wire.event("ADDED", &object("b", "3"));
    assert_eq!(log.take().await, ["+a=1 initial", "~a=1→2", "+b=3"]);
    // A list after a watch that was lost is not the first.
    wire.event("ERROR", &serde_json::json!({"kind": "Status", "code": 410, "reason": "Expired"}));
    server.lists(&[object("a", "2"), object("b", "3"), object("c", "4")], "4").await;
    assert_eq!(log.take().await, ["+c=4"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn removed_handler_hears_nothing_more_and_others_go_on() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options());
    let removed = Log::new();
    let stays = Log::new();
    let registration = informer.add_handler(removed.handler()).expect("it runs");
    informer.add_handler(stays.handler()).expect("it runs");
    assert!(registration.wait_for_sync().await);
    assert_eq!(removed.take().await, stays.take().await);
    cluster.set("a", "2").await;
    registration.remove();
    cluster.set("a", "3").await;
    assert_eq!(stays.take().await, ["~a=1→2", "~a=2→3"]);
    assert!(removed.take().await.is_empty(), "also what was pending is not told");
    assert_eq!(informer.status().handlers.len(), 1);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn handler_removed_during_the_first_list_is_told_nothing_of_it() {
    let (informer, mut server) = by_hand::running(options());
    let removed = Log::new();
    let stays = Log::new();
    let registration = informer.add_handler(removed.handler()).expect("it runs");
    let other = informer.add_handler(stays.handler()).expect("it runs");
    registration.remove();
    let _wire = server.lists(&[object("a", "1")], "1").await;
    assert!(other.wait_for_sync().await);
    assert_eq!(stays.take().await, ["+a=1 initial"]);
    assert!(removed.take().await.is_empty());
    informer.end().await;
}

// Whose fault is whose.

#[tokio::test(start_paused = true)]
async fn panicking_handler_misses_one_event_and_others_none() {
    let cluster = Cluster::with(&["a", "b", "c"]).await;
    let informer = cluster.running(options());
    let log = Log::new();
    let other = Log::new();
    let told = log.clone();
    let panics = move |event: Event<ConfigMap>| {
        assert_ne!(event.key().name(), "b", "a handler that does not like b");
        told.note(text(&event));
    };
    let registration =
        informer.add_handler_with(HandlerOptions::new().name("panics"), panics).expect("it runs");
    informer.add_handler(other.handler()).expect("it runs");
    assert!(
        registration.wait_for_sync().await,
        "it panicked on one of them, and has seen the others"
    );
    cluster.set("b", "2").await;
    cluster.set("a", "2").await;
    assert_eq!(log.take().await, ["+a=1 initial", "+c=1 initial", "~a=1→2"]);
    assert_eq!(other.take().await.len(), 5);
    let status = registration.status();
    assert_eq!((&*status.name, status.panics, status.delivered), ("panics", 2, 5));
    assert_eq!(informer.status().phase, InformerPhase::Synced);
    informer.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_that_blocks_slows_nobody_else() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options());
    let (release, released) = mpsc::channel::<()>();
    let (entered, is_in) = tokio::sync::oneshot::channel();
    let mut entered = Some(entered);
    let blocks = move |_: Event<ConfigMap>| {
        if let Some(entered) = entered.take() {
            let _ = entered.send(());
            let _ = tokio::task::block_in_place(|| released.recv());
        }
    };
    let slow = informer.add_handler(blocks).expect("it runs");
    is_in.await.expect("it was called");
    let mut quick = informer.subscribe().expect("it runs");
    for number in 2..=2_000 {
        cluster.set("a", &number.to_string()).await;
    }
    while !text(&quick.next().await.expect("an event")).ends_with("→2000") {}
    let status = slow.status();
    assert!(!status.synced && status.pending <= 1_024, "{status:?}");
    // With the mark that ends its initial list.
    assert_eq!(status.pending as u64 + status.merged, 2_000, "every event is accounted for");
    release.send(()).expect("it waits");
    assert!(slow.wait_for_sync().await);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn events_merge_by_key_above_1024_pending_and_below_none_does() {
    let (informer, mut server) = by_hand::running(options());
    let mut slow = informer.subscribe().expect("it runs");
    let wire = server.asked().await.streams();
    wire.event("ADDED", &object("a", "1"));
    wire.ends_list("1");
    // With the mark of the list's end 1,024 are pending.
    for version in 2..1_024 {
        wire.event("MODIFIED", &object("a", &version.to_string()));
    }
    idle().await;
    assert_eq!((slow.status().pending, slow.status().merged), (1_024, 0));
    for version in 1_024..1_100 {
        wire.event("MODIFIED", &object("a", &version.to_string()));
    }
    wire.event("ADDED", &object("b", "1100"));
    wire.event("MODIFIED", &object("b", "1101"));
    wire.event("ADDED", &object("c", "1102"));
    wire.event("DELETED", &object("c", "1103"));
    wire.event("DELETED", &object("b", "1104"));
    wire.event("ADDED", &object_of("another", "b", "1105"));
    idle().await;
    let all = events(&mut slow, 1_024).await;
    assert_eq!(all[0], "+a=1 initial");
    assert_eq!(all[1_021], "~a=1021→1022");
    assert_eq!(all[1_022], "~a=1022→1099", "the last one has merged with what came later");
    assert_eq!(all[1_023], "+b=1105", "what came and went in the meantime is not told");
    assert!(slow.has_synced());
    assert_eq!(slow.status().pending, 0);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn slow_handler_of_a_large_first_list_keeps_its_initial_marks_and_its_sync() {
    let options = options().merge_above(4);
    let (informer, mut server) = by_hand::running(options);
    let mut slow = informer.subscribe().expect("it runs");
    let names: Vec<_> = (10..30).map(|number| format!("o{number}")).collect();
    let objects: Vec<_> = names.iter().map(|name| object(name, "1")).collect();
    let wire = server.lists(&objects, "5").await;
    for (name, version) in names.iter().zip(10..) {
        wire.event("MODIFIED", &object(name, &format!("{version}0")));
        wire.event("MODIFIED", &object(name, &format!("{version}1")));
    }
    idle().await;
    // One event of each, though the list's end and two changes were to be told.
    let told = events(&mut slow, names.len()).await;
    let newest = names.iter().zip(10..);
    let expected: Vec<_> =
        newest.map(|(name, version)| format!("+{name}={version}1 initial")).collect();
    assert_eq!(told, expected);
    assert!(slow.has_synced(), "the mark stands behind them");
    wire.event("ADDED", &object("new", "999"));
    assert_eq!(events(&mut slow, 1).await, ["+new=999"]);
    informer.end().await;
}

// Filters.

#[tokio::test(start_paused = true)]
async fn filter_turns_transitions_into_additions_and_deletions() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    // Those with an even version pass.
    let even = |object: &windlass_indexer::Cached<ConfigMap>| {
        object.head().resource_version().to_string().ends_with(['0', '2', '4', '6', '8'])
    };
    informer.add_handler(filtered(even, log.handler())).expect("it runs");
    let wire = server.lists(&[object("a", "1"), object("b", "2")], "2").await;
    assert_eq!(log.take().await, ["+b=2 initial"]);
    for (name, version, told) in [
        ("a", "4", "+a=4"),
        ("a", "6", "~a=4→6"),
        ("a", "7", "-a=6 tombstone"),
        ("a", "9", ""),
        ("a", "10", "+a=10"),
    ] {
        wire.event("MODIFIED", &object(name, version));
        assert_eq!(log.take().await.join(" "), told);
    }
    wire.event("DELETED", &object("a", "12"));
    assert_eq!(log.take().await, ["-a=12"]);
    wire.event("ADDED", &object("a", "13"));
    wire.event("DELETED", &object("a", "13"));
    assert!(log.take().await.is_empty(), "it never passed");
    // Missed deletions pass the filter as what was last known.
    wire.event("ADDED", &object("c", "15"));
    wire.event("ERROR", &serde_json::json!({"kind": "Status", "code": 410, "reason": "Expired"}));
    server.lists(&[], "20").await;
    assert_eq!(log.take().await, ["-b=2 tombstone"]);
    informer.end().await;
}

// When a handler is synced.

#[tokio::test(start_paused = true)]
async fn registration_is_synced_when_its_handler_has_seen_everything() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let informer = cluster.informer(options());
    let log = Log::new();
    let registration = informer.add_handler(log.handler()).expect("not stopped");
    assert!(!registration.has_synced());
    let informer = Running::start(informer);
    assert!(registration.wait_for_sync().await);
    let seen = registration.status().delivered;
    assert_eq!(seen, 2, "before it is synced, and not after");
    assert!(informer.has_synced());
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn empty_first_list_is_synced() {
    let (informer, mut server) = by_hand::running(options());
    let registration = informer.add_handler(Log::new().handler()).expect("it runs");
    idle().await;
    assert!(!informer.has_synced() && !registration.has_synced());
    let _wire = server.lists(&[], "1").await;
    informer.wait_for_sync().await.expect("it lists");
    assert!(registration.wait_for_sync().await);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn first_list_that_is_followed_by_deletions_is_synced() {
    let (informer, mut server) = by_hand::running(options());
    let log = Log::new();
    let registration = informer.add_handler(log.handler()).expect("it runs");
    let wire = server.lists(&[object("a", "1")], "1").await;
    wire.event("DELETED", &object("a", "2"));
    assert!(registration.wait_for_sync().await);
    assert_eq!(log.take().await, ["+a=1 initial", "-a=2"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn subscription_is_synced_when_all_of_the_beginning_was_taken() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let informer = cluster.running(options());
    informer.wait_for_sync().await.expect("it lists");
    let mut subscription = informer.subscribe().expect("it runs");
    assert_eq!(events(&mut subscription, 1).await, ["+a=1 initial"]);
    assert!(!subscription.has_synced());
    assert_eq!(events(&mut subscription, 1).await, ["+b=1 initial"]);
    assert!(subscription.has_synced());
    assert!(subscription.wait_for_sync().await);
    informer.end().await;
}

// How it ends.

#[tokio::test(start_paused = true)]
async fn nothing_can_be_added_after_the_end_and_the_cache_stays_readable() {
    let cluster = Cluster::with(&["a"]).await;
    let mut informer = cluster.running(options());
    let log = Log::new();
    let registration = informer.add_handler(log.handler()).expect("it runs");
    let mut subscription = informer.subscribe().expect("it runs");
    assert!(registration.wait_for_sync().await);
    informer.stop.cancel();
    assert_eq!(informer.ended().await, Ok(()));
    assert_eq!(informer.status().phase, InformerPhase::Stopped);
    assert_eq!(informer.add_handler(log.handler()).map(drop), Err(Stopped));
    assert_eq!(informer.subscribe().map(drop), Err(Stopped));
    assert!(subscription.next().await.is_none());
    assert_eq!(informer.wait_for_sync().await, Err(Stopped));
    assert_eq!(informer.run(CancellationToken::new()).await, Err(Stopped), "it runs once");
    assert_eq!(content(informer.lister()), "a=1");
    assert_eq!(log.take().await, ["+a=1 initial"]);
}

#[tokio::test(start_paused = true)]
async fn second_run_is_refused_and_the_first_goes_on() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options());
    informer.wait_for_sync().await.expect("it lists");
    assert_eq!(informer.run(CancellationToken::new()).await, Err(Stopped));
    cluster.create("b").await;
    idle().await;
    assert_eq!(content(informer.lister()), "a=1 b=1");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_future_ends_everything() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.informer(options());
    let registration = informer.add_handler(Log::new().handler()).expect("not stopped");
    let run = informer.run(CancellationToken::new());
    let ended = tokio::time::timeout(SECOND, run).await;
    assert!(ended.is_err(), "it runs until it is stopped");
    idle().await;
    assert!(registration.has_synced());
    let status = informer.status();
    assert_eq!((status.phase, status.handlers.len()), (InformerPhase::Stopped, 0));
    assert_eq!(informer.add_handler(Log::new().handler()).map(drop), Err(Stopped));
    cluster.create("b").await;
    idle().await;
    assert_eq!(content(informer.lister()), "a=1", "nobody watches");
}

#[tokio::test(start_paused = true)]
async fn informer_that_is_stopped_before_it_runs_keeps_nobody_waiting() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.informer(options());
    let registration = informer.add_handler(Log::new().handler()).expect("not stopped");
    informer.stop();
    assert_eq!(informer.wait_for_sync().await, Err(Stopped));
    assert!(!registration.wait_for_sync().await);
    assert_eq!(informer.add_handler(Log::new().handler()).map(drop), Err(Stopped));
    assert_eq!(informer.run(CancellationToken::new()).await, Err(Stopped));
    assert_eq!((cluster.asked("watch"), informer.status().phase), (0, InformerPhase::Stopped));
}

#[tokio::test(start_paused = true)]
async fn handler_that_waits_for_a_sync_learns_of_the_end() {
    let (informer, mut server) = by_hand::running(options());
    let registration = informer.add_handler(Log::new().handler()).expect("it runs");
    let _unanswered = server.asked().await;
    let stop = informer.stop.clone();
    let wait = async { tokio::join!(registration.wait_for_sync(), informer.wait_for_sync()) };
    let (waited, ()) = tokio::join!(wait, async {
        idle().await;
        stop.cancel();
    });
    assert_eq!(waited, (false, Err(Stopped)));
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn informer_stops_when_its_last_user_leaves() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let shared = factory.informer::<ConfigMap>().expect("an informer");
    let handler = shared.add_handler(Log::new().handler()).expect("not stopped");
    let also = shared.subscribe().expect("not stopped");
    let clone = shared.clone();
    factory.start();
    factory.wait_for_sync().await.expect("it lists");
    for user in [Some(shared), Some(clone)] {
        drop(user);
        idle().await;
        assert_eq!(factory.status()[0].phase, InformerPhase::Synced, "others use it");
    }
    drop(also);
    idle().await;
    assert_eq!(factory.status()[0].handlers.len(), 1, "a handler is a user");
    handler.remove();
    idle().await;
    assert!(factory.status().is_empty(), "nobody uses it");
}

#[tokio::test(flavor = "multi_thread")]
async fn end_waits_for_the_event_that_a_handler_is_at() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let mut informer = cluster.running(options());
    let log = Log::new();
    let (release, released) = mpsc::channel::<()>();
    let (entered, is_in) = tokio::sync::oneshot::channel();
    let told = log.clone();
    let mut entered = Some(entered);
    let slow = move |event: Event<ConfigMap>| {
        let _ = entered.take().expect("it is called once").send(());
        let _ = tokio::task::block_in_place(|| released.recv());
        told.note(text(&event));
    };
    informer.add_handler(slow).expect("it runs");
    is_in.await.expect("it was called");
    informer.stop.cancel();
    while informer.status().phase != InformerPhase::Stopped {
        tokio::task::yield_now().await;
    }
    assert!(log.take_now().is_empty(), "it is still at it");
    release.send(()).expect("it waits");
    assert_eq!(informer.ended().await, Ok(()));
    assert_eq!(log.take_now(), ["+a=1 initial"], "this one, and no other");
}

#[tokio::test(start_paused = true)]
async fn dropped_subscription_leaves_the_others_alone() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options());
    let left = informer.subscribe().expect("it runs");
    let mut stays = informer.subscribe();
    let stays = stays.as_mut().expect("it runs");
    assert_eq!(events(stays, 1).await, ["+a=1 initial"]);
    assert_eq!(informer.status().handlers.len(), 2);
    drop(left);
    assert_eq!(informer.status().handlers.len(), 1);
    cluster.set("a", "2").await;
    assert_eq!(events(stays, 1).await, ["~a=1→2"]);
    informer.end().await;
}

// Resync. client-go looks every so often whether somebody is due: the smallest period of all
// handlers that were there when the informer started, and at least a second. Here everybody has an
// own time, so a handler that comes late can have a shorter period than all others, and nobody
// waits for a common tick.

#[tokio::test(start_paused = true)]
async fn each_handler_is_shown_everything_at_its_own_times() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.informer(options());
    let never = Log::new();
    let twos = Log::new();
    let threes = Log::new();
    informer.add_handler(never.handler()).expect("not stopped");
    informer.add_handler_with(every(2), twos.handler()).expect("not stopped");
    informer.add_handler_with(every(3), threes.handler()).expect("not stopped");
    let informer = Running::start(informer);
    for log in [&never, &twos, &threes] {
        assert_eq!(log.take().await, ["+a=1 initial"]);
    }
    let mut shown = Vec::new();
    for second in 1..=6 {
        pass(SECOND).await;
        for (log, period) in [(&never, 0), (&twos, 2), (&threes, 3)] {
            shown
                .extend(log.take().await.iter().map(|event| format!("{second}: {period} {event}")));
        }
    }
    assert_eq!(shown, ["2: 2 =a=1", "3: 3 =a=1", "4: 2 =a=1", "6: 2 =a=1", "6: 3 =a=1"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn late_handler_may_have_the_shortest_period() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options().resync(Duration::from_mins(1)));
    let slow = Log::new();
    let quick = Log::new();
    informer.add_handler(slow.handler()).expect("it runs");
    pass(SECOND).await;
    informer.add_handler_with(every(5), quick.handler()).expect("it runs");
    assert_eq!(quick.take().await, ["+a=1 initial"]);
    pass(5 * SECOND).await;
    assert_eq!(quick.take().await, ["=a=1"], "client-go would have it wait for a minute");
    assert_eq!(slow.take().await, ["+a=1 initial"]);
    pass(54 * SECOND).await;
    assert_eq!((slow.take().await.len(), quick.take().await.len()), (1, 10));
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn handler_that_joined_late_is_due_after_its_own_time() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options().resync(10 * SECOND));
    let early = Log::new();
    let late = Log::new();
    informer.add_handler(early.handler()).expect("it runs");
    pass(7 * SECOND).await;
    informer.add_handler(late.handler()).expect("it runs");
    pass(4 * SECOND).await;
    assert_eq!(early.take().await, ["+a=1 initial", "=a=1"]);
    assert_eq!(late.take().await, ["+a=1 initial"], "what it has just seen is not shown again");
    pass(6 * SECOND).await;
    assert_eq!(late.take().await, ["=a=1"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn handler_can_do_without_the_resync_of_its_informer() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(options().resync(SECOND));
    let log = Log::new();
    let never = HandlerOptions::new().resync(Duration::ZERO);
    informer.add_handler_with(never, log.handler()).expect("it runs");
    pass(Duration::from_mins(1)).await;
    assert_eq!(log.take().await, ["+a=1 initial"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn resync_asks_the_server_nothing() {
    let cluster = Cluster::with(&["a", "b"]).await;
    let informer = cluster.running(options().resync(SECOND));
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    informer.wait_for_sync().await.expect("it lists");
    // Shorter than a watch lasts.
    pass(Duration::from_mins(4)).await;
    assert!(log.take().await.len() > 400);
    assert_eq!((cluster.asked("watch"), cluster.asked("list")), (1, 0));
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn resync_repairs_nothing_that_a_watch_has_missed() {
    let (informer, mut server) = by_hand::running(options().resync(SECOND));
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    // The server has b as well, and never says so.
    let _wire = server.lists(&[object("a", "1")], "2").await;
    pass(2 * SECOND).await;
    assert_eq!(log.take().await, ["+a=1 initial", "=a=1", "=a=1"]);
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn update_and_resync_at_the_same_time_never_go_back() {
    let (informer, mut server) = by_hand::running(options().resync(SECOND));
    let mut subscription = informer.subscribe().expect("it runs");
    let wire = server.lists(&[object("a", "1")], "1").await;
    let mut newest = 0;
    for version in 2..50 {
        // Both are ready when the second is over, in whatever order the tasks are woken.
        tokio::join!(pass(SECOND), async {
            pass(SECOND).await;
            wire.event("MODIFIED", &object("a", &version.to_string()));
        });
    }
    idle().await;
    let mut resyncs = 0;
    while newest < 49 {
        let event = subscription.next().await.expect("an event");
        let version = crate::support::value(event.object()).parse::<u32>().expect("a number");
        assert!(version >= newest, "{event:?} after {newest}");
        if event.is_resync() {
            assert_eq!(version, newest, "a resync shows what is known already");
            resyncs += 1;
        }
        newest = version;
    }
    assert!(resyncs > 40, "{resyncs}");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_shown_again_after_it_was_deleted() {
    let (informer, mut server) = by_hand::running(options().resync(SECOND));
    let log = Log::new();
    informer.add_handler(log.handler()).expect("it runs");
    let wire = server.lists(&[object("a", "1")], "1").await;
    pass(SECOND).await;
    wire.event("DELETED", &object("a", "2"));
    pass(3 * SECOND).await;
    assert_eq!(log.take().await, ["+a=1 initial", "=a=1", "-a=2"]);
    informer.end().await;
}
