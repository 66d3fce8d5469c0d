//! What the operator does, on the embedded API server and the paused clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{change, create, hash, password, start, start_with, workload, workload_with};
use config_restarter::annotation::{EXTRA_CONFIG_MAPS, EXTRA_SECRETS, HASH, RESTART};
use config_restarter::reconciler::{Restarter, controller};
use config_restarter::run::manager;
use config_restarter::throttle::Throttle;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass::prelude::Options;
use windlass_testing::testserver::apiserver::{ApiServer, Fault, FaultRule};
use windlass_testing::{Quiet, TestCluster};

/// A cluster with a Secret, and with a Deployment that takes a key of it.
async fn cluster() -> TestCluster {
    let cluster = TestCluster::embedded();
    create::<Secret>(&cluster, "password", json!({"stringData": {"password": "one"}})).await;
    create::<Deployment>(&cluster, "web", workload_with(&password("password"))).await;
    cluster
}

fn server(cluster: &TestCluster) -> ApiServer {
    let server = cluster.test_server().and_then(|cluster| cluster.server());
    server.expect("it is embedded").clone()
}

#[tokio::test(start_paused = true)]
async fn workload_gets_a_hash_and_one_event_and_then_rests() {
    let cluster = cluster().await;
    let running = start::<Deployment>(&cluster);
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes(), ["patch deployments default/web"]);
    let hash = hash::<Deployment>(&cluster, "web").await.expect("a hash");
    let event = format!("Normal ConfigChanged: the configuration has the hash {hash}");
    assert_eq!(cluster.events::<Deployment>("web").await, [event]);
    // The first run, and the one that its write led to.
    assert_eq!(running.runs("web").len(), 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_way_to_refer_to_an_object_counts() {
    let cluster = TestCluster::embedded();
    let names = ["mounted", "items", "projected", "whole", "single", "init", "extra"];
    for name in names {
        let data = json!({"used": "1", "other": "1"});
        create::<ConfigMap>(&cluster, name, json!({"data": data})).await;
        create::<Secret>(&cluster, name, json!({"stringData": data})).await;
    }
    let elsewhere = json!({"metadata": {"namespace": "kube-public"}});
    create::<Secret>(&cluster, "extra", elsewhere).await;

    let items = json!([{"key": "used", "path": "file"}]);
    let single = json!({"name": "single", "key": "used"});
    let mut web = workload(&json!({
        "initContainers": [{
            "name": "init", "image": "example.com/init",
            "envFrom": [{"configMapRef": {"name": "init"}}, {"secretRef": {"name": "init"}}],
        }],
        "containers": [{
            "name": "main", "image": "example.com/web",
            "envFrom": [{"configMapRef": {"name": "whole"}}, {"secretRef": {"name": "whole"}}],
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": single}},
                {"name": "B", "valueFrom": {"secretKeyRef": single}},
            ],
        }],
        "volumes": [
            {"name": "map", "configMap": {"name": "mounted"}},
            {"name": "secret", "secret": {"secretName": "mounted"}},
            {"name": "map-items", "configMap": {"name": "items", "items": items}},
            {"name": "secret-items", "secret": {"secretName": "items", "items": items}},
            {"name": "projected", "projected": {"sources": [
                {"configMap": {"name": "projected", "items": items}},
                {"secret": {"name": "projected", "items": items}},
            ]}},
        ],
    }));
    web["metadata"]["annotations"][EXTRA_CONFIG_MAPS] = "extra".into();
    web["metadata"]["annotations"][EXTRA_SECRETS] = "extra, kube-public/extra".into();
    create::<Deployment>(&cluster, "web", web).await;
    let running = start::<Deployment>(&cluster);
    let restarts = async || {
        running.wait_until_quiet().await;
        running.take_writes().len()
    };
    assert_eq!(restarts().await, 1);
    for name in names {
        cluster.patch::<ConfigMap>(name, json!({"data": {"used": "2"}})).await;
        assert_eq!(restarts().await, 1, "ConfigMap {name}");
        change(&cluster, name, json!({"used": "2"})).await;
        assert_eq!(restarts().await, 1, "Secret {name}");
    }
    change(&cluster, "kube-public/extra", json!({"any": "1"})).await;
    assert_eq!(restarts().await, 1, "the Secret in another namespace");

    for name in ["items", "projected", "single"] {
        cluster.patch::<ConfigMap>(name, json!({"data": {"other": "2"}})).await;
        change(&cluster, name, json!({"other": "2"})).await;
    }
    assert_eq!(restarts().await, 0, "nobody uses these keys");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn object_that_is_no_longer_referred_to_runs_nothing() {
    let cluster = cluster().await;
    create::<Secret>(&cluster, "other", json!({"stringData": {"password": "one"}})).await;
    let running = start::<Deployment>(&cluster);
    running.wait_until_quiet().await;
    let mut new = workload_with(&password("other"));
    let containers = new["spec"]["template"]["spec"]["containers"].take();
    let template = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    cluster.patch::<Deployment>("web", template).await;
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes().len(), 2, "another object is another hash");

    let runs = running.runs("web").len();
    change(&cluster, "password", json!({"password": "two"})).await;
    running.wait_until_quiet().await;
    assert_eq!(running.runs("web").len(), runs);
    change(&cluster, "other", json!({"password": "two"})).await;
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes().len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workload_that_does_not_ask_is_left_alone() {
    let cluster = cluster().await;
    let asks = |value: Value| json!({"metadata": {"annotations": {RESTART: value}}});
    let running = start::<Deployment>(&cluster);
    for value in [Value::Null, "false".into(), "True".into()] {
        cluster.patch::<Deployment>("web", asks(value)).await;
        running.wait_until_quiet().await;
        let (before, runs) = (hash::<Deployment>(&cluster, "web").await, running.runs("web").len());
        running.take_writes();
        change(&cluster, "password", json!({"password": runs.to_string()})).await;
        running.wait_until_quiet().await;
        assert_eq!(running.runs("web").len(), runs);
        assert_eq!(hash::<Deployment>(&cluster, "web").await, before, "it stays as it is");
    }
    cluster.patch::<Deployment>("web", asks("true".into())).await;
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes().len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_workload_is_run_by_nothing() {
    let cluster = cluster().await;
    let running = start::<Deployment>(&cluster);
    running.wait_until_quiet().await;
    cluster.delete::<Deployment>("web").await;
    running.wait_until_quiet().await;
    let runs = running.runs("web").len();
    change(&cluster, "password", json!({"password": "two"})).await;
    running.wait_until_quiet().await;
    assert_eq!(running.runs("web").len(), runs);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_of_an_optional_object_restarts_and_of_a_required_one_does_not() {
    let cluster = cluster().await;
    let extra = json!({"metadata": {"annotations": {EXTRA_CONFIG_MAPS: "extra"}}});
    cluster.patch::<Deployment>("web", extra).await;
    create::<ConfigMap>(&cluster, "extra", json!({"data": {"a": "1"}})).await;
    let running = start::<Deployment>(&cluster);
    running.wait_until_quiet().await;
    cluster.delete::<ConfigMap>("extra").await;
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes().len(), 2);

    cluster.delete::<Secret>("password").await;
    running.wait_until_quiet().await;
    // The same content under the same name is no change.
    create::<Secret>(&cluster, "password", json!({"stringData": {"password": "one"}})).await;
    running.wait_until_quiet().await;
    assert!(running.take_writes().is_empty());
    let events = cluster.events::<Deployment>("web").await.into_iter();
    let reasons: Vec<String> = events.map(|event| event.reason).collect();
    assert_eq!(reasons, ["ConfigChanged", "ConfigChanged", "ConfigMissing"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn status_of_a_workload_runs_nothing_and_metadata_of_a_secret_writes_nothing() {
    let cluster = cluster().await;
    let running = start::<Deployment>(&cluster);
    running.wait_until_quiet().await;
    running.take_writes();
    let runs = running.runs("web").len();
    cluster.patch_status::<Deployment>("web", json!({"status": {"replicas": 1}})).await;
    running.wait_until_quiet().await;
    assert_eq!(running.runs("web").len(), runs);

    cluster.patch::<Secret>("password", json!({"metadata": {"labels": {"a": "b"}}})).await;
    running.wait_until_quiet().await;
    assert_eq!(running.runs("web").len(), runs + 1);
    assert!(running.take_writes().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn start_with_many_hashed_workloads_writes_nothing() {
    let cluster = cluster().await;
    for number in 1..50 {
        let web = workload_with(&password("password"));
        create::<Deployment>(&cluster, &format!("web-{number}"), web).await;
    }
    let restarter = || Restarter::new(Arc::new(Throttle::new(1.0, 100).expect("valid")));
    let writes = cluster.run_until_quiet(controller::<Deployment>(), restarter()).await;
    assert_eq!(writes.len(), 50);
    let writes = cluster.run_until_quiet(controller::<Deployment>(), restarter()).await;
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn conflict_is_retried_in_the_same_slot_and_the_event_follows_the_write() {
    let cluster = cluster().await;
    let server = server(&cluster);
    let conflict = FaultRule::new(Fault::Fail { code: 409, retry_after: None });
    let conflicts = server.faults().add(conflict.verb("patch").resource("deployments"));
    // A second slot would be days away, and no test waits for that long.
    let throttle = Throttle::new(0.000_001, 1).expect("valid");
    let running = start_with::<Deployment>(&cluster, throttle);
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert!(running.runs("web").len() > 1);
    assert!(cluster.events::<Deployment>("web").await.is_empty());

    server.faults().remove(conflicts);
    let theirs = json!({"metadata": {"labels": {"theirs": "yes"}}});
    cluster.patch::<Deployment>("web", theirs).await;
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes().len(), 1);
    assert_eq!(cluster.get::<Deployment>("web").await.labels()["theirs"], "yes");
    assert_eq!(cluster.events::<Deployment>("web").await.len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn wave_of_restarts_is_spaced_and_holds_up_nobody_else() {
    let cluster = cluster().await;
    for number in 1..150 {
        let web = workload_with(&password("password"));
        create::<Deployment>(&cluster, &format!("web-{number}"), web).await;
    }
    let running = start_with::<Deployment>(&cluster, Throttle::new(1.0, 100).expect("valid"));
    running.wait_until_quiet().await;
    assert_eq!(running.take_writes().len(), 100);
    create::<Deployment>(&cluster, "other", workload_with(&password("missing"))).await;
    running.wait_until_quiet().await;
    assert_eq!(running.runs("other").len(), 1);
    for second in 0..3 {
        // Half a second after a slot.
        sleep(Duration::from_millis(if second == 0 { 1_500 } else { 1_000 })).await;
        running.wait_until_quiet().await;
        assert_eq!(running.take_writes().len(), 1);
    }
    running.wait_until(Quiet::new().timers_within(Duration::from_mins(1))).await;
    assert_eq!(running.take_writes().len(), 47);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn manager_restarts_all_kinds_with_one_throttle() {
    let cluster = cluster().await;
    create::<StatefulSet>(&cluster, "web", workload_with(&password("password"))).await;
    create::<DaemonSet>(&cluster, "web", workload_with(&password("password"))).await;
    let throttle = Throttle::new(0.1, 1).expect("valid");
    let running = cluster.run_manager(manager(Options::default(), throttle));
    for expected in 1..=3 {
        running.wait_until_quiet().await;
        let hashes = [
            hash::<Deployment>(&cluster, "web").await,
            hash::<StatefulSet>(&cluster, "web").await,
            hash::<DaemonSet>(&cluster, "web").await,
        ];
        assert_eq!(hashes.iter().flatten().count(), expected);
        assert_eq!(hashes.iter().flatten().collect::<BTreeSet<_>>().len(), 1, "the same");
        sleep(Duration::from_secs(10)).await;
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn plan_shows_every_restart_and_changes_nothing() {
    let cluster = cluster().await;
    create::<StatefulSet>(&cluster, "web", workload_with(&password("password"))).await;
    create::<DaemonSet>(&cluster, "web", workload_with(&password("password"))).await;
    // There is only one slot, but a plan has no time.
    let operator = manager(Options::default(), Throttle::new(0.1, 1).expect("valid"));
    let server = server(&cluster);
    let operator = operator.connect(move |stack| Ok(stack.around(server.service(), "default")));
    let plan = operator.plan().await.expect("a plan").to_string();
    for kind in ["deployments", "statefulsets", "daemonsets"] {
        let write = format!("~ {kind}.apps default/web");
        assert!(plan.contains(&write), "{write} is not in:\n{plan}");
    }
    assert!(plan.contains("config-hash"), "{plan}");
    assert_eq!(hash::<Deployment>(&cluster, "web").await, None);
    assert!(cluster.events::<Deployment>("web").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn content_of_a_secret_is_shown_nowhere() {
    let cluster = TestCluster::embedded();
    create::<Deployment>(&cluster, "web", workload_with(&password("password"))).await;
    create::<Secret>(&cluster, "password", json!({"stringData": {"key": "hunter2"}})).await;
    let running = start::<Deployment>(&cluster);
    running.wait_until_quiet().await;
    change(&cluster, "password", json!({"password": "hunter2"})).await;
    running.wait_until_quiet().await;
    let (events, web) =
        (cluster.events::<Deployment>("web").await, cluster.get::<Deployment>("web"));
    let shown = format!("{events:?} {:?} {:?}", web.await, running.runs("web"));
    assert!(shown.contains("ConfigMissing") && shown.contains("ConfigChanged"));
    assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMg"), "{shown}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_replaced() {
    let cluster = cluster().await;
    create::<StatefulSet>(&cluster, "db", workload_with(&password("password"))).await;
    let workloads = cluster.run_workloads(|workloads| workloads);
    let throttle = Throttle::new(1.0, 100).expect("valid");
    let running = cluster.run_manager(manager(Options::default(), throttle));
    let pods = async || {
        cluster.wait_until_quiet().await;
        let pods = cluster.list::<Pod>().await;
        assert!(pods.iter().all(|pod| pod.annotations().contains_key(HASH)));
        pods.iter().map(|pod| pod.uid().expect("a uid")).collect::<BTreeSet<_>>()
    };
    let before = pods().await;
    change(&cluster, "password", json!({"password": "two"})).await;
    let after = pods().await;
    assert_eq!((before.len(), after.len(), before.intersection(&after).count()), (2, 2, 0));
    running.stop().await;
    workloads.stop().await;
}
