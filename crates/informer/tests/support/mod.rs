//! What the tests of informers share: a cluster whose requests are counted, informers that run,
//! events as short texts, and (in `by_hand`) servers whose every word a test says itself.

#![allow(dead_code, reason = "no test file uses all of it")]

pub(crate) mod by_hand;

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Cached, Lister};
use windlass_informer::observe::{FinishedRequest, RequestObserver};
use windlass_informer::{
    ClientStack, Event, FinalState, Handler, InformerOptions, SharedInformer,
    SharedInformerFactory, Stopped,
};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultId, FaultRule};

/// An embedded server, a client of it with all layers, and what was asked of it through that
/// client.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) client: kube::Client,
    asked: Arc<Asked>,
}

/// The verbs of all requests.
#[derive(Default)]
struct Asked(Mutex<Vec<&'static str>>);

impl RequestObserver for Asked {
    fn finished(&self, request: &FinishedRequest) {
        self.0.lock().expect("no panic").push(request.verb);
    }
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self::on(ApiServer::new(), |stack| stack)
    }

    /// A server that was built otherwise, with a client that was.
    pub(crate) fn on(server: ApiServer, stack: impl FnOnce(ClientStack) -> ClientStack) -> Self {
        let asked = Arc::new(Asked::default());
        let client = stack(ClientStack::new().observer(asked.clone()));
        Self { client: client.around(server.service(), "default"), server, asked }
    }

    /// With these config maps, each with the value 1.
    pub(crate) async fn with(names: &[&str]) -> Self {
        let cluster = Self::new();
        for name in names {
            cluster.create(name).await;
        }
        cluster
    }

    /// How many requests with a verb were sent.
    pub(crate) fn asked(&self, verb: &str) -> usize {
        let asked = self.asked.0.lock().expect("no panic");
        asked.iter().filter(|asked| **asked == verb).count()
    }

    pub(crate) fn factory(&self) -> SharedInformerFactory {
        SharedInformerFactory::new(self.client.clone())
    }

    /// An informer of config maps, not running.
    pub(crate) fn informer(&self, options: InformerOptions) -> SharedInformer<ConfigMap> {
        SharedInformer::new(self.client.clone(), options.seed(1)).expect("an informer")
    }

    /// An informer of config maps that runs.
    pub(crate) fn running(&self, options: InformerOptions) -> Running {
        Running::start(self.informer(options))
    }

    /// Creates a config map with the value 1.
    pub(crate) async fn create(&self, name: &str) {
        self.create_in("default", name).await;
    }

    pub(crate) async fn create_in(&self, namespace: &str, name: &str) {
        let object = json!({"metadata": {"name": name}, "data": {"value": "1"}});
        let object = serde_json::from_value(object).expect("a config map");
        let api: Api<ConfigMap> = Api::namespaced(self.writer(), namespace);
        api.create(&PostParams::default(), &object).await.expect("it is created");
    }

    /// Gives a config map another value.
    pub(crate) async fn set(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({"data": {"value": value}}));
        self.api().patch(name, &PatchParams::default(), &patch).await.expect("it is changed");
    }

    /// Gives a config map the label `app`.
    pub(crate) async fn label(&self, name: &str, app: &str) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"app": app}}}));
        self.api().patch(name, &PatchParams::default(), &patch).await.expect("it is changed");
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.api().delete(name, &DeleteParams::default()).await.expect("it is deleted");
    }

    /// From now on this goes wrong.
    pub(crate) fn fault(&self, rule: FaultRule) -> FaultId {
        self.server.faults().add(rule.resource("configmaps"))
    }

    /// Breaks off the watches that are opened from now on after so many bytes, `times` times.
    pub(crate) fn cut_watches(&self, after_bytes: usize, times: u64) -> FaultId {
        self.fault(FaultRule::new(Fault::CutAnswer { after_bytes }).verb("watch").times(times))
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.writer(), "default")
    }

    /// Writes are not counted.
    fn writer(&self) -> kube::Client {
        kube::Client::new(self.server.service(), "default")
    }
}

/// An informer with the task that runs it.
pub(crate) struct Running<K = ConfigMap> {
    informer: SharedInformer<K>,
    pub(crate) stop: CancellationToken,
    task: JoinSet<Result<(), Stopped>>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Running<K> {
    pub(crate) fn start(informer: SharedInformer<K>) -> Self {
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        let run = informer.clone();
        let stopped = stop.clone();
        task.spawn(async move { run.run(stopped).await });
        Self { informer, stop, task }
    }

    /// Stops it, and waits for its end.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        self.ended().await.expect("it ran");
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> Result<(), Stopped> {
        self.task.join_next().await.expect("it was not awaited before").expect("no panic")
    }
}

impl<K> Deref for Running<K> {
    type Target = SharedInformer<K>;

    fn deref(&self) -> &SharedInformer<K> {
        &self.informer
    }
}

/// What a handler was told, as short texts:
///
/// - `+a=1 initial` added, with the first list or as it joined; `+a=1` added;
/// - `~a=1→2` updated; `=a=2` a resync;
/// - `-a=2` deleted; `-a=2 tombstone` if nobody saw how it was in the end.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A handler that writes into it.
    pub(crate) fn handler(&self) -> impl Handler<ConfigMap> + use<> {
        let log = self.clone();
        move |event: Event<ConfigMap>| log.note(text(&event))
    }

    pub(crate) fn note(&self, text: impl Into<String>) {
        self.0.lock().expect("no panic").push(text.into());
    }

    /// What is in it since the last time, as soon as nobody has anything left to do.
    pub(crate) async fn take(&self) -> Vec<String> {
        idle().await;
        self.take_now()
    }

    /// What is in it since the last time.
    pub(crate) fn take_now(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

/// An event, as short as in a [`Log`].
pub(crate) fn text(event: &Event<ConfigMap>) -> String {
    let name = event.key().name();
    match event {
        Event::Added { object, initial } => {
            format!("+{name}={}{}", value(object), if *initial { " initial" } else { "" })
        }
        Event::Updated { new, .. } if event.is_resync() => format!("={name}={}", value(new)),
        Event::Updated { old, new, .. } => format!("~{name}={}→{}", value(old), value(new)),
        Event::Deleted { object, state } => {
            let state = match state {
                FinalState::Final => "",
                FinalState::LastKnown => " tombstone",
            };
            format!("-{name}={}{state}", value(object))
        }
    }
}

/// The value of a config map.
pub(crate) fn value(object: &Cached<ConfigMap>) -> String {
    let value = object.get().ok().and_then(|object| object.data.as_ref()?.get("value").cloned());
    value.unwrap_or_else(|| "?".to_owned())
}

/// What is in a cache, in the order of keys, as in `a=1 b=2`.
pub(crate) fn content(lister: &Lister<ConfigMap>) -> String {
    let objects: Vec<_> = lister
        .list()
        .iter()
        .map(|object| format!("{}={}", object.key().name(), value(&object)))
        .collect();
    objects.join(" ")
}

/// Waits until nobody has anything left to do but to wait for time to pass: on the paused clock it
/// passes only then.
pub(crate) async fn idle() {
    pass(Duration::from_millis(1)).await;
}

/// Lets time pass, on the paused clock.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
