//! A controller that takes over from another process, while the server refuses to list a kind.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::service_fn;
use windlass_indexer::ObjectKey;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Action, Controller, Reconcile, RunContext, Watch};
use windlass_testserver::Log;
use windlass_testserver::apiserver::{Fault, FaultRule};

use crate::stage::{api, cluster, does, noting, taken};

/// Longer than the time between two tries to check a cache.
const RETRIED: Duration = Duration::from_mins(1);

/// Makes a Secret, and says whether a cache may be behind.
fn maker(said: mpsc::Sender<bool>) -> impl Reconcile<ConfigMap> {
    does(move |owner: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let child = json!({"metadata": {"name": "child"}});
            let child: Secret = serde_json::from_value(child).expect("an object");
            cx.children(&owner).apply(child).prune().await?;
            said.send(cx.cache_behind()).await?;
            Ok(Action::done())
        })
    })
}

/// A controller whose caches are complete.
async fn synced(client: Client, reconciler: impl Reconcile<ConfigMap>) -> Controller<ConfigMap> {
    let secrets = Watch::<Secret>::new().options(|options| options.namespace("default"));
    let maps = Watch::<ConfigMap>::new().options(|options| options.namespace("default"));
    let controller = Controller::named("shops", maps).owns(secrets).reads(Watch::<Service>::new());
    let controller = controller.build(&SharedInformerFactory::new(client), reconciler);
    let controller = controller.expect("a controller");
    controller.wait_for_sync().await.expect("it syncs");
    controller
}

async fn touch(client: &Client, value: &str) {
    let patch = Patch::Merge(json!({"data": {"is": value}}));
    api(client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
}

fn refused(plural: &str) -> FaultRule {
    let refused = Fault::Fail { code: 403, retry_after: None };
    FaultRule::new(refused).verb("list").resource(plural)
}

#[tokio::test(start_paused = true)]
async fn cache_that_cannot_be_checked_leaves_the_others_in_use() {
    let log = Log::start();
    let (cluster, client) = cluster().await;
    let (noted, sent) = noting(&client);
    let (said, mut runs) = mpsc::channel(100);
    let controller = Arc::new(synced(noted, maker(said)).await);
    let faults = cluster.server().expect("it is embedded").faults();
    let refused = faults.add(refused("services"));
    let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
    let (runner, token) = (Arc::clone(&controller), stop.clone());
    tasks.spawn(async move { runner.take_over(token).await });
    assert!(runs.recv().await.expect("a run"));
    controller.queue().wait_idle().await;
    let begun = log.lines_with("runs begin although");
    assert!(begun.len() == 1 && begun[0].contains("services"), "{begun:?}");
    assert!(!begun[0].contains("secrets"), "{begun:?}");
    // Whatever the event of the Secret has caused.
    while runs.try_recv().is_ok() {}
    taken(&sent);

    touch(&client, "changed").await;
    assert!(runs.recv().await.expect("a run"));
    controller.queue().wait_idle().await;
    let mut requests = taken(&sent);
    requests.retain(|request| request != "GET services");
    assert!(requests.is_empty(), "the Secret is known to be as it should be: {requests:?}");

    faults.remove(refused).expect("it is there");
    sleep(RETRIED).await;
    touch(&client, "again").await;
    assert!(!runs.recv().await.expect("a run"));
    stop.cancel();
    tasks.join_next().await.expect("it ran").expect("no panic").expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn caches_that_cannot_be_checked_are_not_all_tried_again_at_the_same_time() {
    let (cluster, client) = cluster().await;
    let tries: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let asked = Arc::clone(&tries);
    let client = Client::new(
        service_fn(move |request: Request<Body>| {
            asked.lock().expect("not poisoned").push(Instant::now());
            let client = client.clone();
            async move { client.send(request).await }
        }),
        "default",
    );
    let controller = synced(client, maker(mpsc::channel(100).0)).await;
    let faults = cluster.server().expect("it is embedded").faults();
    for plural in ["configmaps", "secrets", "services"] {
        faults.add(refused(plural));
    }
    tries.lock().expect("not poisoned").clear();
    // Before the first run.
    let took_over = controller.take_over(CancellationToken::new());
    timeout(Duration::from_secs(4), took_over).await.expect_err("it waits");
    let tries = tries.lock().expect("not poisoned");
    let times: BTreeSet<_> = tries.iter().collect();
    // The three first ones are at the same time.
    assert!(tries.len() >= 12 && times.len() + 2 >= tries.len(), "{tries:?}");
}

/// Watches of the same kind share its informer.
#[tokio::test(start_paused = true)]
async fn cache_of_several_watches_is_checked_once() {
    let (_cluster, client) = cluster().await;
    let (noted, sent) = noting(&client);
    let (said, mut runs) = mpsc::channel(100);
    let secrets = || Watch::<Secret>::new().options(|options| options.namespace("default"));
    let maps = Watch::<ConfigMap>::new().options(|options| options.namespace("default"));
    let builder = Controller::named("shops", maps).owns(secrets());
    let builder = builder.watches(secrets(), |_| None::<ObjectKey>).reads(secrets());
    let controller = builder.build(&SharedInformerFactory::new(noted), maker(said));
    let controller = controller.expect("a controller");
    controller.wait_for_sync().await.expect("it syncs");
    taken(&sent);
    let stop = CancellationToken::new();
    let story = async {
        assert!(!runs.recv().await.expect("a run"), "all of them have caught up");
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(controller.take_over(stop.clone()), story);
    ended.expect("it stops");
    let lists = taken(&sent).into_iter().filter(|request| request == "GET secrets").count();
    assert_eq!(lists, 1);
}
