//! Whatever goes wrong at whichever write of a prune, or after it, the end is the same.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::json;
use windlass_reconciler::{
    Action, ControllerBuilder, Error, Reconcile, RunContext, Watch, WriteOptions,
};
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::{Fault, FaultId, FaultRule};

use crate::stage::{api, cluster, does, run_with};

/// What one way without faults writes once the new version runs: three deletions, and the status of
/// the owner, which is an annotation here.
const DELETIONS: u64 = 3;

/// How both versions declare what they make. The new one makes no Services.
#[derive(Clone, Copy)]
enum Version {
    Old,
    New,
}

impl Version {
    fn builder(self) -> fn(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap> {
        match self {
            Self::Old => |builder| builder.makes::<Service>().makes::<Secret>(),
            Self::New => |builder| {
                let secrets =
                    Watch::<Secret>::new().options(|options| options.namespace("default"));
                builder.owns(secrets).retires::<Service>()
            },
        }
    }

    fn reconciler(self) -> impl Reconcile<ConfigMap> {
        does(move |owner: Arc<ConfigMap>, cx: &RunContext| Box::pin(make(self, owner, cx)))
    }
}

async fn make(version: Version, owner: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
    let children = cx.children(&owner).with(WriteOptions::new());
    let (children, word) = match version {
        Version::Old => {
            let (a, b, c) = (secret("a"), secret("b"), secret("c"));
            (children.apply(service()).apply(a).apply(b).apply(c), "old")
        }
        Version::New => (children.apply(secret("a")).apply(secret("d")), "new"),
    };
    children.prune().await?;
    let mut done = ConfigMap::clone(&owner);
    done.annotations_mut().insert("made-by".to_owned(), word.to_owned());
    cx.live().update(&*owner, &done).await?;
    Ok(Action::done())
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("an object")
}

fn service() -> Service {
    let ports = json!([{"port": 80}]);
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"ports": ports}}))
        .expect("an object")
}

/// Runs a version until it has noted that it is done, and nothing is queued.
async fn run_until_done(cluster: &TestServer, version: Version, word: &str) {
    let client = cluster.client().expect("a client");
    let running = run_with(client.clone(), version.builder(), version.reconciler());
    let is_done = async || {
        let owner = api(&client).get("one").await.ok();
        owner.is_some_and(|owner| owner.annotations().get("made-by").is_some_and(|by| by == word))
    };
    while !is_done().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    running.controller.queue().wait_idle().await;
    running.end().await.expect("it stops");
}

/// A cluster on which the old version has made everything.
async fn made_by_old() -> TestServer {
    let (cluster, _client) = cluster().await;
    run_until_done(&cluster, Version::Old, "old").await;
    assert_eq!(picture(&cluster).await, ["a", "b", "c", "web"]);
    cluster
}

async fn picture(cluster: &TestServer) -> Vec<String> {
    let client = cluster.client().expect("a client");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let services: Api<Service> = Api::namespaced(client, "default");
    let labelled = ListParams::default().labels("windlass.dev/controller=configmap");
    let secrets = secrets.list(&labelled).await.expect("a list");
    let services = services.list(&labelled).await.expect("a list");
    let names = secrets.iter().map(Secret::name_any);
    names.chain(services.iter().map(Service::name_any)).collect()
}

/// In the order of the writes: the apply of `d`, the deletions, the annotation.
fn stop_after(cluster: &TestServer, survived: u64, fault: &Fault) -> Vec<FaultId> {
    let faults = cluster.server().expect("it is embedded").faults();
    let rule = |verb: &str| FaultRule::new(fault.clone()).verb(verb);
    let (applies, rest) = (survived.min(1), survived.saturating_sub(1));
    let (deletions, rest) = (rest.min(DELETIONS), rest.saturating_sub(DELETIONS));
    vec![
        faults.add(rule("patch").resource("secrets").name("d").after(applies)),
        faults.add(rule("delete").after(deletions)),
        faults.add(rule("patch").resource("configmaps").after(rest)),
    ]
}

#[tokio::test(start_paused = true)]
async fn without_faults_the_new_version_replaces_the_old_one() {
    let cluster = made_by_old().await;
    run_until_done(&cluster, Version::New, "new").await;
    assert_eq!(picture(&cluster).await, ["a", "d"]);
}

/// The process dies after each of its writes, and another one takes over with empty caches.
#[tokio::test(start_paused = true)]
async fn end_after_any_deletion_or_the_write_after_it_ends_in_the_same() {
    for survived in 0..=DELETIONS + 1 {
        let cluster = made_by_old().await;
        let server = cluster.server().expect("it is embedded");
        let ids = stop_after(&cluster, survived, &Fault::Hang);
        let client = cluster.client().expect("a client");
        let dying = run_with(client, Version::New.builder(), Version::New.reconciler());
        while ids.iter().map(|id| server.faults().times_applied(*id)).sum::<u64>() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(dying);
        for id in ids {
            server.faults().remove(id);
        }
        let deleted = survived.saturating_sub(1).min(DELETIONS);
        let left = 4 + u64::from(survived > 0) - deleted;
        assert_eq!(picture(&cluster).await.len() as u64, left, "after {survived}");
        run_until_done(&cluster, Version::New, "new").await;
        assert_eq!(picture(&cluster).await, ["a", "d"], "after {survived}");
    }
}

/// The write is made, but nobody hears of it; or it is refused.
#[tokio::test(start_paused = true)]
async fn lost_answer_or_failure_of_any_of_them_ends_in_the_same() {
    let fail = |code| Fault::Fail { code, retry_after: None };
    for fault in [Fault::LoseAnswer, fail(409), fail(429), fail(503)] {
        for survived in 0..=DELETIONS + 1 {
            let cluster = made_by_old().await;
            let faults = cluster.server().expect("it is embedded").faults();
            let rule = |verb: &str| FaultRule::new(fault.clone()).verb(verb).times(1);
            match survived {
                0 => faults.add(rule("patch").resource("secrets").name("d")),
                1..=DELETIONS => faults.add(rule("delete").after(survived - 1)),
                _ => faults.add(rule("patch").resource("configmaps")),
            };
            run_until_done(&cluster, Version::New, "new").await;
            assert_eq!(picture(&cluster).await, ["a", "d"], "{fault:?} after {survived}");
        }
    }
}
