//! All workloads on the embedded server, on the paused clock.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_informer::SharedInformerFactory;
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};
use windlass_workloads::Workloads;

use crate::support::watcher::Watcher;
use crate::support::{DEPLOYMENTS, Kind, PODS, REPLICA_SETS, STATEFUL_SETS, Stage, cases};

/// One test for each case.
macro_rules! embedded {
    ($($case:ident),* $(,)?) => {$(
        #[tokio::test(start_paused = true)]
        async fn $case() {
            let stage = Stage::embedded().await;
            cases::$case(&stage).await;
            stage.end().await;
        }
    )*};
}

with_all_cases!(embedded);

/// Rolls out three replicas, and returns how many pods were ever created for them.
async fn pods_made(cluster: &TestServer) -> usize {
    let stage = Stage::on(cluster).await;
    let (sender, made) = std::sync::mpsc::channel();
    let watcher = Watcher::begin(&stage, PODS, move |pods| {
        for name in pods.keys() {
            sender.send(name.clone()).expect("the test listens");
        }
        None
    })
    .await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    }});
    stage.create(DEPLOYMENTS, deployment).await;
    stage.until_complete("web").await;
    watcher.end();
    stage.end().await;
    made.try_iter().collect::<BTreeSet<String>>().len()
}

#[tokio::test(start_paused = true)]
async fn cache_that_is_behind_leads_to_no_pod_too_many() {
    // Events of pods are later than a run waits for them. Events of replica sets are on time, and
    // each starts a run.
    let cluster = TestServer::embedded();
    let late = Fault::DelayEvent(Duration::from_secs(6));
    let server = cluster.server().expect("embedded");
    server.faults().add(FaultRule::new(late).resource("pods"));
    assert_eq!(pods_made(&cluster).await, 3);
}

#[tokio::test(start_paused = true)]
async fn lost_answer_leads_to_no_pod_too_many() {
    // The pod is created, but the replica set controller sees a broken connection, and the event is
    // late as well.
    let cluster = TestServer::embedded();
    let server = cluster.server().expect("embedded");
    let late = Fault::DelayEvent(Duration::from_secs(6));
    server.faults().add(FaultRule::new(late).resource("pods"));
    server.faults().add(FaultRule::new(Fault::LoseAnswer).resource("pods").verb("create").times(1));
    assert_eq!(pods_made(&cluster).await, 3);
}

/// The events of a set are late, and those of its pods are not: it asks for two pods by now, there
/// are two, and the controller believes that it asks for one.
async fn keeps_what_a_newer_version_asks_for(kind: &Kind, late: &str, name_of_second: &str) {
    let cluster = TestServer::embedded();
    let stage = Stage::on(&cluster).await;
    let metadata = json!({"name": "web"});
    let set = json!({"apiVersion": "apps/v1", "kind": kind.name, "metadata": metadata, "spec": {
        "replicas": 1,
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    }});
    stage.create(kind, set).await;
    let has_status = |number: u64| {
        move |sets: &[Value]| sets[0]["status"]["readyReplicas"].as_u64() == Some(number)
    };
    stage.until(kind, "ready", has_status(1)).await;

    let faults = cluster.server().expect("embedded").faults();
    let delay = Fault::DelayEvent(Duration::from_secs(30));
    let delayed = faults.add(FaultRule::new(delay).resource(late));
    stage.patch(kind, "web", json!({"spec": {"replicas": 2}})).await;
    let mut second = stage.list(PODS).await.remove(0);
    second["metadata"]["name"] = name_of_second.into();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generateName"] {
        second["metadata"][field].take();
    }
    second["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = name_of_second.into();
    let second = stage.create(PODS, second).await;
    let is_ready = |pods: &[Value]| {
        let ready = pods.iter().filter(|pod| pod["status"]["phase"] == "Running");
        ready.count() == 2
    };
    stage.until(PODS, "running", is_ready).await;
    faults.remove(delayed);
    stage.until(kind, "ready with both", has_status(2)).await;
    let kept = stage.get(PODS, name_of_second).await;
    assert_eq!(kept["metadata"]["uid"], second["metadata"]["uid"], "{late}");
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn replica_set_that_is_behind_deletes_no_pod_that_a_newer_one_asks_for() {
    keeps_what_a_newer_version_asks_for(REPLICA_SETS, "replicasets", "web-second").await;
}

#[tokio::test(start_paused = true)]
async fn stateful_set_that_is_behind_deletes_no_pod_that_a_newer_one_asks_for() {
    keeps_what_a_newer_version_asks_for(STATEFUL_SETS, "statefulsets", "web-1").await;
}

/// Writes fail at random, before or after they take effect; the end state is the same.
#[tokio::test(start_paused = true)]
async fn writes_that_fail_at_random_lead_to_the_same_end() {
    let expected = rolled_and_scaled(&TestServer::embedded()).await;
    for seed in 0..5 {
        println!("seed {seed}");
        let server = ApiServer::builder().seed(seed).build();
        for fault in [Fault::LoseAnswer, Fault::Fail { code: 500, retry_after: None }] {
            // Not the writes of the test itself, which are on deployments.
            let rule = FaultRule::new(fault).resource("pods").resource("replicasets");
            let rule = rule.verb("create").verb("patch").verb("delete").chance(0.15);
            server.faults().add(rule);
        }
        assert_eq!(rolled_and_scaled(&TestServer::on(server)).await, expected);
    }
}

/// The same for jobs, whose pods are counted once, and for stateful sets.
#[tokio::test(start_paused = true)]
async fn jobs_and_stateful_sets_bear_writes_that_fail_at_random() {
    let expected = counted_and_ordered(&TestServer::embedded()).await;
    for seed in 0..5 {
        println!("seed {seed}");
        let server = ApiServer::builder().seed(seed).build();
        for fault in [Fault::LoseAnswer, Fault::Fail { code: 500, retry_after: None }] {
            // Not the writes of the test itself, which are on jobs and sets.
            let rule = FaultRule::new(fault).resource("pods").resource("controllerrevisions");
            let rule = rule.verb("create").verb("patch").verb("delete").chance(0.15);
            server.faults().add(rule);
        }
        assert_eq!(counted_and_ordered(&TestServer::on(server)).await, expected);
    }
}

/// Runs a job and a rollout of a stateful set, and returns the resulting pictures.
async fn counted_and_ordered(cluster: &TestServer) -> [Value; 3] {
    let stages = [Stage::on(cluster).await, Stage::on(cluster).await, Stage::on(cluster).await];
    cases::stateful_set_rolls_from_the_last_to_the_first(&stages[0]).await;
    cases::indexed_job_completes(&stages[1]).await;
    cases::job_has_fewer_pods_when_told_to(&stages[2]).await;
    let pictures = [&stages[0], &stages[1], &stages[2]].map(Stage::picture);
    let pictures = futures::future::join_all(pictures).await;
    for stage in stages {
        stage.end().await;
    }
    pictures.try_into().expect("one for each")
}

/// Runs a rollout and a scaling, and returns the resulting picture.
async fn rolled_and_scaled(cluster: &TestServer) -> Value {
    let stage = Stage::on(cluster).await;
    cases::rolled_back(&stage).await;
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 6}})).await;
    stage.until_complete("web").await;
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 3}})).await;
    stage.until_complete("web").await;
    let picture = stage.picture().await;
    stage.end().await;
    picture
}

#[tokio::test(start_paused = true)]
async fn informers_are_those_of_everybody() {
    let cluster = TestServer::embedded();
    let factory = SharedInformerFactory::new(cluster.client().expect("a client"));
    let pods = factory.informer::<Pod>().expect("an informer");
    let stop = CancellationToken::new();
    let meanwhile = async {
        pods.wait_for_sync().await.expect("synced");
        let watched = factory.status().into_iter().map(|informer| informer.resource.to_string());
        assert_eq!(watched.count(), 10);
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(Workloads::new(&factory).run(stop.clone()), meanwhile);
    ran.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn caches_that_are_never_complete_end_all_controllers() {
    let cluster = TestServer::embedded();
    let failing = FaultRule::new(Fault::Fail { code: 403, retry_after: None });
    let server = cluster.server().expect("embedded");
    server.faults().add(failing.resource("replicasets"));
    let factory = SharedInformerFactory::new(cluster.client().expect("a client"));
    let ran = Workloads::new(&factory).run(CancellationToken::new()).await;
    let error = ran.expect_err("no replica set can be listed").to_string();
    assert!(error.contains("replicasets") && error.contains("list and watch"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_lead_to_no_second_replica_set() {
    let cluster = TestServer::embedded();
    let server = cluster.server().expect("embedded");
    server
        .faults()
        .add(FaultRule::new(Fault::LoseAnswer).resource("replicasets").verb("create").times(1));
    let stage = Stage::on(&cluster).await;
    cases::created_becomes_ready(&stage).await;
    stage.end().await;
}
