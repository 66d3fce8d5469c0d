//! A manager asks at its start whether its account may do what it needs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Level;
use windlass_informer::ClientStack;
use windlass_manager::{Manager, ManagerError, Options};
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};
use windlass_testserver::{Log, TestServer, on_each_server_with_roles};

/// How the line begins that names what is missing.
const LACKS: &str = "this account lacks rights that the operator needs: ";

struct Nothing;

impl Reconcile<ConfigMap> for Nothing {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "widgets.rights.example.com"},
        "spec": {
            "group": "rights.example.com",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    }))
    .expect("a definition")
}

/// A manager of `ConfigMaps` in this namespace, where its Lease is, too.
fn manager(namespace: &str) -> Manager {
    let mut options = Options::default().without_http();
    options.namespaces = vec![namespace.to_owned()];
    options.leader_election_namespace = Some(namespace.to_owned());
    Manager::new(options)
        .without_logs()
        .leader_election("operator")
        .controller(Controller::named("configmap", Watch::<ConfigMap>::new()), Nothing)
}

/// A client of an account.
fn connect(cluster: &TestServer, stack: ClientStack, token: &str) -> kube::Client {
    match (cluster.server(), cluster.control_plane()) {
        (Some(server), _) => stack.around(server.service_with_token(token), "default"),
        (None, Some(real)) => stack.connect(real.config_as(token)).expect("a client"),
        (None, None) => unreachable!("a cluster is one of the two"),
    }
}

/// Runs a manager until its log has this, and stops it. Returns how it ended.
async fn run_until_logged(manager: Manager, log: &Log, part: &str) -> Result<(), ManagerError> {
    let stop = CancellationToken::new();
    let mut task: JoinHandle<_> = TaskTracker::new().spawn(manager.run_until(stop.clone()));
    tokio::select! {
        _ = log.wait_for(part) => {}
        ended = &mut task => panic!("{ended:?}: {}", log.text()),
    }
    stop.cancel();
    task.await.expect("it does not panic")
}

on_each_server_with_roles!(every_missing_verb_is_named_in_one_line);
async fn every_missing_verb_is_named_in_one_line(cluster: TestServer) {
    let namespace = cluster.namespace("rights").await.expect("a namespace");
    let account = cluster.account(&namespace, "operator").await.expect("an account");
    let maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
    let leases = json!({
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create"],
    });
    account.grant(&[maps, leases]).await.expect("rights");
    let log = Log::start();
    let (connected, token) = (cluster.clone(), account.token().to_owned());
    let manager = manager(&namespace);
    let manager = manager.connect(move |stack| Ok(connect(&connected, stack, &token)));
    // It waits for a cache that is never filled: it is stopped, and that is no error.
    run_until_logged(manager, &log, LACKS).await.expect("it ends well");
    let lines = log.lines_with(LACKS);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let (_, missing) = lines[0].split_once(LACKS).expect("the beginning");
    let expected = format!(
        "watch configmaps in the namespace {namespace}; create, patch events.events.k8s.io in \
             the namespace {namespace}; update leases.coordination.k8s.io in the namespace \
             {namespace}; add them to its Role (`cargo windlass rbac --write`"
    );
    assert!(missing.starts_with(&expected), "{missing}");
    assert!(lines[0].contains("WARN"), "{lines:?}");
}

on_each_server_with_roles!(account_with_all_rights_is_not_told_anything);
async fn account_with_all_rights_is_not_told_anything(cluster: TestServer) {
    let namespace = cluster.namespace("rights").await.expect("a namespace");
    let account = cluster.account(&namespace, "operator").await.expect("an account");
    let rule = |group: &str, plural: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [plural], "verbs": verbs});
    account
        .grant(&[
            rule("", "configmaps", &["list", "watch"]),
            rule("coordination.k8s.io", "leases", &["get", "create", "update"]),
            rule("events.k8s.io", "events", &["create", "patch"]),
        ])
        .await
        .expect("rights");
    let log = Log::start_at(Level::DEBUG);
    let (connected, token) = (cluster.clone(), account.token().to_owned());
    let manager = manager(&namespace);
    let manager = manager.connect(move |stack| Ok(connect(&connected, stack, &token)));
    run_until_logged(manager, &log, "the account has all rights").await.expect("it ends well");
    assert_eq!(log.lines_with(LACKS), [""; 0]);
}

on_each_server_with_roles!(manager_that_cannot_start_names_everything_that_is_missing);
async fn manager_that_cannot_start_names_everything_that_is_missing(cluster: TestServer) {
    let namespace = cluster.namespace("rights").await.expect("a namespace");
    let account = cluster.account(&namespace, "operator").await.expect("an account");
    let log = Log::start();
    let (connected, token) = (cluster.clone(), account.token().to_owned());
    let manager = manager(&namespace).install(definition());
    let manager = manager.connect(move |stack| Ok(connect(&connected, stack, &token)));
    let error = manager.run_until(CancellationToken::new()).await.expect_err("no right");
    assert!(error.to_string().contains("customresourcedefinitions"), "{error}");
    let lines = log.lines_with(LACKS);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for missing in ["leases.coordination.k8s.io", "events.events.k8s.io", "get, patch custom"] {
        assert!(lines[0].contains(missing), "{lines:?}");
    }
}

on_each_server_with_roles!(rights_follow_the_declared_kinds_of_children);
/// What a controller makes or made is declared, so nothing has to be tried to know it.
async fn rights_follow_the_declared_kinds_of_children(cluster: TestServer) {
    let namespace = cluster.namespace("rights").await.expect("a namespace");
    let account = cluster.account(&namespace, "operator").await.expect("an account");
    let log = Log::start();
    let (connected, token) = (cluster.clone(), account.token().to_owned());
    let mut options = Options::default().without_http();
    options.namespaces = vec![namespace.clone()];
    let builder = Controller::named("configmap", Watch::<ConfigMap>::new())
        .owns(Watch::<Service>::new())
        .makes::<Secret>()
        .retires::<Pod>();
    let manager = Manager::new(options).without_logs().controller(builder, Nothing);
    let manager = manager.connect(move |stack| Ok(connect(&connected, stack, &token)));
    run_until_logged(manager, &log, LACKS).await.expect("it ends well");
    let lines = log.lines_with(LACKS);
    for missing in [
        "list, watch services in the namespace",
        "get, list, create, patch, delete secrets in the namespace",
        "get, list, delete pods in the namespace",
    ] {
        assert!(lines[0].contains(missing), "{missing}: {lines:?}");
    }
}

/// A manager of an embedded server, which treats reviews like this.
fn manager_with(fault: Fault) -> Manager {
    let server = ApiServer::new();
    server.faults().add(FaultRule::new(fault).resource("selfsubjectaccessreviews"));
    manager("default").connect(move |stack| Ok(stack.around(server.service(), "default")))
}

#[tokio::test(start_paused = true)]
async fn review_that_is_refused_is_mentioned_to_nobody_but_debuggers() {
    let log = Log::start_at(Level::DEBUG);
    let refused = Fault::Fail { code: 403, retry_after: None };
    run_until_logged(manager_with(refused), &log, "could not be asked").await.expect("it ends");
    let lines = log.lines_with("could not be asked");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("DEBUG"), "{lines:?}");
    let lines = log.lines_with("selfsubjectaccessreviews");
    assert!(lines.iter().all(|line| line.contains("DEBUG")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn start_does_not_wait_for_the_review() {
    let log = Log::start_at(Level::DEBUG);
    let manager = manager_with(Fault::Hang);
    let (view, stop) = (manager.view(), CancellationToken::new());
    let task = TaskTracker::new().spawn(manager.run_until(stop.clone()));
    while view.controllers().is_empty() || view.obstacle().is_some() {
        sleep(Duration::from_millis(10)).await;
    }
    // It still hangs, and has not timed out.
    assert_eq!(log.lines_with("could not be asked"), [""; 0]);
    stop.cancel();
    task.await.expect("it does not panic").expect("it ends well");
}
