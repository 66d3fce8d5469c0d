//! The metrics beside those of controller-runtime, on a real kube-apiserver.
//!
//! The Go program of `tests/metrics-go` parses our text with Prometheus' own parser, runs a
//! controller-runtime manager in the same namespace, and compares. What may differ is the table in
//! `docs/metrics.md`.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_informer::{ClientStack, InformerOptions, SharedInformerFactory};
use windlass_manager::{Elector, Leadership, Metrics};
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
use windlass_testserver::{ControlPlane, ControlPlaneOptions, go_program};

const NAMES: [&str; 4] = ["succeeds", "fails", "terminal", "requeues"];

/// Does what the name of an object says, and tells which objects it has seen.
struct ByName(mpsc::Sender<String>);

impl Reconcile<ConfigMap> for ByName {
    async fn reconcile(&self, object: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        let name = object.metadata.name.clone().unwrap_or_default();
        // Nobody listens any more when all were seen.
        let _ = self.0.send(name.clone()).await;
        match name.as_str() {
            "fails" => Err(Error::msg("as its name says")),
            "terminal" => Err(Error::msg("as its name says").terminal()),
            "requeues" => Ok(Action::requeue_after(Duration::from_hours(1))),
            _ => Ok(Action::done()),
        }
    }
}

/// The text of a process with a controller, an election and a rate limit, when each object ran.
async fn our_text(cluster: &ControlPlane, namespace: &'static str) -> String {
    let metrics = Metrics::new();
    let hundred = NonZeroU32::new(100).expect("not zero");
    let client = ClientStack::new()
        .rate(hundred, hundred)
        .observer(Arc::new(metrics.requests().clone()))
        .connect(cluster.config())
        .expect("a client");
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let elector = Elector::builder(client.clone(), namespace, "windlass").build().expect("valid");
    let mut leadership = elector.leadership();
    metrics.watch_election("windlass", leadership.clone());
    tasks.spawn(elector.run(stop.clone()));

    let options = InformerOptions::new().observer(metrics.informers().observer());
    let factory = SharedInformerFactory::builder(client).defaults(options).build();
    let (seen, mut names) = mpsc::channel(1);
    let watch = Watch::<ConfigMap>::new().options(move |options| options.namespace(namespace));
    let builder = Controller::named("configmap", watch).metrics(metrics.controllers());
    let controller = builder.build(&factory, ByName(seen)).expect("a controller");
    let token = stop.clone();
    let running = tasks.spawn(async move { controller.run(token).await });

    let mut missing = BTreeSet::from(NAMES);
    while !missing.is_empty() {
        let name = names.recv().await.expect("the controller runs");
        missing.remove(name.as_str());
    }
    leadership.wait_for(Leadership::is_leading).await.expect("nobody else contends");
    let text = metrics.encode();
    drop(names);
    stop.cancel();
    running.await.expect("no panic").expect("it ran");
    factory.shut_down().await;
    tasks.close();
    tasks.wait().await;
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn differences_from_controller_runtime_are_those_in_the_docs() {
    let program = go_program("metrics-go").unwrap_or_else(|error| panic!("{error}"));
    let cluster =
        ControlPlane::start(ControlPlaneOptions::default()).await.expect("a control plane");
    let namespace = "default";
    let api: Api<ConfigMap> = Api::namespaced(cluster.client().expect("a client"), namespace);
    for name in NAMES {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        api.create(&PostParams::default(), &object).await.expect("created");
    }
    let text = our_text(&cluster, namespace).await;
    let file = cluster.folder().join("metrics.txt");
    std::fs::write(&file, &text).expect("the folder can be written");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(cluster.kubeconfig_path());
    command.arg("--namespace").arg(namespace);
    command.arg("--ours").arg(&file).arg("--differences").arg(&docs);
    let output = command.output().expect("the Go program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.success(), "{complaint}\nof this text:\n{text}");
}
