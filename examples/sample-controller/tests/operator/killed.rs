//! Kill -9: the program is killed again and again while it works on a thousand Foos, and started
//! again. What is there in the end is what would be there if nobody had killed it.
//!
//! When it is killed is drawn from a seed, and counted in what it has done, not in time: a kill can
//! hit between any two of its writes.

#![expect(clippy::disallowed_names, reason = "a Foo is what the original calls it")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{available, foo, is_owned_by, replicas, with_foos};
use fastrand::Rng;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use sample_controller::Foo;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::process::{Child, Command};
use windlass::informer::{Event, Scope, SharedInformerFactory};
use windlass_apiserver::{Kubeconfig, Listening};
use windlass_testing::TestCluster;
use windlass_testing::testserver::TestServer;

/// How many Foos there are.
const FOOS: usize = 1000;

/// How often the program is killed in each act.
const KILLS: usize = 4;

/// Says what to draw from, instead of [`SEED`].
const SEED_VARIABLE: &str = "SAMPLE_CONTROLLER_SEED";
const SEED: u64 = 6;

/// Beyond this something hangs. It bounds a failure, and asserts nothing: it takes a few seconds.
const HANGS_AFTER: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_points_it_ends_right_and_nothing_is_doubled() {
    let seed = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("to replay: {SEED_VARIABLE}={seed} cargo test -p sample-controller killed::");
    let play = async {
        let mut play = Play::begin(seed).await;
        play.deployments_are_made().await;
        play.the_world_changes_while_it_is_dead().await;
        play.deployments_are_changed().await;
        play.check().await;
    };
    tokio::time::timeout(HANGS_AFTER, play).await.expect("it comes to an end");
}

/// A cluster, its Foos, and a program that is killed.
struct Play {
    rng: Rng,
    cluster: TestCluster,
    client: Client,
    factory: SharedInformerFactory,
    /// How many replicas each Foo asks for, by its name.
    wanted: BTreeMap<String, i32>,
    /// How many times the Deployment of each Foo had to be written.
    generations: BTreeMap<String, i64>,
    // Both end with the play.
    kubeconfig: Kubeconfig,
    _listening: Listening,
}

impl Play {
    async fn begin(seed: u64) -> Self {
        let cluster = with_foos(TestCluster::embedded()).await;
        let (client, test_cluster) = (cluster.client(), cluster.test_server());
        let server = test_cluster.and_then(TestServer::server).expect("it is embedded");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listening = server.listen(address).await.expect("a port");
        let kubeconfig = listening.temporary_kubeconfig(None).expect("written");
        let factory = SharedInformerFactory::new(client.clone());
        let mut play = Self {
            rng: Rng::with_seed(seed),
            cluster,
            client,
            factory,
            wanted: BTreeMap::new(),
            generations: BTreeMap::new(),
            kubeconfig,
            _listening: listening,
        };
        for number in 0..FOOS {
            play.create(&format!("foo-{number}")).await;
        }
        play
    }

    fn foos(&self) -> Api<Foo> {
        Api::default_namespaced(self.client.clone())
    }

    async fn create(&mut self, name: &str) {
        let replicas = self.rng.i32(1..=10);
        self.cluster.create(&foo(name, name, Some(replicas))).await;
        self.wanted.insert(name.to_owned(), replicas);
        self.generations.insert(name.to_owned(), 1);
    }

    /// The first act: from nothing to a Deployment for each Foo.
    async fn deployments_are_made(&mut self) {
        self.kill_on_the_way(0).await;
        let _survivor = start(self.kubeconfig.path());
        self.until_right(self.wanted.len()).await;
    }

    /// What it has to find out when it is back: Foos that are gone, new ones, and others that ask
    /// for something else.
    async fn the_world_changes_while_it_is_dead(&mut self) {
        for number in 0..FOOS {
            let name = format!("foo-{number}");
            match number % 10 {
                0 => {
                    self.foos().delete(&name, &DeleteParams::default()).await.expect("deleted");
                    self.wanted.remove(&name);
                    self.create(&format!("late-{number}")).await;
                }
                1..5 => self.scale(&name).await,
                _ => {}
            }
        }
    }

    async fn scale(&mut self, name: &str) {
        let wanted = self.wanted.get_mut(name).expect("it is there");
        // Another number than before, from 1 to 10.
        *wanted = (*wanted + self.rng.i32(0..9)) % 10 + 1;
        let patch = Patch::Merge(json!({"spec": {"replicas": *wanted}}));
        self.foos().patch(name, &PatchParams::default(), &patch).await.expect("patched");
        self.generations.insert(name.to_owned(), 2);
    }

    /// The second act: it repairs what has changed, and is left alone in the end.
    async fn deployments_are_changed(&mut self) {
        let right = self.right_now().await;
        self.kill_on_the_way(right).await;
        let _survivor = start(self.kubeconfig.path());
        self.until_right(self.wanted.len()).await;
        let has_status = |foo: &Foo| available(foo).is_some();
        until_so_many(&self.factory, self.wanted.len(), has_status).await;
    }

    /// Starts it and kills it when so many Deployments are right, several times. `right` of them
    /// are before that.
    async fn kill_on_the_way(&mut self, right: usize) {
        let mut points: Vec<usize> =
            (0..KILLS).map(|_| self.rng.usize(right..self.wanted.len())).collect();
        points.sort_unstable();
        for point in points {
            let mut child = start(self.kubeconfig.path());
            self.until_right(point).await;
            assert_eq!(child.try_wait().expect("a child"), None, "it ended by itself");
            // That is SIGKILL.
            child.kill().await.expect("killed");
        }
    }

    /// Waits until so many Deployments are as their Foos say.
    async fn until_right(&self, number: usize) {
        let is_right =
            |made: &Deployment| replicas(made) == self.wanted.get(&made.name_any()).copied();
        until_so_many(&self.factory, number, is_right).await;
    }

    async fn right_now(&self) -> usize {
        let deployments = self.deployments().await;
        deployments
            .iter()
            .filter(|made| replicas(made) == self.wanted.get(&made.name_any()).copied())
            .count()
    }

    async fn deployments(&self) -> Vec<Deployment> {
        let api = Api::<Deployment>::all(self.client.clone());
        api.list(&ListParams::default()).await.expect("a list").items
    }

    /// What must be there, and nothing else.
    async fn check(&self) {
        let foos = self.foos().list(&ListParams::default()).await.expect("a list").items;
        let foos: BTreeMap<String, Foo> =
            foos.into_iter().map(|foo| (foo.name_any(), foo)).collect();
        assert!(foos.keys().eq(self.wanted.keys()));
        let deployments = self.deployments().await;
        let names: BTreeSet<String> = deployments.iter().map(ResourceExt::name_any).collect();
        assert!(names.iter().eq(self.wanted.keys()), "a Deployment for each Foo, and no other");
        assert_eq!(deployments.len(), names.len());
        for deployment in &deployments {
            let name = deployment.name_any();
            let foo = &foos[&name];
            assert_eq!(deployment.namespace().as_deref(), Some(self.cluster.namespace()));
            assert_eq!(replicas(deployment), Some(self.wanted[&name]), "{name}");
            assert!(is_owned_by(deployment, foo), "{name}: {:?}", deployment.owner_references());
            assert_eq!(available(foo), Some(0), "{name}");
            // Its spec was written as often as it had to be, and not once more.
            assert_eq!(deployment.metadata.generation, Some(self.generations[&name]), "{name}");
        }
    }
}

/// The program, on the cluster of the test.
fn start(kubeconfig: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_sample-controller"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env("RUST_LOG", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts")
}

/// Waits until it is so of that many objects.
async fn until_so_many<K>(
    factory: &SharedInformerFactory,
    number: usize,
    is_so: impl Fn(&K) -> bool,
) where
    K: Resource<DynamicType = (), Scope: Scope> + DeserializeOwned + Send + Sync + 'static,
{
    let informer = factory.informer::<K>().expect("an informer");
    factory.start();
    let mut events = informer.subscribe().expect("it runs");
    let mut those = BTreeSet::new();
    while those.len() < number {
        let event = events.next().await.expect("it runs");
        let object = event.object();
        let is_there = !matches!(event, Event::Deleted { .. });
        if is_there && is_so(&*object.get().expect("it decodes")) {
            those.insert(object.key().clone());
        } else {
            those.remove(object.key());
        }
    }
}
