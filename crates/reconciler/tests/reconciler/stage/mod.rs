//! A controller at work on an embedded cluster, written as a closure, and its log lines.
#![allow(dead_code, reason = "every test file uses another part of it")]

pub(crate) mod reading;
pub(crate) mod runs;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_informer::{ClientStack, Event, SharedInformerFactory};
use windlass_reconciler::{
    Action, Controller, ControllerBuilder, Error, Predicate, Reconcile, RunContext, RunError, Watch,
};
use windlass_testserver::TestServer;

pub(crate) type Called<'a> = Pin<Box<dyn Future<Output = Result<Action, Error>> + Send + 'a>>;

/// A reconciler that is a closure.
pub(crate) struct Does<F>(F);

impl<K, F> Reconcile<K> for Does<F>
where
    K: Send + Sync + 'static,
    F: for<'a> Fn(Arc<K>, &'a RunContext) -> Called<'a> + Send + Sync + 'static,
{
    async fn reconcile(&self, object: Arc<K>, cx: &RunContext) -> Result<Action, Error> {
        (self.0)(object, cx).await
    }
}

/// A reconciler of `ConfigMaps` from an async closure body.
pub(crate) fn does<F>(body: F) -> Does<F>
where
    F: for<'a> Fn(Arc<ConfigMap>, &'a RunContext) -> Called<'a> + Send + Sync + 'static,
{
    Does(body)
}

/// A controller that runs.
pub(crate) struct Running {
    pub(crate) controller: Arc<Controller<ConfigMap>>,
    pub(crate) factory: SharedInformerFactory,
    stop: CancellationToken,
    task: tokio::task::JoinSet<Result<(), RunError>>,
}

/// Runs a controller of `ConfigMaps`.
pub(crate) fn run(client: Client, reconciler: impl Reconcile<ConfigMap>) -> Running {
    run_with(client, |builder| builder, reconciler)
}

pub(crate) fn run_with(
    client: Client,
    change: impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
    reconciler: impl Reconcile<ConfigMap>,
) -> Running {
    let watch = Watch::<ConfigMap>::new().options(|o| o.namespace("default"));
    run_built(client, change(Controller::named("configmap", watch)), reconciler)
}

/// Runs a controller of whatever `ConfigMaps` it was told to watch.
pub(crate) fn run_built(
    client: Client,
    builder: ControllerBuilder<ConfigMap>,
    reconciler: impl Reconcile<ConfigMap>,
) -> Running {
    run_on(SharedInformerFactory::new(client), builder, reconciler)
}

/// Runs a controller on the informers of a factory.
pub(crate) fn run_on(
    factory: SharedInformerFactory,
    builder: ControllerBuilder<ConfigMap>,
    reconciler: impl Reconcile<ConfigMap>,
) -> Running {
    let controller = Arc::new(builder.build(&factory, reconciler).expect("a controller"));
    let stop = CancellationToken::new();
    let mut task = tokio::task::JoinSet::new();
    let (runner, token) = (Arc::clone(&controller), stop.clone());
    task.spawn(async move { runner.run(token).await });
    Running { controller, factory, stop, task }
}

impl Running {
    /// Stops it, and returns how it ended.
    pub(crate) async fn end(mut self) -> Result<(), RunError> {
        self.stop.cancel();
        let ended = self.task.join_next().await.expect("it ran").expect("it did not panic");
        self.factory.shut_down().await;
        ended
    }

    /// Waits for it to end by itself.
    pub(crate) async fn ended(&mut self) -> Result<(), RunError> {
        self.task.join_next().await.expect("it ran").expect("it did not panic")
    }
}

pub(crate) fn api(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}}))
        .expect("an object")
}

pub(crate) async fn create(client: &Client, name: &str) -> ConfigMap {
    api(client).create(&PostParams::default(), &config_map(name)).await.expect("created")
}

/// An embedded cluster with one `ConfigMap`, `one`.
pub(crate) async fn cluster() -> (TestServer, Client) {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    create(&client, "one").await;
    (cluster, client)
}

/// A client that notes the method and the path of every request before it sends it.
pub(crate) fn noting(client: &Client) -> (Client, Arc<Mutex<Vec<String>>>) {
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let (inner, noted) = (client.clone(), Arc::clone(&sent));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let line = format!("{} {}", request.method(), request.uri().path());
        noted.lock().expect("not poisoned").push(line);
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    (Client::new(service, client.default_namespace()), sent)
}

/// What [`noting`] has noted since the last call: methods and the last part of paths.
pub(crate) fn taken(sent: &Mutex<Vec<String>>) -> Vec<String> {
    let lines = std::mem::take(&mut *sent.lock().expect("not poisoned"));
    let short = |line: String| {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        format!("{method} {}", path.rsplit('/').next().unwrap_or_default())
    };
    lines.into_iter().map(short).collect()
}

/// A client as operators have it. That of kube would repeat a refused eviction for minutes.
fn stack_client(cluster: &TestServer) -> Client {
    match cluster.control_plane() {
        Some(real) => {
            let config = real.config_as(real.admin_token());
            ClientStack::new().connect(config).expect("a client")
        }
        None => cluster.client().expect("a client"),
    }
}

type Body<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// Calls `body` in a run of a new controller `shops`, once, with the `ConfigMap` `owner` of a
/// namespace, which is created if it does not exist. Returns what it returns.
pub(crate) async fn in_a_run<R, F>(
    cluster: &TestServer,
    namespace: &str,
    change: impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
    body: F,
) -> R
where
    R: Send + 'static,
    F: for<'a> FnOnce(Arc<ConfigMap>, &'a RunContext) -> Body<'a, R> + Send + 'static,
{
    let client = stack_client(cluster);
    let objects: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mut owner = config_map("owner");
    owner.metadata.namespace = None;
    // It may be there from an earlier run.
    let _ = objects.create(&PostParams::default(), &owner).await;
    let (said, result) = tokio::sync::oneshot::channel();
    let once = Mutex::new(Some((body, said)));
    let once = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let once = once.lock().expect("not poisoned").take();
        Box::pin(async move {
            if let Some((body, said)) = once {
                let _ = said.send(body(object, cx).await);
            }
            Ok(Action::done())
        })
    });
    let scope = namespace.to_owned();
    let watch = Watch::<ConfigMap>::new()
        .options(|options| options.namespace(scope).field_selector("metadata.name=owner"));
    let running = run_built(client, change(Controller::named("shops", watch)), once);
    let result = result.await.expect("the run must not panic");
    running.end().await.expect("it stops");
    result
}

/// The versions that a cache has shown so far. A run itself sees its caches as they were when it
/// began.
#[derive(Clone, Default)]
pub(crate) struct Shown(tokio::sync::watch::Sender<BTreeSet<String>>);

impl Shown {
    /// A predicate that passes everything. It is asked after the cache has changed.
    pub(crate) fn predicate(&self) -> Predicate<Secret> {
        let shown = self.0.clone();
        Predicate::new(move |event: &Event<Secret>| {
            let version = event.object().head().resource_version().to_string();
            shown.send_modify(|versions| {
                versions.insert(version);
            });
            true
        })
    }

    pub(crate) async fn wait_for(&self, version: Option<String>) {
        let version = version.expect("a version");
        let mut shown = self.0.subscribe();
        shown.wait_for(|versions| versions.contains(&version)).await.expect("a sender");
    }
}
