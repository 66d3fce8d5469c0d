//! What the program logs, on the embedded server and the paused clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use demo_cluster::{Demo, DemoOptions, bind};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use pod_logger::{Log, Options, Summary, run};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass::informer::ClientStack;
use windlass_apiserver::ApiServer;

const MINUTE: Duration = Duration::from_mins(1);

/// A second is enough for everything that waits for nothing: on the paused clock it passes when all
/// is done.
const MOMENT: Duration = Duration::from_secs(1);

/// Lines, in the order in which they were logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn log(&self) -> Log {
        let lines = Arc::clone(&self.0);
        Arc::new(move |line: &str| lines.lock().expect("no panic").push(line.to_owned()))
    }

    /// What was logged since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

/// Runs the program for as long as `meanwhile` takes.
async fn log_while(client: Client, lines: &Lines, meanwhile: impl Future<Output = ()>) -> Summary {
    let stop = CancellationToken::new();
    let options = Options { namespace: None, resync: MINUTE };
    let meanwhile = async {
        meanwhile.await;
        stop.cancel();
    };
    let (summary, ()) = tokio::join!(run(client, options, lines.log(), stop.clone()), meanwhile);
    summary.expect("it ends well")
}

fn pod(name: &str) -> Pod {
    let pod =
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    serde_json::from_value(pod).expect("a pod")
}

#[tokio::test(start_paused = true)]
async fn life_of_a_pod_is_logged() {
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), "default");
    let pods = Api::<Pod>::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("early")).await.expect("created");
    let lines = Lines::default();
    let summary = log_while(client.clone(), &lines, async {
        sleep(MOMENT).await;
        assert_eq!(
            lines.take(),
            [
                "New Pod Added to Store: default/early (Pending, on no node yet)",
                "The cache is complete: what is above was there before (pods: 1). Now come changes.",
            ]
        );

        pods.create(&PostParams::default(), &pod("late")).await.expect("created");
        bind(&client, "default", "late", "node-1").await.expect("bound");
        let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
        pods.patch_status("late", &PatchParams::default(), &running).await.expect("patched");
        pods.delete("late", &DeleteParams::default()).await.expect("deleted");
        pods.delete("late", &DeleteParams::default().grace_period(0)).await.expect("deleted");
        sleep(MOMENT).await;
        let logged = lines.take();
        let expected = [
            "New Pod Added to Store: default/late (Pending, on no node yet)",
            "Pod Updated: default/late (assigned to node-1)",
            "Pod Updated: default/late (Pending → Running)",
            "Pod Updated: default/late (it is to be deleted)",
        ];
        assert_eq!(logged[..4], expected);
        assert_eq!(logged.last().expect("lines"), "Pod Deleted from Store: default/late");

        sleep(MINUTE).await;
        assert_eq!(
            lines.take(),
            ["Resync: the cache shows all of its pods again (1). None has changed, and the server was not asked."]
        );
    })
    .await;
    assert_eq!((summary.tally.added, summary.tally.deleted, summary.tally.resynced), (2, 1, 1));
    assert_eq!(summary.held, 1);
}

#[tokio::test(start_paused = true)]
async fn one_namespace_can_be_chosen() {
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), "default");
    for namespace in ["default", "kube-system"] {
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        pods.create(&PostParams::default(), &pod("one")).await.expect("created");
    }
    let (lines, stop) = (Lines::default(), CancellationToken::new());
    let options = Options { namespace: Some("kube-system".to_owned()), resync: MINUTE };
    let ended = async {
        sleep(MOMENT).await;
        stop.cancel();
    };
    let (summary, ()) = tokio::join!(run(client, options, lines.log(), stop.clone()), ended);
    assert_eq!(summary.expect("it ends well").held, 1);
    assert!(lines.take()[0].starts_with("New Pod Added to Store: kube-system/one"));
}

/// Who reads the log knows the pods that are there. Returns the summary, and how many deletions
/// nobody watched.
async fn log_tells_what_is_there(options: DemoOptions) -> (Summary, usize) {
    let demo = Demo::start(options).await.expect("a cluster");
    let client = demo.client();
    let lines = Lines::default();
    let summary = log_while(client.clone(), &lines, async {
        sleep(5 * MINUTE).await;
        demo.end().await.expect("a life without failures");
        sleep(MINUTE).await;
    })
    .await;
    let (mut known, mut tombstones) = (BTreeSet::new(), 0);
    for line in lines.take() {
        if let Some(added) = line.strip_prefix("New Pod Added to Store: ") {
            let key = added.split(' ').next().unwrap_or_default();
            assert!(known.insert(key.to_owned()), "twice: {line}");
        } else if let Some(deleted) = line.strip_prefix("Pod Deleted from Store: ") {
            let key = deleted.split(' ').next().unwrap_or_default();
            assert!(known.remove(key), "unknown: {line}");
            tombstones += usize::from(deleted.contains("while nobody watched"));
        }
    }
    let there = Api::<Pod>::all(client).list(&ListParams::default()).await.expect("a list");
    let key = |pod: &Pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    assert_eq!(known, there.items.iter().map(key).collect());
    assert_eq!(summary.held, known.len());
    (summary, tombstones)
}

#[tokio::test(start_paused = true)]
async fn log_of_the_demo_tells_what_is_there() {
    let (Summary { tally, .. }, tombstones) =
        log_tells_what_is_there(DemoOptions::new().seed(1)).await;
    assert!(tally.added > 50 && tally.deleted > 50 && tally.resynced > 5, "{tally:?}");
    assert_eq!(tombstones, 0);
}

#[tokio::test(start_paused = true)]
async fn log_of_a_demo_with_outages_tells_what_is_there() {
    let (_, tombstones) = log_tells_what_is_there(DemoOptions::new().seed(2).outages(true)).await;
    assert!(tombstones > 5, "{tombstones}");
}
