//! What a scrape shows of a queue. The names are client-go's, so that its dashboards and alerts
//! work.
#![cfg(feature = "prometheus")]

use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::time;
use windlass_workqueue::{Add, Builder, Exponential, Priority, QueueMetrics, WorkQueue};

const SECOND: Duration = Duration::from_secs(1);

/// A registry with the metrics on it.
fn metrics() -> (Registry, QueueMetrics) {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    (registry, metrics)
}

fn queue(metrics: &QueueMetrics, name: &str) -> WorkQueue<&'static str> {
    builder().observer(metrics.observer(name)).build().expect("valid")
}

fn builder() -> Builder<&'static str> {
    WorkQueue::builder().limiter(Exponential::new(SECOND, 8 * SECOND).expect("valid"))
}

fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    text::encode(&mut text, registry).expect("a string takes everything");
    text
}

/// What a scrape says of `metric` for the queue `pods`.
#[track_caller]
fn value(registry: &Registry, metric: &str) -> String {
    let scrape = scrape(registry);
    // Of the depths, the one of ordinary keys.
    let priority = if metric == "workqueue_depth" { ",priority=\"0\"" } else { "" };
    let series = format!("{metric}{{name=\"pods\",controller=\"pods\"{priority}}} ");
    let mut values = scrape.lines().filter_map(|line| line.strip_prefix(&series));
    let value = values.next().unwrap_or_else(|| panic!("no {series} in:\n{scrape}"));
    assert_eq!(values.next(), None, "{series} twice in:\n{scrape}");
    value.to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_scrape_has_client_go_names_types_and_buckets() {
    let (registry, metrics) = metrics();
    let queue = queue(&metrics, "pods");
    queue.add("one").expect("open");
    time::advance(Duration::from_millis(5)).await;
    let lease = queue.try_get().expect("ready");
    time::advance(2 * SECOND).await;
    lease.retry().expect("open");
    queue.add("two").expect("open");
    queue.add("two").expect("open");
    let running = queue.try_get().expect("ready");
    time::advance(SECOND / 2).await;

    let expected = r#"# HELP workqueue_depth Keys that are ready and wait for a worker, by level: the requested priority, or a higher one after aging.
# TYPE workqueue_depth gauge
workqueue_depth{name="pods",controller="pods",priority="-100"} 0
workqueue_depth{name="pods",controller="pods",priority="0"} 0
workqueue_depth{name="pods",controller="pods",priority="100"} 0
# HELP workqueue_adds Runs that became ready; adds of a key that is ready already are merged and not counted.
# TYPE workqueue_adds counter
workqueue_adds_total{name="pods",controller="pods"} 2
# HELP workqueue_queue_duration_seconds How long keys were ready before a worker took them.
# TYPE workqueue_queue_duration_seconds histogram
# UNIT workqueue_queue_duration_seconds seconds
workqueue_queue_duration_seconds_sum{name="pods",controller="pods"} 0.005
workqueue_queue_duration_seconds_count{name="pods",controller="pods"} 2
workqueue_queue_duration_seconds_bucket{le="1e-8",name="pods",controller="pods"} 1
workqueue_queue_duration_seconds_bucket{le="1e-7",name="pods",controller="pods"} 1
workqueue_queue_duration_seconds_bucket{le="0.000001",name="pods",controller="pods"} 1
workqueue_queue_duration_seconds_bucket{le="0.000009999999999999999",name="pods",controller="pods"} 1
workqueue_queue_duration_seconds_bucket{le="0.00009999999999999999",name="pods",controller="pods"} 1
workqueue_queue_duration_seconds_bucket{le="0.001",name="pods",controller="pods"} 1
workqueue_queue_duration_seconds_bucket{le="0.01",name="pods",controller="pods"} 2
workqueue_queue_duration_seconds_bucket{le="0.1",name="pods",controller="pods"} 2
workqueue_queue_duration_seconds_bucket{le="1.0",name="pods",controller="pods"} 2
workqueue_queue_duration_seconds_bucket{le="10.0",name="pods",controller="pods"} 2
workqueue_queue_duration_seconds_bucket{le="100.0",name="pods",controller="pods"} 2
workqueue_queue_duration_seconds_bucket{le="1000.0",name="pods",controller="pods"} 2
workqueue_queue_duration_seconds_bucket{le="+Inf",name="pods",controller="pods"} 2
# HELP workqueue_work_duration_seconds How long workers took over a key.
# TYPE workqueue_work_duration_seconds histogram
# UNIT workqueue_work_duration_seconds seconds
workqueue_work_duration_seconds_sum{name="pods",controller="pods"} 2.0
workqueue_work_duration_seconds_count{name="pods",controller="pods"} 1
workqueue_work_duration_seconds_bucket{le="1e-8",name="pods",controller="pods"} 0
workqueue_work_duration_seconds_bucket{le="1e-7",name="pods",controller="pods"} 0
workqueue_work_duration_seconds_bucket{le="0.000001",name="pods",controller="pods"} 0
workqueue_work_duration_seconds_bucket{le="0.000009999999999999999",name="pods",controller="pods"} 0
workqueue_work_duration_seconds_bucket{le="0.00009999999999999999",name="pods",controller="pods"} 0
workqueue_work_duration_seconds_bucket{le="0.001",name="pods",controller="pods"} 0
workqueue_work_duration_seconds_bucket{le="0.01",name="pods",controller="pods"} 0
workqueue_work_duration_seconds_bucket{le="0.1",name="pods",controller="pods"} 0
workqueue_work_duration_seconds_bucket{le="1.0",name="pods",controller="pods"} 0
workqueue_work_duration_seconds_bucket{le="10.0",name="pods",controller="pods"} 1
workqueue_work_duration_seconds_bucket{le="100.0",name="pods",controller="pods"} 1
workqueue_work_duration_seconds_bucket{le="1000.0",name="pods",controller="pods"} 1
workqueue_work_duration_seconds_bucket{le="+Inf",name="pods",controller="pods"} 1
# HELP workqueue_unfinished_work_seconds How long the runs under way have taken so far, added up; it grows by one a second for each worker that is stuck.
# TYPE workqueue_unfinished_work_seconds gauge
# UNIT workqueue_unfinished_work_seconds seconds
workqueue_unfinished_work_seconds{name="pods",controller="pods"} 0.5
# HELP workqueue_longest_running_processor_seconds How long the oldest run under way has taken so far.
# TYPE workqueue_longest_running_processor_seconds gauge
# UNIT workqueue_longest_running_processor_seconds seconds
workqueue_longest_running_processor_seconds{name="pods",controller="pods"} 0.5
# HELP workqueue_retries Adds through the rate limiter.
# TYPE workqueue_retries counter
workqueue_retries_total{name="pods",controller="pods"} 1
# HELP workqueue_retry_debt_seconds How far ahead a limiter that all keys share is booked: about how long a key that fails now waits because others failed before it.
# TYPE workqueue_retry_debt_seconds gauge
# UNIT workqueue_retry_debt_seconds seconds
workqueue_retry_debt_seconds{name="pods",controller="pods"} 0.0
# EOF
"#;
    assert_eq!(scrape(&registry), expected);
    drop(running);
    queue.shut_down();
}

#[tokio::test(start_paused = true)]
async fn depth_counts_a_delay_that_ran_out_unseen() {
    let (registry, metrics) = metrics();
    let queue = queue(&metrics, "pods");
    queue.add_after("later", SECOND).expect("open");
    assert_eq!(value(&registry, "workqueue_depth"), "0");
    time::advance(SECOND).await;
    // Nobody has asked the queue for anything since.
    assert_eq!(value(&registry, "workqueue_depth"), "1");
    assert_eq!(value(&registry, "workqueue_adds_total"), "1");
    drop(queue.try_get());
    assert_eq!(value(&registry, "workqueue_depth"), "0");
}

#[tokio::test(start_paused = true)]
async fn depth_is_shown_for_each_priority_that_a_key_has_now() {
    let (registry, metrics) = metrics();
    let queue = queue(&metrics, "pods");
    let depths = || {
        let scrape = scrape(&registry);
        ["-100", "0", "100"].map(|priority| {
            let series = format!("priority=\"{priority}\"}} ");
            let line = scrape.lines().find_map(|line| line.split_once(&series));
            line.expect("every priority is shown").1.to_owned()
        })
    };
    for key in ["one", "two", "three"] {
        queue.add_with(key, Add::now().priority(Priority::Low)).expect("open");
    }
    queue.add("four").expect("open");
    assert_eq!(depths(), ["3", "1", "0"]);
    // A key that is added again may become more urgent.
    queue.add_with("one", Add::now().priority(Priority::High)).expect("open");
    assert_eq!(depths(), ["2", "1", "1"]);
    let one = queue.try_get().expect("ready");
    assert_eq!((*one.key(), depths()), ("one", ["2", "1", "0"].map(str::to_owned)));
    // Added while it runs: it is ready at its priority, although no worker may have it yet.
    queue.add_with("one", Add::now().priority(Priority::High)).expect("open");
    assert_eq!(*queue.try_get().expect("ready").key(), "four");
    assert_eq!(depths(), ["2", "0", "1"]);
    // Who has waited long moves up, when another priority would keep it from running.
    time::advance(Duration::from_hours(1)).await;
    drop(queue.try_get());
    assert_eq!(queue.load().ready_by_priority.iter().sum::<usize>(), queue.len());
    drop(one);
    while queue.try_get().is_some() {}
    assert_eq!(depths(), ["0", "0", "0"]);
}

#[tokio::test(start_paused = true)]
async fn work_under_way_grows_while_nothing_happens() {
    let (registry, metrics) = metrics();
    let queue = queue(&metrics, "pods");
    let unfinished = || value(&registry, "workqueue_unfinished_work_seconds");
    let longest = || value(&registry, "workqueue_longest_running_processor_seconds");
    queue.add("first").expect("open");
    queue.add("second").expect("open");
    let first = queue.try_get().expect("ready");
    time::advance(10 * SECOND).await;
    let second = queue.try_get().expect("ready");
    time::advance(5 * SECOND).await;
    assert_eq!((&*unfinished(), &*longest()), ("20.0", "15.0"));
    drop(first);
    assert_eq!((&*unfinished(), &*longest()), ("5.0", "5.0"));
    drop(second);
    assert_eq!((&*unfinished(), &*longest()), ("0.0", "0.0"));
}

#[tokio::test(start_paused = true)]
async fn queues_are_shown_side_by_side_in_the_order_of_their_names() {
    let (registry, metrics) = metrics();
    let _nodes = queue(&metrics, "nodes");
    let pods = queue(&metrics, "pods");
    pods.add("one").expect("open");
    let scrape = scrape(&registry);
    let adds = "workqueue_adds_total{name=\"nodes\",controller=\"nodes\"} 0\n\
                workqueue_adds_total{name=\"pods\",controller=\"pods\"} 1\n";
    assert!(scrape.contains(adds), "{scrape}");
    assert_eq!(scrape.matches("# TYPE workqueue_depth gauge").count(), 1);
    drop(pods.try_get());
}

#[tokio::test(start_paused = true)]
async fn queues_of_one_name_are_added_up() {
    let (registry, metrics) = metrics();
    let one = queue(&metrics, "pods");
    let two = queue(&metrics, "pods");
    one.add("a").expect("open");
    two.add("a").expect("open");
    let old = one.try_get().expect("ready");
    time::advance(SECOND).await;
    let new = two.try_get().expect("ready");
    time::advance(SECOND).await;
    two.add("b").expect("open");
    assert_eq!(value(&registry, "workqueue_depth"), "1");
    assert_eq!(value(&registry, "workqueue_adds_total"), "3");
    assert_eq!(value(&registry, "workqueue_unfinished_work_seconds"), "3.0");
    assert_eq!(value(&registry, "workqueue_longest_running_processor_seconds"), "2.0");

    drop(old);
    drop(one);
    assert_eq!(value(&registry, "workqueue_depth"), "1");
    assert_eq!(value(&registry, "workqueue_longest_running_processor_seconds"), "1.0");
    drop((new, two.try_get()));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_gone_is_shown_no_more() {
    let (registry, metrics) = metrics();
    let nothing = scrape(&registry);
    assert_eq!(nothing, "# EOF\n");

    let gone = queue(&metrics, "pods");
    let stays = queue(&metrics, "nodes");
    gone.add("one").expect("open");
    let lease = gone.try_get().expect("ready");
    drop(gone);
    // A lease keeps its queue: the work is still under way.
    assert_eq!(value(&registry, "workqueue_adds_total"), "1");
    drop(lease);
    let left = scrape(&registry);
    assert!(left.contains("name=\"nodes\"") && !left.contains("name=\"pods\""), "{left}");
    drop(stays);
    assert_eq!(scrape(&registry), nothing);

    // The name may be used again, and starts at zero.
    let again = queue(&metrics, "pods");
    assert_eq!(value(&registry, "workqueue_adds_total"), "0");
    drop(again);
}

#[tokio::test(start_paused = true)]
async fn an_observer_without_a_queue_is_not_shown() {
    let (registry, metrics) = metrics();
    let observer = metrics.observer("pods");
    assert_eq!(scrape(&registry), "# EOF\n");

    let with = |observer| builder().observer(observer).build().expect("valid");
    let queue = with(std::sync::Arc::clone(&observer));
    queue.add("one").expect("open");
    drop(queue.try_get());
    assert_eq!(value(&registry, "workqueue_adds_total"), "1");
    drop(queue);
    assert_eq!(scrape(&registry), "# EOF\n");

    // Whoever keeps the observer keeps its counts.
    let queue = with(observer);
    assert_eq!(value(&registry, "workqueue_adds_total"), "1");
    drop(queue);
}

#[tokio::test(start_paused = true)]
async fn retries_are_counted_when_asked_for() {
    let (registry, metrics) = metrics();
    let queue = queue(&metrics, "pods");
    queue.add_rate_limited("one").expect("open");
    queue.add_with("two", Add::rate_limited()).expect("open");
    queue.add_after("three", SECOND).expect("open");
    assert_eq!(value(&registry, "workqueue_retries_total"), "2");
    queue.shut_down();
}

#[tokio::test(start_paused = true)]
async fn debt_of_a_bucket_is_shown_and_falls_with_time() {
    let (registry, metrics) = metrics();
    let observer = metrics.observer("pods");
    let queue = WorkQueue::<u32>::builder().observer(observer).build().expect("valid");
    // One hundred at once, then ten a second.
    for key in 0..150 {
        queue.add_rate_limited(key).expect("open");
    }
    assert_eq!(value(&registry, "workqueue_retry_debt_seconds"), "5.0");
    assert_eq!(queue.load().retry_debt, 5 * SECOND);
    time::advance(2 * SECOND).await;
    assert_eq!(value(&registry, "workqueue_retry_debt_seconds"), "3.0");
    assert_eq!(queue.snapshot().retry_debt, 3 * SECOND);
    assert!(queue.snapshot().to_string().contains("retries booked 3.0s ahead"));
    time::advance(4 * SECOND).await;
    assert_eq!(value(&registry, "workqueue_retry_debt_seconds"), "0.0");
    assert!(!queue.snapshot().to_string().contains("booked"));
    queue.shut_down();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapes_and_workers_run_beside_each_other() {
    const KEYS: usize = 10_000;
    let (registry, metrics) = metrics();
    let queue = WorkQueue::<usize>::builder().observer(metrics.observer("pods")).build();
    let queue = queue.expect("valid");
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let queue = queue.clone();
        workers.spawn(async move { while queue.get().await.is_some() {} });
    }
    for key in 0..KEYS {
        queue.add(key).expect("open");
        if key % 100 == 0 {
            scrape(&registry);
        }
    }
    queue.shut_down_with_drain().await;
    workers.join_all().await;
    for metric in ["adds_total", "queue_duration_seconds_count", "work_duration_seconds_count"] {
        assert_eq!(value(&registry, &format!("workqueue_{metric}")), KEYS.to_string(), "{metric}");
    }
}

#[test]
fn names_come_out_escaped_and_under_the_prefix_and_labels_of_the_registry() {
    let mut registry = Registry::default();
    let labels = [("team".into(), "storage".into())];
    let part =
        registry.sub_registry_with_prefix("acme").sub_registry_with_labels(labels.into_iter());
    let metrics = QueueMetrics::register(part);
    let queue = queue(&metrics, "a \"quoted\" name");
    let scrape = scrape(&registry);
    let line = r#"acme_workqueue_adds_total{team="storage",name="a \"quoted\" name",controller="a \"quoted\" name"} 0"#;
    assert!(scrape.contains(line), "{scrape}");
    drop(queue);
}
