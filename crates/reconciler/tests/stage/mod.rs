//! A controller at work on an embedded cluster, written as a closure, and its log lines.
#![allow(dead_code, reason = "every test file uses another part of it")]

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{
    Action, Controller, ControllerBuilder, Error, Reconcile, RunContext, RunError, Watch,
};
use windlass_testkit::TestCluster;

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
    run_built(client, change(Controller::of(watch)), reconciler)
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
pub(crate) async fn cluster() -> (TestCluster, Client) {
    let cluster = TestCluster::embedded();
    let client = cluster.client().expect("a client");
    create(&client, "one").await;
    (cluster, client)
}

/// The log lines of this thread, from now on.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        Self::start_at(tracing::Level::INFO)
    }

    /// The lines of this level and above.
    pub(crate) fn start_at(level: tracing::Level) -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(level)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines that contain `part`.
    pub(crate) fn lines(&self, part: &str) -> Vec<String> {
        let bytes = self.0.lock().expect("not poisoned").clone();
        let text = String::from_utf8(bytes).expect("text");
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
