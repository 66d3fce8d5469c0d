//! Which events lead to which keys, and when the first run may begin.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_indexer::ObjectKey;
use windlass_informer::{Resource, SharedInformerFactory};
use windlass_reconciler::{
    Action, Cause, Controller, ControllerBuilder, Error, Predicate, Reconcile, RunContext,
    RunError, Watch,
};
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::{Fault, FaultRule};

/// Says which key ran, and why.
struct Reporter(mpsc::Sender<(String, Vec<Cause>)>);

impl<K: Send + Sync + 'static> Reconcile<K> for Reporter {
    async fn reconcile(&self, _: Arc<K>, cx: &RunContext) -> Result<Action, Error> {
        self.0.send((cx.key().to_string(), cx.causes().to_vec())).await?;
        Ok(Action::done())
    }

    async fn absent(&self, _: &ObjectKey, cx: &RunContext) -> Result<Action, Error> {
        self.0.send((format!("absent {}", cx.key()), cx.causes().to_vec())).await?;
        Ok(Action::done())
    }
}

/// A cluster, and a controller that tells what it does.
struct Stage {
    cluster: TestServer,
    runs: mpsc::Receiver<(String, Vec<Cause>)>,
    running: tokio::task::JoinSet<Result<(), RunError>>,
    stop: CancellationToken,
}

impl Stage {
    fn start<K>(cluster: TestServer, builder: ControllerBuilder<K>) -> Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let factory = SharedInformerFactory::new(cluster.client().expect("a client"));
        let (sender, runs) = mpsc::channel(100);
        let controller = builder.build(&factory, Reporter(sender)).expect("a controller");
        let stop = CancellationToken::new();
        let mut running = tokio::task::JoinSet::new();
        let token = stop.clone();
        running.spawn(async move { controller.run(token).await });
        Self { cluster, runs, running, stop }
    }

    async fn run(&mut self) -> String {
        self.runs.recv().await.expect("a run").0
    }

    /// Nothing runs for an hour.
    async fn expect_rest(&mut self) {
        let ran = tokio::time::timeout(Duration::from_hours(1), self.runs.recv()).await;
        assert!(ran.is_err(), "{ran:?}");
    }
}

async fn create(cluster: &TestServer, resource: &ApiResource, object: Value) -> DynamicObject {
    let client = cluster.client().expect("a client");
    let api: Api<DynamicObject> = Api::namespaced_with(client, "default", resource);
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("created")
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    })
}

async fn deployment(cluster: &TestServer, name: &str) -> String {
    let resource = ApiResource::erase::<Deployment>(&());
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template()},
    });
    let made = create(cluster, &resource, object).await;
    made.metadata.uid.expect("a uid")
}

async fn replica_set(cluster: &TestServer, name: &str, owner: Option<(&str, &str, &str)>) {
    let resource = ApiResource::erase::<ReplicaSet>(&());
    let owners: Vec<_> = owner
        .iter()
        .map(|(kind, name, uid)| {
            json!({
                "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true,
            })
        })
        .collect();
    let metadata = json!({"name": name, "ownerReferences": owners});
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata,
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template()},
    });
    create(cluster, &resource, object).await;
}

#[tokio::test(start_paused = true)]
async fn owned_object_runs_its_owner_by_group_kind_and_uid() {
    let cluster = TestServer::on(
        windlass_testserver::apiserver::ApiServer::builder().garbage_collection(false).build(),
    );
    let uid = deployment(&cluster, "web").await;
    let builder = Controller::named("deployment", Watch::<Deployment>::new())
        .owns(Watch::<ReplicaSet>::new());
    let mut stage = Stage::start(cluster, builder);
    assert_eq!(stage.run().await, "default/web");
    stage.expect_rest().await;

    replica_set(&stage.cluster, "nobodys", None).await;
    replica_set(&stage.cluster, "other-kind", Some(("DaemonSet", "web", &uid))).await;
    replica_set(&stage.cluster, "other-uid", Some(("Deployment", "web", "1234"))).await;
    stage.expect_rest().await;
    replica_set(&stage.cluster, "ours", Some(("Deployment", "web", &uid))).await;
    let (key, causes) = stage.runs.recv().await.expect("a run");
    assert_eq!(key, "default/web");
    let [cause] = &causes[..] else { panic!("{causes:?}") };
    assert!(cause.to_string().starts_with("ReplicaSet default/ours added at "), "{cause}");
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn watched_object_runs_what_it_led_to_and_what_it_leads_to() {
    let cluster = TestServer::embedded();
    let resource = ApiResource::erase::<ConfigMap>(&());
    create(&cluster, &resource, json!({"metadata": {"name": "source", "labels": {"for": "one"}}}))
        .await;
    let to_key = |object: &windlass_indexer::Cached<ConfigMap>| {
        let name = object.head().labels().get("for")?;
        Some(ObjectKey::namespaced("default", name))
    };
    let builder = Controller::named("deployment", Watch::<Deployment>::new())
        .watches(Watch::<ConfigMap>::new(), to_key);
    let mut stage = Stage::start(cluster, builder);
    assert_eq!(stage.run().await, "absent default/one");
    let client = stage.cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"for": "two"}}}));
    api.patch("source", &PatchParams::default(), &patch).await.expect("patched");
    let mut ran = [stage.run().await, stage.run().await];
    ran.sort();
    assert_eq!(ran, ["absent default/one", "absent default/two"]);
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn predicate_passes_over_changes_of_the_status() {
    let cluster = TestServer::embedded();
    deployment(&cluster, "web").await;
    let watch = Watch::<Deployment>::new().when(Predicate::generation_changed());
    let mut stage = Stage::start(cluster, Controller::named("configmap", watch));
    assert_eq!(stage.run().await, "default/web");
    let client = stage.cluster.client().expect("a client");
    let api: Api<Deployment> = Api::namespaced(client, "default");
    let status = Patch::Merge(json!({"status": {"replicas": 1}}));
    api.patch_status("web", &PatchParams::default(), &status).await.expect("patched");
    stage.expect_rest().await;
    let spec = Patch::Merge(json!({"spec": {"replicas": 2}}));
    api.patch("web", &PatchParams::default(), &spec).await.expect("patched");
    assert_eq!(stage.run().await, "default/web");
    stage.expect_rest().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_all_sources_are_synced() {
    let cluster = TestServer::embedded();
    deployment(&cluster, "web").await;
    let server = cluster.server().expect("embedded").clone();
    let failing =
        FaultRule::new(Fault::Fail { code: 503, retry_after: None }).resource("replicasets");
    let fault = server.faults().add(failing);
    let builder = Controller::named("deployment", Watch::<Deployment>::new())
        .owns(Watch::<ReplicaSet>::new())
        .sync_timeout(Duration::from_hours(10));
    let mut stage = Stage::start(cluster, builder);
    stage.expect_rest().await;
    server.faults().remove(fault);
    assert_eq!(stage.run().await, "default/web");
}

#[tokio::test(start_paused = true)]
async fn missing_definition_is_told_after_the_sync_timeout() {
    let resource = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Foo".to_owned(),
        plural: "foos".to_owned(),
    };
    let watch = Watch::<DynamicObject>::of(Resource::new(&resource, true));
    let mut stage = Stage::start(TestServer::embedded(), Controller::named("configmap", watch));
    let ended = stage.running.join_next().await.expect("it ends").expect("no panic");
    let error = ended.expect_err("nothing is there to watch").to_string();
    assert!(error.contains("foos.v1.example.com is not complete after 120 s"), "{error}");
    assert!(error.ends_with("is its CustomResourceDefinition installed?"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn cancel_while_waiting_for_sync_is_no_error() {
    let cluster = TestServer::embedded();
    let failing = FaultRule::new(Fault::Fail { code: 503, retry_after: None });
    cluster.server().expect("embedded").faults().add(failing);
    let mut stage =
        Stage::start(cluster, Controller::named("deployment", Watch::<Deployment>::new()));
    stage.expect_rest_briefly().await;
    stage.stop.cancel();
    stage.running.join_next().await.expect("it ends").expect("no panic").expect("no error");
}

impl Stage {
    /// Lets it begin.
    async fn expect_rest_briefly(&mut self) {
        let ran = tokio::time::timeout(Duration::from_secs(10), self.runs.recv()).await;
        assert!(ran.is_err(), "{ran:?}");
    }
}
