//! What the operator does, on the embedded API server and the paused clock.

mod common;

use std::collections::BTreeSet;

use common::{Bench, Stage, password, rest, workload, workload_with};
use config_restarter::annotation::{EXTRA_CONFIG_MAPS, EXTRA_SECRETS, HASH, RESTART};
use config_restarter::run::manager;
use config_restarter::throttle::Throttle;
use config_restarter::workload::Workload as _;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass::informer::SharedInformerFactory;
use windlass::prelude::CancellationToken;
use windlass_testkit::apiserver::{Fault, FaultRule};
use windlass_workloads::Workloads;

/// A bench with a Secret, and with a Deployment that takes a key of it, if it asks for restarts.
async fn bench(asks: bool) -> Bench {
    let bench = Bench::embedded().await;
    bench.create::<Secret>("password", secret("one")).await;
    let mut web = workload_with(&password("password"));
    web["metadata"]["annotations"][RESTART] = asks.to_string().into();
    bench.create::<Deployment>("web", web).await;
    bench
}

fn secret(password: &str) -> Value {
    json!({"stringData": {"password": password}})
}

#[tokio::test(start_paused = true)]
async fn workload_gets_a_hash_and_one_event_and_then_rests() {
    let stage = Stage::<Deployment>::start(bench(true).await, &[]);
    rest().await;
    let hash = stage.bench.hash::<Deployment>("web").await.expect("a hash");
    let event =
        ["web", "Normal", "ConfigChanged", &format!("the configuration has the hash {hash}")];
    assert_eq!(stage.bench.events().await, [event]);
    // The first run, and the one that its write led to.
    assert_eq!(stage.runs("web"), 2);
    let web: Deployment = stage.bench.get("web").await;
    assert_eq!(web.spec.template.metadata.expect("one").annotations.expect("some")["kept"], "yes");
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn every_way_to_refer_to_an_object_counts() {
    let bench = Bench::embedded().await;
    let other = bench.cluster.namespace("other").await.expect("a namespace");
    let maps = ["mounted", "projected", "whole", "single", "init", "extra"];
    for name in maps {
        bench.create::<ConfigMap>(name, json!({"data": {"used": "1", "other": "1"}})).await;
        bench.create::<Secret>(name, json!({"stringData": {"used": "1", "other": "1"}})).await;
    }
    let elsewhere: Api<Secret> = Api::namespaced(bench.client.clone(), &other);
    let extra: Secret =
        serde_json::from_value(json!({"metadata": {"name": "extra"}})).expect("one");
    elsewhere.create(&PostParams::default(), &extra).await.expect("created");

    let items = json!([{"key": "used", "path": "file"}]);
    let single = |name: &str| json!({"name": name, "key": "used"});
    let mut web = workload(&json!({
        "initContainers": [{
            "name": "init", "image": "example.com/init",
            "envFrom": [{"configMapRef": {"name": "init"}}, {"secretRef": {"name": "init"}}],
        }],
        "containers": [{
            "name": "main", "image": "example.com/web",
            "envFrom": [{"configMapRef": {"name": "whole"}}, {"secretRef": {"name": "whole"}}],
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": single("single")}},
                {"name": "B", "valueFrom": {"secretKeyRef": single("single")}},
            ],
        }],
        "volumes": [
            {"name": "map", "configMap": {"name": "mounted"}},
            {"name": "secret", "secret": {"secretName": "mounted"}},
            {"name": "projected", "projected": {"sources": [
                {"configMap": {"name": "projected", "items": items}},
                {"secret": {"name": "projected", "items": items}},
            ]}},
        ],
    }));
    web["metadata"]["annotations"][EXTRA_CONFIG_MAPS] = "extra".into();
    web["metadata"]["annotations"][EXTRA_SECRETS] = format!("extra, {other}/extra").into();
    bench.create::<Deployment>("web", web).await;
    let stage = Stage::<Deployment>::start(bench, &[&other]);
    let mut hash = stage.until_hash("web", None).await;
    for name in maps {
        let used = json!({"data": {"used": "2"}});
        stage.bench.patch::<ConfigMap>(name, used).await;
        hash = stage.until_hash("web", Some(&hash)).await;
        stage.bench.patch::<Secret>(name, json!({"stringData": {"used": "2"}})).await;
        hash = stage.until_hash("web", Some(&hash)).await;
    }
    let patch = Patch::Merge(json!({"stringData": {"any": "1"}}));
    elsewhere.patch("extra", &PatchParams::default(), &patch).await.expect("patched");
    hash = stage.until_hash("web", Some(&hash)).await;

    for name in ["projected", "single"] {
        stage.bench.patch::<ConfigMap>(name, json!({"data": {"other": "2"}})).await;
        stage.bench.patch::<Secret>(name, json!({"stringData": {"other": "2"}})).await;
    }
    rest().await;
    assert_eq!(stage.bench.hash::<Deployment>("web").await, Some(hash), "nobody uses these keys");
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn object_that_is_no_longer_referred_to_runs_nothing() {
    let bench = bench(true).await;
    bench.create::<Secret>("other", secret("one")).await;
    let stage = Stage::<Deployment>::start(bench, &[]);
    let hash = stage.until_hash("web", None).await;
    let container =
        workload_with(&password("other"))["spec"]["template"]["spec"]["containers"].take();
    let template = json!({"spec": {"template": {"spec": {"containers": container}}}});
    stage.bench.patch::<Deployment>("web", template).await;
    let hash = stage.until_hash("web", Some(&hash)).await;
    rest().await;
    let runs = stage.runs("web");
    stage.bench.patch::<Secret>("password", secret("two")).await;
    rest().await;
    assert_eq!(stage.runs("web"), runs);
    stage.bench.patch::<Secret>("other", secret("two")).await;
    stage.until_hash("web", Some(&hash)).await;
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn workload_that_does_not_ask_is_left_alone() {
    let stage = Stage::<Deployment>::start(bench(false).await, &[]);
    rest().await;
    let runs = stage.runs("web");
    stage.bench.patch::<Secret>("password", secret("two")).await;
    rest().await;
    assert_eq!((stage.runs("web"), stage.bench.hash::<Deployment>("web").await), (runs, None));
    assert!(stage.bench.events().await.is_empty());

    let asks = |value: Value| json!({"metadata": {"annotations": {RESTART: value}}});
    stage.bench.patch::<Deployment>("web", asks("true".into())).await;
    let hash = stage.until_hash("web", None).await;
    stage.bench.patch::<Deployment>("web", asks(Value::Null)).await;
    rest().await;
    let runs = stage.runs("web");
    stage.bench.patch::<Secret>("password", secret("three")).await;
    rest().await;
    assert_eq!(stage.runs("web"), runs);
    assert_eq!(stage.bench.hash::<Deployment>("web").await, Some(hash), "it stays");
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_workload_is_run_by_nothing() {
    let stage = Stage::<Deployment>::start(bench(true).await, &[]);
    stage.until_hash("web", None).await;
    stage.bench.delete::<Deployment>("web").await;
    rest().await;
    let runs = stage.runs("web");
    stage.bench.patch::<Secret>("password", secret("two")).await;
    rest().await;
    assert_eq!(stage.runs("web"), runs);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn missing_object_and_missing_key_are_waited_for() {
    let bench = Bench::embedded().await;
    bench.create::<Deployment>("web", workload_with(&password("password"))).await;
    let stage = Stage::<Deployment>::start(bench, &[]);
    let secret_name = format!("Secret {}/password", stage.bench.namespace);
    stage.until_event("web", "ConfigMissing", &format!("is missing: {secret_name}")).await;
    rest().await;
    assert_eq!((stage.runs("web"), stage.bench.hash::<Deployment>("web").await), (1, None));

    stage.bench.create::<Secret>("password", json!({"stringData": {"user": "me"}})).await;
    let key = format!("is missing: the key \"password\" of {secret_name}");
    stage.until_event("web", "ConfigMissing", &key).await;
    assert_eq!(stage.bench.hash::<Deployment>("web").await, None);

    stage.bench.patch::<Secret>("password", secret("one")).await;
    stage.until_hash("web", None).await;
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_of_an_optional_object_restarts_and_of_a_required_one_does_not() {
    let bench = bench(true).await;
    let extra = json!({"metadata": {"annotations": {EXTRA_CONFIG_MAPS: "extra"}}});
    bench.patch::<Deployment>("web", extra).await;
    bench.create::<ConfigMap>("extra", json!({"data": {"a": "1"}})).await;
    let stage = Stage::<Deployment>::start(bench, &[]);
    let hash = stage.until_hash("web", None).await;
    stage.bench.delete::<ConfigMap>("extra").await;
    let hash = stage.until_hash("web", Some(&hash)).await;

    stage.bench.delete::<Secret>("password").await;
    rest().await;
    assert_eq!(stage.bench.hash::<Deployment>("web").await.as_ref(), Some(&hash));
    // The same content under the same name is no change.
    stage.bench.create::<Secret>("password", secret("one")).await;
    rest().await;
    assert_eq!(stage.bench.hash::<Deployment>("web").await, Some(hash));
    assert_eq!(
        stage.bench.reasons("web").await,
        ["ConfigChanged", "ConfigChanged", "ConfigMissing"]
    );
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn status_of_a_workload_runs_nothing_and_metadata_of_a_secret_writes_nothing() {
    let stage = Stage::<Deployment>::start(bench(true).await, &[]);
    stage.until_hash("web", None).await;
    rest().await;
    let runs = stage.runs("web");
    let status = Patch::Merge(json!({"status": {"replicas": 1, "observedGeneration": 2}}));
    let api = stage.bench.api::<Deployment>();
    let web = api.patch_status("web", &PatchParams::default(), &status).await.expect("patched");
    rest().await;
    assert_eq!(stage.runs("web"), runs);

    let label = json!({"metadata": {"labels": {"a": "b"}}});
    stage.bench.patch::<Secret>("password", label).await;
    rest().await;
    assert_eq!(stage.runs("web"), runs + 1);
    let same: Deployment = stage.bench.get("web").await;
    assert_eq!(same.resource_version(), web.resource_version());
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn start_with_many_hashed_workloads_writes_nothing() {
    let bench = bench(true).await;
    for number in 0..50 {
        let web = workload_with(&password("password"));
        bench.create::<Deployment>(&format!("web-{number}"), web).await;
    }
    let first = Stage::<Deployment>::start(bench, &[]);
    rest().await;
    let Bench { cluster, client, namespace } = &first.bench;
    let bench =
        Bench { cluster: cluster.clone(), client: client.clone(), namespace: namespace.clone() };
    first.end().await;
    let versions = async |bench: &Bench| {
        let all = bench.api::<Deployment>().list(&ListParams::default()).await.expect("a list");
        assert!(all.iter().all(|web| web.hash().is_some()));
        all.iter().map(Deployment::resource_version).collect::<Vec<_>>()
    };
    let before = versions(&bench).await;
    let second = Stage::<Deployment>::start(bench, &[]);
    rest().await;
    assert_eq!(second.runs("web-49"), 1);
    assert_eq!(versions(&second.bench).await, before);
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn conflict_is_retried_in_the_same_slot_and_the_event_follows_the_write() {
    let bench = bench(true).await;
    let conflict = FaultRule::new(Fault::Fail { code: 409, retry_after: None });
    let server = bench.cluster.server().expect("it is embedded").clone();
    let conflicts = server.faults().add(conflict.verb("patch").resource("deployments"));
    // A second slot would be hours away.
    let throttle = Throttle::new(0.001, 1).expect("valid");
    let stage = Stage::<Deployment>::start_with(bench, &[], throttle);
    rest().await;
    assert!(stage.runs("web") > 1);
    assert!(stage.bench.events().await.is_empty());

    server.faults().remove(conflicts);
    let theirs = json!({"metadata": {"labels": {"theirs": "yes"}}});
    stage.bench.patch::<Deployment>("web", theirs).await;
    for _ in 0..20 {
        rest().await;
    }
    assert!(stage.bench.hash::<Deployment>("web").await.is_some());
    assert_eq!(stage.bench.get::<Deployment>("web").await.labels()["theirs"], "yes");
    assert_eq!(stage.bench.reasons("web").await, ["ConfigChanged"]);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn wave_of_restarts_is_spaced_and_holds_up_nobody_else() {
    let bench = bench(true).await;
    for number in 1..150 {
        let web = workload_with(&password("password"));
        bench.create::<Deployment>(&format!("web-{number}"), web).await;
    }
    let stage =
        Stage::<Deployment>::start_with(bench, &[], Throttle::new(1.0, 100).expect("valid"));
    let restarted = async || {
        let all =
            stage.bench.api::<Deployment>().list(&ListParams::default()).await.expect("a list");
        all.iter().filter(|web| web.hash().is_some()).count()
    };
    // The clock stands at half a second, then at one and a half.
    rest().await;
    assert_eq!(restarted().await, 100);
    stage.bench.create::<Deployment>("other", workload_with(&password("missing"))).await;
    rest().await;
    assert_eq!(stage.runs("other"), 1);
    rest().await;
    assert_eq!(restarted().await, 101);
    for _ in 0..100 {
        rest().await;
    }
    assert_eq!(restarted().await, 150);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn manager_restarts_all_kinds_with_one_throttle() {
    let bench = bench(true).await;
    bench.create::<StatefulSet>("web", workload_with(&password("password"))).await;
    bench.create::<DaemonSet>("web", workload_with(&password("password"))).await;
    let operator = manager(bench.options(), Throttle::new(0.1, 1).expect("valid"));
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    running.spawn(bench.connected(operator).run_until(stop.clone()));
    for expected in 1..=3 {
        // The slots are ten seconds apart, and the first look is after five.
        for _ in 0..(if expected == 1 { 10 } else { 20 }) {
            rest().await;
        }
        let hashes = [
            bench.hash::<Deployment>("web").await,
            bench.hash::<StatefulSet>("web").await,
            bench.hash::<DaemonSet>("web").await,
        ];
        assert_eq!(hashes.iter().flatten().count(), expected);
        assert_eq!(hashes.iter().flatten().collect::<BTreeSet<_>>().len(), 1, "the same");
    }
    stop.cancel();
    running.join_next().await.expect("it ran").expect("no panic").expect("it ends well");
}

#[tokio::test(start_paused = true)]
async fn plan_shows_every_restart_and_changes_nothing() {
    let bench = bench(true).await;
    bench.create::<StatefulSet>("web", workload_with(&password("password"))).await;
    bench.create::<DaemonSet>("web", workload_with(&password("password"))).await;
    // There is only one slot, but a plan has no time.
    let operator = manager(bench.options(), Throttle::new(0.1, 1).expect("valid"));
    let plan = bench.connected(operator).plan().await.expect("a plan").to_string();
    for kind in ["deployments", "statefulsets", "daemonsets"] {
        let write = format!("~ {kind}.apps {}/web", bench.namespace);
        assert!(plan.contains(&write), "{write} is not in:\n{plan}");
    }
    assert!(plan.contains("config-hash"), "{plan}");
    assert_eq!(bench.hash::<Deployment>("web").await, None);
    assert!(bench.events().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn content_of_a_secret_is_shown_nowhere() {
    let bench = Bench::embedded().await;
    bench.create::<Deployment>("web", workload_with(&password("password"))).await;
    let stage = Stage::<Deployment>::start(bench, &[]);
    stage.bench.create::<Secret>("password", json!({"stringData": {"key": "hunter2"}})).await;
    rest().await;
    stage.bench.patch::<Secret>("password", secret("hunter2")).await;
    stage.until_hash("web", None).await;
    rest().await;
    let web: Deployment = stage.bench.get("web").await;
    let runs = stage.controller.recent_runs(100);
    let shown = format!("{:?} {:?} {runs:?}", stage.bench.events().await, web);
    assert!(shown.contains("ConfigMissing") && shown.contains("ConfigChanged"));
    assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMg"), "{shown}");
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_replaced() {
    let bench = bench(true).await;
    bench.create::<StatefulSet>("db", workload_with(&password("password"))).await;
    let factory = SharedInformerFactory::new(bench.client.clone());
    let operator =
        bench.connected(manager(bench.options(), Throttle::new(1.0, 100).expect("valid")));
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let (workloads, token) = (Workloads::new(&factory), stop.clone());
    running.spawn(async move { workloads.run(token).await.expect("the workloads run") });
    let token = stop.clone();
    running.spawn(async move { operator.run_until(token).await.expect("the operator runs") });
    let pods = async || {
        for _ in 0..20 {
            rest().await;
        }
        let pods = bench.api::<Pod>().list(&ListParams::default()).await.expect("a list");
        let with_hash = |pod: &Pod| pod.annotations().contains_key(HASH);
        assert_eq!(pods.iter().filter(|pod| with_hash(pod)).count(), 2);
        pods.iter().map(|pod| pod.uid().expect("a uid")).collect::<BTreeSet<_>>()
    };
    let before = pods().await;
    bench.patch::<Secret>("password", secret("two")).await;
    let after = pods().await;
    assert_eq!((before.len(), after.len(), before.intersection(&after).count()), (2, 2, 0));
    stop.cancel();
    while let Some(ended) = running.join_next().await {
        ended.expect("no panic");
    }
    factory.shut_down().await;
}
