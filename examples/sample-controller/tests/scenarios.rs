//! What the original's tests pin, and what its text says: on the embedded server, on the paused
//! clock, without anybody who would make pods.

#![expect(clippy::disallowed_names, reason = "a Foo is what the original calls it")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Stage, available, create, foo, is_owned_by, replicas};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use sample_controller::controller::new_deployment;
use sample_controller::{Foo, FooSpec};
use serde_json::json;
use tracing_subscriber::util::SubscriberInitExt as _;
use windlass::reconciler::{Cause, Outcome, set_owner};

/// The events of a Foo that is as it should be.
fn wait_for_sync() -> (String, String, String) {
    ("Normal".to_owned(), "Synced".to_owned(), "Foo synced successfully".to_owned())
}

/// Every Foo is looked at again after so long.
const RESYNC: Duration = Duration::from_secs(30);

/// What is said of a Deployment that is somebody else's.
const REFUSED: &str = "Resource \"web\" already exists and is not managed by Foo";

#[tokio::test(start_paused = true)]
async fn creates_the_deployment() {
    let stage = Stage::empty().await;
    let made = create(&stage.api(), &foo("one", "web", Some(2))).await;
    stage.rest().await;
    assert_eq!(stage.writes.take(), ["POST default/deployments", "PATCH default/foos/one/status"]);

    let deployment = stage.deployment("web").await;
    assert!(is_owned_by(&deployment, &made), "{deployment:?}");
    assert_eq!(replicas(&deployment), Some(2));
    let spec = serde_json::to_value(deployment.spec).expect("JSON");
    let labels = json!({"app": "nginx", "controller": "one"});
    assert_eq!(spec["selector"], json!({"matchLabels": labels}));
    assert_eq!(spec["template"]["metadata"]["labels"], labels);
    let containers = &spec["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().map(Vec::len), Some(1));
    assert_eq!(containers[0]["name"], "nginx");
    assert_eq!(containers[0]["image"], "nginx:latest");

    let synced_foo: Foo = stage.api().get("one").await.expect("the Foo is there");
    assert_eq!(available(&synced_foo), Some(0));
    assert_eq!(stage.events("one").await, [wait_for_sync()]);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn does_nothing_when_equal_but_writes_the_status() {
    let (server, client) = Stage::server().await;
    let api = kube::Api::default_namespaced(client.clone());
    let made = create(&api, &foo("one", "web", Some(1))).await;
    create(&kube::Api::default_namespaced(client.clone()), &deployment_of(&made)).await;
    let stage = Stage::start(server, client);
    stage.rest().await;
    assert_eq!(stage.writes.take(), ["PATCH default/foos/one/status"]);

    // And not even that when the status is as it should be. The original sends it every time; the
    // server then changes nothing.
    tokio::time::sleep(RESYNC).await;
    assert_eq!(stage.writes.take(), [""; 0]);
    let last = stage.runs("one").pop().expect("a run");
    assert_eq!((last.causes, last.outcome), (vec![Cause::Resync], Outcome::Done));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn updates_replicas() {
    let stage = Stage::empty().await;
    create(&stage.api(), &foo("one", "web", Some(1))).await;
    stage.rest().await;
    stage.writes.take();

    scale_foo(&stage, "one", Some(2)).await;
    stage.rest().await;
    assert_eq!(stage.writes.take(), ["PATCH default/deployments/web"]);
    assert_eq!(replicas(&stage.deployment("web").await), Some(2));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn refuses_a_deployment_that_it_does_not_control() {
    let stage = Stage::empty().await;
    let foreign = new_deployment(&foo("one", "web", Some(5)));
    let foreign = create(&stage.api(), &foreign).await;
    create(&stage.api(), &foo("one", "web", Some(1))).await;
    stage.rest().await;

    assert_eq!(stage.writes.take(), [""; 0]);
    assert_eq!(stage.deployment("web").await, foreign);
    let refused = ("Warning".to_owned(), "ErrResourceExists".to_owned(), REFUSED.to_owned());
    assert_eq!(stage.events("one").await, std::slice::from_ref(&refused));
    let runs = stage.runs("one");
    assert!(runs.len() > 3, "it is tried again and again: {runs:?}");
    for run in &runs {
        assert!(
            matches!(&run.outcome, Outcome::Failed { message, .. } if message == REFUSED),
            "{run:?}"
        );
    }

    // Once it is gone the Foo gets its own, with the next try.
    stage.api::<Deployment>().delete("web", &DeleteParams::default()).await.expect("deleted");
    stage.rest().await;
    assert_eq!(replicas(&stage.deployment("web").await), Some(1));
    assert_eq!(stage.events("one").await, [wait_for_sync(), refused]);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn owner_of_the_same_name_but_another_uid_is_somebody_else() {
    // The server would collect what names an owner that is not there.
    let (server, client) = Stage::server_without_garbage_collection().await;
    let api = kube::Api::default_namespaced(client.clone());
    let earlier = create(&api, &foo("one", "web", Some(1))).await;
    let deployments = kube::Api::<Deployment>::default_namespaced(client.clone());
    create(&deployments, &deployment_of(&earlier)).await;
    api.delete("one", &DeleteParams::default()).await.expect("deleted");
    create(&api, &foo("one", "web", Some(3))).await;

    let stage = Stage::start(server, client);
    stage.rest().await;
    assert_eq!(stage.writes.take(), [""; 0]);
    let runs = stage.runs("one");
    let refused = |outcome: &Outcome| matches!(outcome, Outcome::Failed { message, .. } if message == REFUSED);
    assert!(runs.iter().all(|run| refused(&run.outcome)), "{runs:?}");
    // A change of that Deployment is none of the new Foo's business: none of its runs is because of
    // it.
    let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
    deployments.patch("web", &PatchParams::default(), &patch).await.expect("patched");
    stage.rest().await;
    for run in stage.runs("one") {
        let by_deployment = |cause: &Cause| matches!(cause, Cause::Changed { resource, .. } if resource.kind() == "Deployment");
        assert!(!run.causes.iter().any(by_deployment), "{run:?}");
    }
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn owner_of_another_group_is_somebody_else() {
    let (server, client) = Stage::server_without_garbage_collection().await;
    let made =
        create(&kube::Api::default_namespaced(client.clone()), &foo("one", "web", Some(1))).await;
    let mut theirs = deployment_of(&made);
    for owner in theirs.metadata.owner_references.iter_mut().flatten() {
        owner.api_version = "example.com/v1".to_owned();
    }
    create(&kube::Api::default_namespaced(client.clone()), &theirs).await;
    let stage = Stage::start(server, client);
    stage.rest().await;
    assert_eq!(stage.writes.take(), [""; 0]);
    assert_eq!(stage.events("one").await[0].1, "ErrResourceExists");
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn another_version_of_the_same_group_is_the_same_owner() {
    let (server, client) = Stage::server_without_garbage_collection().await;
    let made =
        create(&kube::Api::default_namespaced(client.clone()), &foo("one", "web", Some(2))).await;
    let mut own = deployment_of(&made);
    own.spec.replicas = Some(1);
    for owner in own.metadata.owner_references.iter_mut().flatten() {
        owner.api_version = "samplecontroller.k8s.io/v1beta1".to_owned();
    }
    create(&kube::Api::default_namespaced(client.clone()), &own).await;
    let stage = Stage::start(server, client);
    stage.rest().await;
    assert_eq!(replicas(&stage.deployment("web").await), Some(2));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired() {
    let stage = Stage::empty().await;
    create(&stage.api(), &foo("one", "web", Some(1))).await;
    stage.rest().await;
    stage.writes.take();

    let patch =
        Patch::Merge(json!({"spec": {"replicas": 9}, "metadata": {"labels": {"mine": "yes"}}}));
    let deployments = stage.api::<Deployment>();
    deployments.patch("web", &PatchParams::default(), &patch).await.expect("patched");
    stage.rest().await;
    assert_eq!(stage.writes.take(), ["PATCH default/deployments/web"]);
    let repaired = stage.deployment("web").await;
    assert_eq!(replicas(&repaired), Some(1));
    // Only what the Foo speaks of is repaired. The original writes the whole object, and the label
    // would be gone.
    assert!(repaired.metadata.labels.is_some_and(|labels| labels.contains_key("mine")));

    deployments.delete("web", &DeleteParams::default()).await.expect("deleted");
    stage.rest().await;
    assert_eq!(replicas(&stage.deployment("web").await), Some(1));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn availability_of_the_deployment_is_told_by_the_foo() {
    let stage = Stage::empty().await;
    create(&stage.api(), &foo("one", "web", Some(3))).await;
    stage.rest().await;
    let patch = Patch::Merge(
        json!({"status": {"availableReplicas": 2, "readyReplicas": 2, "replicas": 3}}),
    );
    let deployments = stage.api::<Deployment>();
    deployments.patch_status("web", &PatchParams::default(), &patch).await.expect("patched");
    stage.rest().await;
    assert_eq!(available(&stage.api().get("one").await.expect("there")), Some(2));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_that_are_left_out_are_left_alone() {
    let stage = Stage::empty().await;
    create(&stage.api(), &foo("one", "web", None)).await;
    stage.rest().await;
    // The API server's default.
    assert_eq!(replicas(&stage.deployment("web").await), Some(1));
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let deployments = stage.api::<Deployment>();
    deployments.patch("web", &PatchParams::default(), &patch).await.expect("patched");
    stage.rest().await;
    assert_eq!(replicas(&stage.deployment("web").await), Some(4));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn empty_deployment_name_is_logged_and_not_retried() {
    let log = Log::default();
    let lines = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || lines.clone()).finish();
    let _logging = subscriber.set_default();
    let stage = Stage::empty().await;
    create(&stage.api(), &foo("one", "", Some(1))).await;
    stage.rest().await;
    let runs = stage.runs("one");
    assert_eq!(runs.iter().map(|run| &run.outcome).collect::<Vec<_>>(), [&Outcome::Done]);
    assert_eq!(stage.writes.take(), [""; 0]);
    assert_eq!(stage.events("one").await, []);
    let logged = log.text();
    let about = |line: &&str| line.contains("Deployment name missing from object reference");
    assert_eq!(logged.lines().filter(about).count(), 1, "{logged}");
    assert!(logged.contains("default/one"), "{logged}");

    // The next edit is the next try.
    let patch = Patch::Merge(json!({"spec": {"deploymentName": "web"}}));
    stage.api::<Foo>().patch("one", &PatchParams::default(), &patch).await.expect("patched");
    stage.rest().await;
    assert_eq!(replicas(&stage.deployment("web").await), Some(1));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn missing_foo_is_no_error() {
    let stage = Stage::empty().await;
    create(&stage.api(), &foo("one", "web", Some(1))).await;
    stage.rest().await;
    stage.writes.take();
    stage.api::<Foo>().delete("one", &DeleteParams::default()).await.expect("deleted");
    stage.rest().await;
    let last = stage.runs("one").pop().expect("a run");
    assert_eq!(last.outcome, Outcome::Done);
    assert_eq!(stage.writes.take(), [""; 0]);
    // The server has collected what it owned.
    assert_eq!(stage.api::<Deployment>().get_opt("web").await.expect("an answer"), None);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn foo_that_waits_for_its_dependents_gets_no_new_ones() {
    let stage = Stage::empty().await;
    create(&stage.api(), &foo("one", "web", Some(1))).await;
    stage.rest().await;
    stage.writes.take();
    // Somebody holds the Foo back, as the garbage collector does in a foreground deletion.
    let patch = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    stage.api::<Foo>().patch("one", &PatchParams::default(), &patch).await.expect("patched");
    stage.api::<Foo>().delete("one", &DeleteParams::default()).await.expect("deleted");
    stage.api::<Deployment>().delete("web", &DeleteParams::default()).await.expect("deleted");
    stage.rest().await;
    assert_eq!(stage.writes.take(), [""; 0]);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn unrelated_changes_run_nothing() {
    let stage = Stage::empty().await;
    create(&stage.api(), &foo("one", "web", Some(1))).await;
    stage.rest().await;
    let before = stage.runs("one").len();
    create(&stage.api(), &new_deployment(&foo("two", "other", Some(1)))).await;
    let mut settings = ConfigMap::default();
    settings.metadata.name = Some("web".to_owned());
    create(&stage.api(), &settings).await;
    stage.rest().await;
    assert_eq!(stage.runs("one").len(), before);
    assert!(stage.runs("two").is_empty());
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_are_one_to_ten_and_the_server_says_so() {
    let stage = Stage::empty().await;
    for wrong in [0, 11] {
        let spec = FooSpec { deployment_name: "web".to_owned(), replicas: Some(wrong) };
        let refused =
            stage.api().create(&kube::api::PostParams::default(), &Foo::new("one", spec)).await;
        assert!(
            matches!(&refused, Err(kube::Error::Api(status)) if status.code == 422),
            "{refused:?}"
        );
    }
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn foo_without_a_spec_is_reported_once_and_not_retried() {
    let stage = Stage::empty().await;
    let resource = kube::api::ApiResource::erase::<Foo>(&());
    let api: kube::Api<kube::api::DynamicObject> =
        kube::Api::namespaced_with(stage.client.clone(), common::NAMESPACE, &resource);
    create_dynamic(&api, &kube::api::DynamicObject::new("one", &resource)).await;
    stage.rest().await;
    let runs = stage.runs("one");
    assert!(
        matches!(&runs[..], [run] if matches!(run.outcome, Outcome::Terminal { .. })),
        "{runs:?}"
    );
    stage.end().await;
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The Deployment that the controller makes for a Foo.
fn deployment_of(foo: &Foo) -> Deployment {
    let mut deployment = new_deployment(foo);
    set_owner(&mut deployment, foo).expect("the Foo is there");
    deployment
}

async fn create_dynamic(
    api: &kube::Api<kube::api::DynamicObject>,
    object: &kube::api::DynamicObject,
) {
    api.create(&kube::api::PostParams::default(), object).await.expect("created");
}

async fn scale_foo(stage: &Stage, name: &str, replicas: Option<i32>) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    stage.api::<Foo>().patch(name, &PatchParams::default(), &patch).await.expect("patched");
}
