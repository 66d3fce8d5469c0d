//! A person can look at every key: its state, since when, its failures, its next run and its
//! causes.

use crate::common::SECOND;
use tokio::time::{Instant, advance};
use windlass_workqueue::{Add, Exponential, KeyStatus, Lease, Priority, Snapshot, WorkQueue};

type Queue = WorkQueue<&'static str, &'static str>;

fn queue() -> Queue {
    let limiter = Exponential::new(40 * SECOND, 400 * SECOND).unwrap();
    Queue::builder().name("pods").limiter(limiter).build().unwrap()
}

/// One key in each state, five seconds after the first of them.
async fn one_of_each(queue: &Queue) -> Lease<&'static str, &'static str> {
    queue.add_with("running", Add::now().cause("created")).unwrap();
    let lease = queue.try_get().unwrap();
    advance(3 * SECOND).await;
    queue.add_with("running", Add::now().cause("changed")).unwrap();
    queue.add_with("waiting", Add::rate_limited().cause("conflict")).unwrap();
    queue.add_with("ready", Add::now().priority(Priority::High)).unwrap();
    advance(2 * SECOND).await;
    lease
}

fn of<'a>(
    snapshot: &'a Snapshot<&'static str, &'static str>,
    key: &str,
) -> &'a KeyStatus<&'static str, &'static str> {
    snapshot.keys.iter().find(|status| status.key == key).expect("the key must be in the snapshot")
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_tells_all_of_every_key() {
    let queue = queue();
    let start = Instant::now();
    let _lease = one_of_each(&queue).await;
    let snapshot = queue.snapshot();
    assert_eq!((snapshot.name.as_str(), snapshot.shut_down), ("pods", false));
    assert_eq!(snapshot.taken, start + 5 * SECOND);
    assert_eq!(snapshot.keys.len(), 3);

    let running = of(&snapshot, "running");
    let run = running.running.as_ref().unwrap();
    let again = running.next_run.as_ref().unwrap();
    assert_eq!(run.since, start);
    assert_eq!(run.causes.iter().collect::<Vec<_>>(), [&"created"]);
    assert_eq!((again.since, again.due), (start + 3 * SECOND, None));
    assert_eq!(again.causes.iter().collect::<Vec<_>>(), [&"changed"]);
    assert_eq!(running.failures, 0);

    let waiting = of(&snapshot, "waiting");
    let ahead = waiting.next_run.as_ref().unwrap();
    assert!(waiting.running.is_none());
    assert_eq!((ahead.since, ahead.due), (start + 3 * SECOND, Some(start + 43 * SECOND)));
    assert_eq!(ahead.priority, Priority::Normal);
    assert_eq!(ahead.causes.iter().collect::<Vec<_>>(), [&"conflict"]);
    assert_eq!(waiting.failures, 1);

    let ready = of(&snapshot, "ready");
    let ahead = ready.next_run.as_ref().unwrap();
    assert!(ready.running.is_none());
    assert_eq!(
        (ahead.since, ahead.due, ahead.priority),
        (start + 3 * SECOND, None, Priority::High)
    );
    assert!(ahead.causes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_key_that_is_due_is_shown_as_ready_since_then() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", 2 * SECOND).unwrap();
    advance(5 * SECOND).await;
    let ahead = queue.status(&"a").unwrap().next_run.unwrap();
    assert_eq!((ahead.since, ahead.due), (start + 2 * SECOND, None));
}

#[tokio::test(start_paused = true)]
async fn a_status_tells_of_one_key() {
    let queue = queue();
    assert!(queue.status(&"a").is_none(), "unknown");
    queue.add("a").unwrap();
    let status = queue.status(&"a").unwrap();
    assert!(status.running.is_none() && status.next_run.is_some());

    let lease = queue.try_get().unwrap();
    let status = queue.status(&"a").unwrap();
    assert!(status.running.is_some() && status.next_run.is_none());
    lease.retry().unwrap();
    let status = queue.status(&"a").unwrap();
    assert!(status.running.is_none() && status.next_run.unwrap().due.is_some());
    assert_eq!(status.failures, 1);

    assert!(queue.cancel(&"a"));
    assert!(queue.status(&"a").is_none(), "gone, although its failure is remembered");
    assert_eq!(queue.failures(&"a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_no_key_that_is_done() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    assert_eq!(crate::common::run_ready(&queue).len(), 3);
    assert!(queue.snapshot().keys.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_a_table_for_a_person() {
    let queue = queue();
    let _lease = one_of_each(&queue).await;
    let table = queue.snapshot().to_string();
    let first = table.lines().next();
    assert_eq!(first, Some("pods: 1 running, 2 ready, 1 waiting"));
    for column in ["STATE", "FOR", "DUE IN", "FAILURES", "PRIO", "KEY"] {
        assert!(table.lines().nth(1).unwrap().contains(column), "{table}");
    }
    // Each row by what it must show.
    for row in [
        ["running", "5.0s", "\"running\""].as_slice(),
        &["because", "\"created\""],
        &["ready", "2.0s", "normal", "\"running\""],
        &["because", "\"changed\""],
        &["waiting", "2.0s", "38.0s", " 1 ", "normal", "\"waiting\""],
        &["because", "\"conflict\""],
        &["ready", "2.0s", "high", "\"ready\""],
    ] {
        let has_row = table.lines().any(|line| row.iter().all(|part| line.contains(part)));
        assert!(has_row, "{row:?} must be a row of\n{table}");
    }
    assert_eq!(table.lines().count(), 2 + 4 + 3);
}

#[tokio::test(start_paused = true)]
async fn the_table_of_a_closed_and_empty_queue_is_one_line() {
    let queue = queue();
    queue.shut_down();
    assert!(queue.snapshot().shut_down);
    assert_eq!(queue.snapshot().to_string(), "pods: 0 running, 0 ready, 0 waiting, shut down\n");
}

#[tokio::test(start_paused = true)]
async fn the_table_counts_causes_that_were_left_out() {
    let queue = queue();
    for cause in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"] {
        queue.add_with("a", Add::now().cause(cause)).unwrap();
    }
    let table = queue.snapshot().to_string();
    assert!(table.contains("3 causes"), "{table}");
    assert_eq!(table.lines().filter(|line| line.contains("because")).count(), 8, "{table}");
}

#[tokio::test(start_paused = true)]
async fn times_in_the_table_are_short() {
    let queue = queue();
    for (key, seconds) in [("minutes", 240), ("hours", 7_200), ("days", 864_000)] {
        queue.add_after(key, seconds * SECOND).unwrap();
    }
    queue.add_after("soon", SECOND / 4).unwrap();
    let table = queue.snapshot().to_string();
    for (key, due) in [("minutes", "4m"), ("hours", "2h"), ("days", "10d"), ("soon", "250ms")] {
        let has_row = table.lines().any(|line| line.contains(key) && line.contains(due));
        assert!(has_row, "{key} must be due in {due}:\n{table}");
    }
}

#[tokio::test(start_paused = true)]
async fn running_keys_come_first_then_ready_then_waiting_ones() {
    let queue = queue();
    queue.add_after("due later", 20 * SECOND).unwrap();
    queue.add_after("due soon", 10 * SECOND).unwrap();
    for key in ["ran long", "ran short", "ready long"] {
        queue.add(key).unwrap();
    }
    let _long = queue.try_get().unwrap();
    advance(SECOND).await;
    let _short = queue.try_get().unwrap();
    queue.add("ready short").unwrap();
    let keys: Vec<_> = queue.snapshot().keys.into_iter().map(|status| status.key).collect();
    let expected = ["ran long", "ran short", "ready long", "ready short", "due soon", "due later"];
    assert_eq!(keys, expected);
}

#[tokio::test(start_paused = true)]
async fn a_table_is_cut_where_nobody_reads_on() {
    let queue = WorkQueue::<u32>::new();
    for key in 0..250 {
        queue.add(key).unwrap();
    }
    let short = queue.snapshot().to_string();
    let full = format!("{:#}", queue.snapshot());
    assert_eq!(short.lines().next(), Some("workqueue: 0 running, 250 ready, 0 waiting"));
    assert!(short.contains("150 more"), "{short}");
    assert_eq!(full.lines().count(), 2 + 250);
}

#[test]
fn a_queue_has_a_name() {
    assert_eq!(queue().name(), "pods");
    assert_eq!(WorkQueue::<&str>::new().name(), "workqueue");
    assert!(format!("{:?}", queue()).contains("pods"));
}
