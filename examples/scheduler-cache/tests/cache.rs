//! The scheduler's caches and accounts, on the embedded server and the paused clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use demo_cluster::{Demo, DemoOptions, bind, pod_group_kind};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use scheduler_cache::{Decision, Scheduler, SchedulerCache};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;
use windlass::indexer::ObjectKey;
use windlass::informer::ClientStack;
use windlass::workqueue::WorkQueue;
use windlass_apiserver::{ApiServer, Fault, FaultRule};

/// A second is enough for everything that waits for nothing: on the paused clock it passes when all
/// is done.
const MOMENT: Duration = Duration::from_secs(1);

/// A server with two nodes, and a client.
async fn two_nodes() -> (ApiServer, Client) {
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), "default");
    for name in ["node-1", "node-2"] {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": name}})).expect("a node");
        let nodes = Api::<Node>::all(client.clone());
        nodes.create(&PostParams::default(), &node).await.expect("created");
    }
    (server, client)
}

async fn create(client: &Client, name: &str) {
    let pod =
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let pods = Api::<Pod>::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod).await.expect("created");
}

async fn started(client: &Client) -> SchedulerCache {
    let cache = SchedulerCache::new(client.clone(), None, &[]).await.expect("a cache");
    cache.start().await.expect("started");
    cache
}

/// The table, as `node: pods` and `waiting`; index and handler must agree.
async fn shown(cache: &SchedulerCache) -> String {
    sleep(MOMENT).await;
    let table = cache.table().await.expect("a table");
    assert!(table.agrees(), "{table}");
    let rows = table.rows.iter().map(|row| {
        let pods: Vec<_> = row.by_handler.iter().map(ObjectKey::name).collect();
        format!("{}: {}", row.node, pods.join(" "))
    });
    let rows: Vec<_> = rows.collect();
    format!("{}; waiting: {}", rows.join("; "), table.waiting)
}

#[tokio::test(start_paused = true)]
async fn pod_moves_from_the_waiting_to_its_node_and_leaves_when_it_has_ended() {
    let (_server, client) = two_nodes().await;
    create(&client, "early").await;
    let cache = started(&client).await;
    assert_eq!(shown(&cache).await, "node-1: ; node-2: ; waiting: 1");
    create(&client, "late").await;
    bind(&client, "default", "early", "node-2").await.expect("bound");
    assert_eq!(shown(&cache).await, "node-1: ; node-2: early; waiting: 1");
    bind(&client, "default", "late", "node-2").await.expect("bound");
    assert_eq!(shown(&cache).await, "node-1: ; node-2: early late; waiting: 0");

    // The pod is still there, but not for a scheduler: the field selector leaves it out.
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    let pods = Api::<Pod>::default_namespaced(client.clone());
    pods.patch_status("early", &PatchParams::default(), &ended).await.expect("patched");
    assert_eq!(shown(&cache).await, "node-1: ; node-2: late; waiting: 0");
    assert_eq!(cache.assigned().tombstones(), 0);
    cache.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_that_nobody_watched_is_found_out() {
    let (server, client) = two_nodes().await;
    for name in ["gone", "moved", "stays"] {
        create(&client, name).await;
        bind(&client, "default", name, "node-1").await.expect("bound");
    }
    let cache = started(&client).await;
    assert_eq!(shown(&cache).await, "node-1: gone moved stays; node-2: ; waiting: 0");

    // Watches end and fail, history is forgotten, and two pods go; one comes back on the other
    // node.
    let refuse = FaultRule::new(Fault::Fail { code: 503, retry_after: None }).verb("watch");
    let rule = server.faults().add(refuse);
    server.restore(&server.snapshot());
    let pods = Api::<Pod>::default_namespaced(client.clone());
    for name in ["gone", "moved"] {
        pods.delete(name, &DeleteParams::default().grace_period(0)).await.expect("deleted");
    }
    create(&client, "moved").await;
    bind(&client, "default", "moved", "node-2").await.expect("bound");
    server.compact();
    server.faults().remove(rule);

    sleep(Duration::from_mins(2)).await;
    assert_eq!(shown(&cache).await, "node-1: stays; node-2: moved; waiting: 0");
    assert!(cache.assigned().tombstones() > 0);
    cache.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_together_go_to_different_nodes() {
    let (_server, client) = two_nodes().await;
    let queue = WorkQueue::new();
    let cache = SchedulerCache::new(client.clone(), Some(queue.clone()), &[]).await;
    let cache = Arc::new(cache.expect("a cache"));
    for name in ["one", "three", "two"] {
        create(&client, name).await;
    }
    cache.start().await.expect("started");
    let scheduler = Scheduler::new(client, Arc::clone(&cache), queue);
    let mut decisions = Vec::new();
    for name in ["one", "three", "two"] {
        let key = ObjectKey::namespaced("default", name);
        // Without a moment for the cache to catch up.
        decisions.push(scheduler.schedule(&key).await.expect("scheduled"));
    }
    let assigned = |node: &str, pods| Decision::Assigned(node.to_owned(), pods);
    assert_eq!(decisions, [assigned("node-1", 0), assigned("node-2", 0), assigned("node-1", 1)]);
    assert_eq!(shown(&cache).await, "node-1: one two; node-2: three; waiting: 0");
    let key = ObjectKey::namespaced("default", "one");
    assert_eq!(scheduler.schedule(&key).await.expect("scheduled"), Decision::Over);
    cache.shut_down().await;
}

/// Lets a demo cluster live with its scheduler, and compares what is known in the end with what is
/// there.
async fn accounts_are_right_after_a_life(options: DemoOptions) -> u64 {
    let demo = Demo::start(options.without_scheduler()).await.expect("a cluster");
    let client = demo.client();
    let queue = WorkQueue::new();
    let cache = SchedulerCache::new(client.clone(), Some(queue.clone()), &[pod_group_kind()]).await;
    let cache = Arc::new(cache.expect("a cache"));
    cache.start().await.expect("started");
    let mut tasks = JoinSet::new();
    let scheduler = Scheduler::new(client.clone(), Arc::clone(&cache), queue.clone());
    tasks.spawn(async move { scheduler.run().await });
    for _ in 0..20 {
        sleep(Duration::from_secs(15)).await;
        let table = cache.table().await.expect("a table");
        assert!(table.agrees(), "{table}");
    }
    demo.end().await.expect("a life without failures");
    sleep(Duration::from_mins(2)).await;
    queue.shut_down();
    tasks.join_all().await;

    let mut there = BTreeMap::<String, Vec<String>>::new();
    let pods = Api::<Pod>::all(client).list(&ListParams::default()).await.expect("a list");
    for pod in pods {
        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
        let node = pod.spec.and_then(|spec| spec.node_name);
        if let (Some(node), false) = (node, ["Succeeded", "Failed"].contains(&phase.as_str())) {
            there.entry(node).or_default().push(pod.metadata.name.unwrap_or_default());
        }
    }
    let held = cache
        .assigned()
        .nodes()
        .into_iter()
        .map(|(node, pods)| (node, pods.iter().map(|pod| pod.name().to_owned()).collect()));
    assert_eq!(held.collect::<BTreeMap<_, Vec<_>>>(), there);
    assert!(cache.table().await.expect("a table").agrees());
    let tombstones = cache.assigned().tombstones();
    cache.shut_down().await;
    tombstones
}

#[tokio::test(start_paused = true)]
async fn accounts_are_right_after_five_minutes() {
    assert_eq!(accounts_are_right_after_a_life(DemoOptions::new().seed(1)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn accounts_are_right_after_outages() {
    let options = DemoOptions::new().seed(2).outages(true);
    assert!(accounts_are_right_after_a_life(options).await > 5);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_group_wait_for_it() {
    let demo = Demo::start(DemoOptions::new().without_scheduler()).await.expect("a cluster");
    let client = demo.client();
    demo.end().await.expect("a life without failures");
    let queue = WorkQueue::new();
    let cache = SchedulerCache::new(client.clone(), Some(queue.clone()), &[pod_group_kind()]).await;
    let cache = Arc::new(cache.expect("a cache"));
    cache.start().await.expect("started");
    let scheduler = Scheduler::new(client, Arc::clone(&cache), queue.clone());
    let key = ObjectKey::namespaced("batch", "report-3");
    let decision = scheduler.schedule(&key).await.expect("scheduled");
    assert_eq!(decision, Decision::Waits("batch/report".to_owned()));
    cache.shut_down().await;
    queue.shut_down();
}
