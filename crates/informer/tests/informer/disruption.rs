//! A real control plane that is killed, paused and taken back in time under a load of writes: every
//! handler ends with what the server has.
//!
//! Each test has a cluster of its own. They need a real one, and are skipped unless that was asked
//! for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_indexer::ByLabel;
use windlass_informer::observe::{Observation, Observer};
use windlass_informer::{
    BackoffConfig, ClientStack, Handler as _, InformerOptions, ReflectorConfig, Registration,
    Resource, SharedInformer, SharedInformerFactory, filtered,
};
use windlass_testserver::{ControlPlane, ControlPlaneOptions};

use crate::replica::{Content, PATIENCE, Replica, cache_of, difference, server_has};

const NAMESPACE: &str = "default";
const NAMES: usize = 40;
const TEAMS: [&str; 3] = ["red", "blue", "green"];

/// A cluster, writers, an informer and its handlers.
struct Scene {
    cluster: ControlPlane,
    api: Api<ConfigMap>,
    load: Load,
    factory: SharedInformerFactory,
    informer: SharedInformer<ConfigMap>,
    steps: Steps,
    replicas: Vec<Replica>,
    /// Of red objects only.
    filtered: Replica,
    tasks: JoinSet<()>,
}

/// Writers that go on until they are told to stop, whatever the server says to them.
struct Load {
    stop: Arc<AtomicBool>,
    /// How long each writer waits between two writes, in milliseconds.
    pause: Arc<AtomicU64>,
    /// Writes that the server has answered with yes.
    written: watch::Sender<u64>,
    writers: JoinSet<()>,
}

/// Counts what the informer goes through, so that others can wait for it.
#[derive(Clone, Debug, Default)]
struct Steps {
    failures: watch::Sender<u64>,
    restored: watch::Sender<u64>,
}

impl Observer for Steps {
    fn observe(&self, _: &Resource, observation: &Observation<'_>) {
        match observation {
            Observation::Failed { .. } => self.failures.send_modify(|count| *count += 1),
            Observation::Listed { is_restored: true, .. } => {
                self.restored.send_modify(|count| *count += 1);
            }
            _ => {}
        }
    }
}

/// Waits until `count` has grown by so much from now on.
async fn more(count: &watch::Sender<u64>, by: u64, what: &str) {
    let mut count = count.subscribe();
    let wanted = *count.borrow() + by;
    let grown = count.wait_for(|count| *count >= wanted);
    let grown = tokio::time::timeout(PATIENCE, grown).await;
    assert!(grown.is_ok(), "waited in vain for {what}");
}

impl Load {
    fn start(cluster: &ControlPlane) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            // A steady load, and not all that the machine can do.
            pause: Arc::new(AtomicU64::new(3)),
            written: watch::Sender::new(0),
            writers: JoinSet::new(),
        };
        for seed in 0..2 {
            let api = Api::namespaced(cluster.client().expect("a client"), NAMESPACE);
            let stop = Arc::clone(&load.stop);
            let pause = Arc::clone(&load.pause);
            load.writers.spawn(write(api, seed, stop, pause, load.written.clone()));
        }
        load
    }

    async fn goes_on(&self) {
        more(&self.written, 100, "writes").await;
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.writers.join_all().await;
    }
}

/// Creates, changes and deletes, and takes no offence.
async fn write(
    api: Api<ConfigMap>,
    seed: u64,
    stop: Arc<AtomicBool>,
    pause: Arc<AtomicU64>,
    written: watch::Sender<u64>,
) {
    let mut random = Rng::with_seed(seed);
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let name = format!("c{}", random.usize(..NAMES));
        let team = TEAMS[random.usize(..TEAMS.len())];
        let object = json!({
            "metadata": {"name": name, "labels": {"team": team}},
            "data": {"writer": seed.to_string(), "number": number.to_string()},
        });
        let answer = match random.u8(..10) {
            0 | 1 => api.delete(&name, &DeleteParams::default()).await.map(drop),
            2..5 => {
                let object = serde_json::from_value(object).expect("a config map");
                api.create(&PostParams::default(), &object).await.map(drop)
            }
            _ => api.patch(&name, &PatchParams::default(), &Patch::Merge(object)).await.map(drop),
        };
        if answer.is_ok() {
            written.send_modify(|count| *count += 1);
        }
        tokio::time::sleep(Duration::from_millis(pause.load(Ordering::Relaxed))).await;
    }
}

impl Scene {
    async fn start() -> Self {
        // So long an API server that is told to end waits for watches.
        let options = ControlPlaneOptions::new().apiserver_flag("--request-timeout=5s");
        let cluster = ControlPlane::start(options).await.expect("a cluster");
        let client = ClientStack::new().connect(cluster.config()).expect("a client");
        let api = Api::namespaced(cluster.client().expect("a client"), NAMESPACE);
        let steps = Steps::default();
        // What takes minutes on a large scale takes seconds here.
        let backoff = BackoffConfig { max: Duration::from_secs(1), ..BackoffConfig::default() };
        let reflector = ReflectorConfig {
            backoff,
            outage_silence: Duration::from_secs(1),
            stall: Duration::from_secs(5),
            ..ReflectorConfig::default()
        };
        let options = InformerOptions::new()
            .namespace(NAMESPACE)
            .label_selector("team")
            .reflector(reflector)
            .merge_above(20)
            .index(ByLabel::all())
            .observer(Arc::new(steps.clone()));
        let factory = SharedInformerFactory::builder(client).defaults(options).build();
        let informer = factory.informer::<ConfigMap>().expect("an informer");
        let mut scene = Self {
            load: Load::start(&cluster),
            cluster,
            api,
            factory,
            informer,
            steps,
            replicas: Vec::new(),
            filtered: Replica::new("filtered"),
            tasks: JoinSet::new(),
        };
        scene.add_handler("normal");
        scene.add_slow_handler();
        let is_red = |object: &windlass_indexer::Cached<ConfigMap>| {
            object.head().labels().get("team") == Some("red")
        };
        let red = filtered(is_red, scene.filtered.clone());
        scene.informer.add_handler(red).expect("it has not stopped");
        scene.factory.start();
        scene.factory.wait_for_sync().await.expect("synced");
        scene.load.goes_on().await;
        scene
    }

    fn add_handler(&mut self, name: &'static str) -> Registration {
        let replica = Replica::new(name);
        self.replicas.push(replica.clone());
        self.informer.add_handler(replica).expect("it has not stopped")
    }

    /// One that takes longer for an event than there is between two.
    fn add_slow_handler(&mut self) {
        let mut events = self.informer.subscribe().expect("it has not stopped");
        let mut replica = Replica::new("slow");
        self.replicas.push(replica.clone());
        self.tasks.spawn(async move {
            while let Some(event) = events.next().await {
                replica.handle(event);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }

    /// Everything still works: writes are answered, and a handler hears of them.
    async fn works(&self) {
        self.load.goes_on().await;
        more(&self.events(), 20, "events").await;
    }

    fn events(&self) -> watch::Sender<u64> {
        self.replicas[0].count().clone()
    }

    /// The load ends; then all have what the server has. Versions went back `restores` times at
    /// most.
    async fn settle(mut self, restores: u64) {
        self.add_handler("last");
        let Self { load, mut tasks, .. } = self;
        load.stop().await;
        let params = ListParams::default().labels("team");
        let wanted = server_has(&self.api, &params).await.expect("a list");
        assert!(wanted.len() > NAMES / 4, "the load has left something");
        for replica in &self.replicas {
            replica.becomes(&wanted).await;
        }
        let is_red = |object: &serde_json::Value| object["metadata"]["labels"]["team"] == "red";
        let red: Content =
            wanted.clone().into_iter().filter(|(_, object)| is_red(object)).collect();
        self.filtered.becomes(&red).await;
        let cache = cache_of(&self.informer);
        assert!(cache == wanted, "the cache differs: {}", difference(&cache, &wanted));
        let by_label = self.informer.lister().by_label("team", "red").expect("an index");
        assert_eq!(by_label.heads().count(), red.len());

        let status = self.informer.status();
        for replica in self.replicas.iter().chain([&self.filtered]) {
            assert_eq!(replica.broken(), Vec::<String>::new(), "{}", replica.name());
            assert!(replica.went_back() <= restores, "{}: {status:#?}", replica.name());
        }
        assert_eq!(status.feeds[0].counts.restored, restores, "{status:#?}");
        self.factory.shut_down().await;
        while tasks.join_next().await.is_some() {}
    }
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn handlers_end_with_the_servers_state_when_the_apiserver_is_killed_and_comes_back() {
    let mut scene = Scene::start().await;
    for round in 0..2 {
        let failure = scene.steps.failures.subscribe();
        scene.cluster.kill_apiserver().expect("it runs");
        assert!(wait_for_change(failure).await, "the informer does not notice");
        scene.cluster.start_apiserver().await.expect("it comes back");
        scene.works().await;
        if round == 0 {
            scene.add_handler("late");
        }
    }
    // In good order, as an upgrade does.
    scene.cluster.stop_apiserver().await.expect("it ends");
    scene.cluster.start_apiserver().await.expect("it comes back");
    scene.works().await;
    scene.settle(0).await;
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn handlers_end_with_the_servers_state_when_etcd_is_killed_and_comes_back() {
    let mut scene = Scene::start().await;
    for round in 0..2 {
        scene.cluster.kill_etcd().expect("it runs");
        if round == 1 {
            // Both are gone at once.
            scene.cluster.kill_apiserver().expect("it runs");
        }
        scene.cluster.start_etcd().await.expect("it comes back");
        if round == 1 {
            scene.cluster.start_apiserver().await.expect("it comes back");
        }
        scene.cluster.ready().await.expect("it is well again");
        scene.works().await;
        if round == 0 {
            scene.add_handler("late");
        }
    }
    scene.settle(0).await;
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn handlers_end_with_the_servers_state_when_servers_stand_still_for_a_while() {
    let mut scene = Scene::start().await;
    let still = Duration::from_secs(3);
    scene.cluster.pause_apiserver().expect("it runs");
    tokio::time::sleep(still).await;
    scene.cluster.resume_apiserver().expect("it runs");
    scene.works().await;
    scene.add_handler("late");
    scene.cluster.pause_etcd().expect("it runs");
    tokio::time::sleep(still).await;
    scene.cluster.resume_etcd().expect("it runs");
    scene.cluster.ready().await.expect("it is well again");
    scene.works().await;
    scene.settle(0).await;
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn handlers_end_with_the_servers_state_when_etcd_is_restored_from_a_snapshot() {
    let mut scene = Scene::start().await;
    let snapshot = scene.cluster.etcd_snapshot().await.expect("a snapshot");
    for _ in 0..10 {
        scene.load.goes_on().await;
    }
    // If as much is written again as was undone before the informer looks, nobody can tell the
    // difference.
    scene.load.pause.store(200, Ordering::Relaxed);
    let restored = scene.steps.restored.subscribe();
    scene.cluster.restore(&snapshot).await.expect("it comes back");
    let noticed = wait_for_change(restored).await;
    assert!(noticed, "the informer does not notice: {:#?}", scene.informer.status());
    scene.load.pause.store(3, Ordering::Relaxed);
    scene.add_handler("late");
    scene.works().await;
    scene.settle(1).await;
}

/// Waits for more than there was when this was subscribed. Says whether it came.
async fn wait_for_change(mut count: watch::Receiver<u64>) -> bool {
    tokio::time::timeout(PATIENCE, count.changed()).await.is_ok()
}
