//! What the original's tests pin, and what its text says: on the embedded server, on the paused
//! clock, without anybody who would make pods.

#![expect(clippy::disallowed_names, reason = "a Foo is what the original calls it")]

use std::time::Duration;

use crate::common::{available, foo, is_owned_by, replicas, with_foos};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use sample_controller::controller::new_deployment;
use sample_controller::{Foo, FooSpec, controller};
use serde_json::json;
use windlass::reconciler::{Cause, Outcome, set_owner};
use windlass_testing::testserver::apiserver::ApiServer;
use windlass_testing::testserver::{Log, TestServer};
use windlass_testing::{Quiet, Running, TestCluster};

/// The event of a Foo that is as it should be.
const SYNCED: &str = "Normal Synced: Foo synced successfully";

/// Every Foo is looked at again after so long.
const RESYNC: Duration = Duration::from_secs(30);

/// What is said of a Deployment that is somebody else's.
const REFUSED: &str = "Resource \"web\" already exists and is not managed by Foo";

/// The controller at work on an empty cluster.
async fn at_work() -> (TestCluster, Running) {
    let cluster = with_foos(TestCluster::embedded()).await;
    let running = cluster.run_built(controller);
    (cluster, running)
}

/// A cluster that leaves objects where they are whose owners are gone, or never were.
async fn without_garbage_collection() -> TestCluster {
    let server = ApiServer::builder().garbage_collection(false).build();
    with_foos(TestCluster::on(TestServer::on(server), "default")).await
}

/// Waits until there is nothing to do but to try again what fails.
async fn until_only_retries_are_left(running: &Running) {
    running.wait_until(Quiet::new().ignore_retries()).await;
}

#[tokio::test(start_paused = true)]
async fn creates_the_deployment() {
    let (cluster, running) = at_work().await;
    let made = cluster.create(&foo("one", "web", Some(2))).await;
    running.wait_until_quiet().await;
    let writes = ["create deployments default/web", "patch foos/status default/one"];
    assert_eq!(running.take_writes(), writes);

    let labels = json!({"app": "nginx", "controller": "one"});
    let container = json!({"name": "nginx", "image": "nginx:latest"});
    let expected = json!({"spec": {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }});
    let deployment = cluster.expect::<Deployment>("web", expected).await;
    assert!(is_owned_by(&deployment, &made), "{deployment:?}");
    cluster.expect::<Foo>("one", json!({"status": {"availableReplicas": 0}})).await;
    assert_eq!(cluster.events::<Foo>("one").await, [SYNCED]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn does_nothing_when_equal_but_writes_the_status() {
    let cluster = with_foos(TestCluster::embedded()).await;
    let made = cluster.create(&foo("one", "web", Some(1))).await;
    cluster.create(&deployment_of(&made)).await;
    let running = cluster.run_built(controller);
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes(), ["patch foos/status default/one"]);

    // And not even that when the status is as it should be. The original sends it every time; the
    // server then changes nothing.
    tokio::time::sleep(RESYNC).await;
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes(), [""; 0]);
    let last = running.runs("one").pop().expect("a run");
    assert_eq!((last.causes, last.outcome), (vec![Cause::Resync], Outcome::Done));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn updates_replicas() {
    let (cluster, running) = at_work().await;
    cluster.create(&foo("one", "web", Some(1))).await;
    running.wait_until_quiet().await;
    running.take_writes();

    cluster.patch::<Foo>("one", json!({"spec": {"replicas": 2}})).await;
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes(), ["patch deployments default/web"]);
    cluster.expect::<Deployment>("web", json!({"spec": {"replicas": 2}})).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refuses_a_deployment_that_it_does_not_control() {
    let (cluster, running) = at_work().await;
    let foreign = cluster.create(&new_deployment(&foo("one", "web", Some(5)))).await;
    cluster.create(&foo("one", "web", Some(1))).await;
    until_only_retries_are_left(&running).await;

    assert_eq!(running.take_writes(), [""; 0]);
    assert_eq!(cluster.get::<Deployment>("web").await, foreign);
    let refused = format!("Warning ErrResourceExists: {REFUSED}");
    assert_eq!(cluster.events::<Foo>("one").await, [&*refused]);
    let runs = running.runs("one");
    assert!(runs.len() > 3, "it is tried again and again: {runs:?}");
    for run in &runs {
        assert!(
            matches!(&run.outcome, Outcome::Failed { message, .. } if message == REFUSED),
            "{run:?}"
        );
    }

    // Once it is gone the Foo gets its own, with the next try.
    cluster.delete::<Deployment>("web").await;
    running.wait_until_quiet().await;
    cluster.expect::<Deployment>("web", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(cluster.events::<Foo>("one").await, [&*refused, SYNCED]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn owner_of_the_same_name_but_another_uid_is_somebody_else() {
    // The server would collect what names an owner that is not there.
    let cluster = without_garbage_collection().await;
    let earlier = cluster.create(&foo("one", "web", Some(1))).await;
    cluster.create(&deployment_of(&earlier)).await;
    cluster.delete::<Foo>("one").await;
    cluster.create(&foo("one", "web", Some(3))).await;

    let running = cluster.run_built(controller);
    until_only_retries_are_left(&running).await;
    assert_eq!(running.take_writes(), [""; 0]);
    let runs = running.runs("one");
    let refused = |outcome: &Outcome| matches!(outcome, Outcome::Failed { message, .. } if message == REFUSED);
    assert!(runs.iter().all(|run| refused(&run.outcome)), "{runs:?}");
    // A change of that Deployment is none of the new Foo's business: none of its runs is because of
    // it.
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 7}})).await;
    until_only_retries_are_left(&running).await;
    for run in running.runs("one") {
        let by_deployment = |cause: &Cause| matches!(cause, Cause::Changed { resource, .. } if resource.kind() == "Deployment");
        assert!(!run.causes.iter().any(by_deployment), "{run:?}");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn owner_of_another_group_is_somebody_else() {
    let cluster = without_garbage_collection().await;
    let made = cluster.create(&foo("one", "web", Some(1))).await;
    let mut theirs = deployment_of(&made);
    for owner in theirs.metadata.owner_references.iter_mut().flatten() {
        owner.api_version = "example.com/v1".to_owned();
    }
    cluster.create(&theirs).await;
    let running = cluster.run_built(controller);
    until_only_retries_are_left(&running).await;
    assert_eq!(running.take_writes(), [""; 0]);
    assert_eq!(cluster.events::<Foo>("one").await[0].reason, "ErrResourceExists");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_version_of_the_same_group_is_the_same_owner() {
    let cluster = without_garbage_collection().await;
    let made = cluster.create(&foo("one", "web", Some(2))).await;
    let mut own = deployment_of(&made);
    own.spec.replicas = Some(1);
    for owner in own.metadata.owner_references.iter_mut().flatten() {
        owner.api_version = "samplecontroller.k8s.io/v1beta1".to_owned();
    }
    cluster.create(&own).await;
    let running = cluster.run_built(controller);
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes()[0], "patch deployments default/web");
    running.stop().await;
    cluster.expect::<Deployment>("web", json!({"spec": {"replicas": 2}})).await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired() {
    let (cluster, running) = at_work().await;
    cluster.create(&foo("one", "web", Some(1))).await;
    running.wait_until_quiet().await;
    running.take_writes();

    let drift = json!({"spec": {"replicas": 9}, "metadata": {"labels": {"mine": "yes"}}});
    cluster.patch::<Deployment>("web", drift).await;
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes(), ["patch deployments default/web"]);
    // Only what the Foo speaks of is repaired. The original writes the whole object, and the label
    // would be gone.
    let repaired = json!({"spec": {"replicas": 1}, "metadata": {"labels": {"mine": "yes"}}});
    cluster.expect::<Deployment>("web", repaired).await;

    cluster.delete::<Deployment>("web").await;
    running.wait_until_quiet().await;
    cluster.expect::<Deployment>("web", json!({"spec": {"replicas": 1}})).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn availability_of_the_deployment_is_told_by_the_foo() {
    let (cluster, running) = at_work().await;
    cluster.create(&foo("one", "web", Some(3))).await;
    running.wait_until_quiet().await;
    let status = json!({"status": {"availableReplicas": 2, "readyReplicas": 2, "replicas": 3}});
    cluster.patch_status::<Deployment>("web", status).await;
    running.wait_until_quiet().await;
    assert_eq!(available(&cluster.get("one").await), Some(2));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_that_are_left_out_are_left_alone() {
    let (cluster, running) = at_work().await;
    cluster.create(&foo("one", "web", None)).await;
    running.wait_until_quiet().await;
    // The API server's default.
    assert_eq!(replicas(&cluster.get("web").await), Some(1));
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 4}})).await;
    running.wait_until_quiet().await;
    assert_eq!(replicas(&cluster.get("web").await), Some(4));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn empty_deployment_name_is_logged_and_not_retried() {
    let log = Log::start();
    let (cluster, running) = at_work().await;
    cluster.create(&foo("one", "", Some(1))).await;
    running.wait_until_quiet().await;
    let runs = running.runs("one");
    assert_eq!(runs.iter().map(|run| &run.outcome).collect::<Vec<_>>(), [&Outcome::Done]);
    assert_eq!(running.take_writes(), [""; 0]);
    assert_eq!(cluster.events::<Foo>("one").await, [""; 0]);
    let logged = log.text();
    let about = |line: &&str| line.contains("Deployment name missing from object reference");
    assert_eq!(logged.lines().filter(about).count(), 1, "{logged}");
    assert!(logged.contains("default/one"), "{logged}");

    // The next edit is the next try.
    cluster.patch::<Foo>("one", json!({"spec": {"deploymentName": "web"}})).await;
    running.wait_until_quiet().await;
    assert_eq!(replicas(&cluster.get("web").await), Some(1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn missing_foo_is_no_error() {
    let (cluster, running) = at_work().await;
    cluster.create(&foo("one", "web", Some(1))).await;
    running.wait_until_quiet().await;
    running.take_writes();
    cluster.delete::<Foo>("one").await;
    running.wait_until_quiet().await;
    let last = running.runs("one").pop().expect("a run");
    assert_eq!(last.outcome, Outcome::Done);
    assert_eq!(running.take_writes(), [""; 0]);
    // The server has collected what it owned.
    assert_eq!(cluster.get_opt::<Deployment>("web").await, None);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foo_that_waits_for_its_dependents_gets_no_new_ones() {
    let (cluster, running) = at_work().await;
    cluster.create(&foo("one", "web", Some(1))).await;
    running.wait_until_quiet().await;
    running.take_writes();
    // Somebody holds the Foo back, as the garbage collector does in a foreground deletion.
    cluster.patch::<Foo>("one", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    cluster.delete::<Foo>("one").await;
    cluster.delete::<Deployment>("web").await;
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes(), [""; 0]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unrelated_changes_run_nothing() {
    let (cluster, running) = at_work().await;
    cluster.create(&foo("one", "web", Some(1))).await;
    running.wait_until_quiet().await;
    let before = running.runs("one").len();
    cluster.create(&new_deployment(&foo("two", "other", Some(1)))).await;
    let mut settings = ConfigMap::default();
    settings.metadata.name = Some("web".to_owned());
    cluster.create(&settings).await;
    running.wait_until_quiet().await;
    assert_eq!(running.runs("one").len(), before);
    assert!(running.runs("two").is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_are_one_to_ten_and_the_server_says_so() {
    let cluster = with_foos(TestCluster::embedded()).await;
    let foos: kube::Api<Foo> = kube::Api::default_namespaced(cluster.client());
    for wrong in [0, 11] {
        let spec = FooSpec { deployment_name: "web".to_owned(), replicas: Some(wrong) };
        let refused = foos.create(&kube::api::PostParams::default(), &Foo::new("one", spec)).await;
        assert!(
            matches!(&refused, Err(kube::Error::Api(status)) if status.code == 422),
            "{refused:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn foo_without_a_spec_is_reported_once_and_not_retried() {
    let (cluster, running) = at_work().await;
    let resource = kube::api::ApiResource::erase::<Foo>(&());
    let api: kube::Api<kube::api::DynamicObject> =
        kube::Api::namespaced_with(cluster.client(), cluster.namespace(), &resource);
    let empty = kube::api::DynamicObject::new("one", &resource);
    api.create(&kube::api::PostParams::default(), &empty).await.expect("created");
    running.wait_until_quiet().await;
    let runs = running.runs("one");
    assert!(
        matches!(&runs[..], [run] if matches!(run.outcome, Outcome::Terminal { .. })),
        "{runs:?}"
    );
    running.stop().await;
}

/// The Deployment that the controller makes for a Foo.
fn deployment_of(foo: &Foo) -> Deployment {
    let mut deployment = new_deployment(foo);
    set_owner(&mut deployment, foo).expect("the Foo is there");
    deployment
}
