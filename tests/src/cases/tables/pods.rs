//! Pods in every state that their containers can cause.

use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::{pod, with};
use crate::request::Request;

/// A time that the normaliser keeps.
const LONG_AGO: &str = "2001-01-01T00:00:00Z";

impl Script {
    /// Creates pods with one container, these names and statuses, and records their table.
    async fn pods_with(&mut self, pods: &[(&str, Value)]) {
        let pods = pods.iter().map(|(name, status)| (pod(name), status.clone())).collect();
        self.given_pods(pods).await;
        self.rows(self.pods()).await;
    }

    async fn given_pods(&mut self, pods: Vec<(Value, Value)>) {
        for (pod, status) in pods {
            let path =
                format!("{}/{}", self.pods(), pod["metadata"]["name"].as_str().unwrap_or(""));
            self.given(self.pods(), pod).await;
            self.set_status(&path, status).await;
        }
    }
}

/// A pod with these init containers besides its one container.
fn pod_with_init(name: &str, init: &[(&str, bool)]) -> Value {
    let container = |(name, sidecar): &(&str, bool)| {
        let mut container = json!({"name": name, "image": "init:1"});
        if *sidecar {
            container["restartPolicy"] = json!("Always");
        }
        container
    };
    with(pod(name), "/spec/initContainers", init.iter().map(container).collect())
}

fn pod_with_two(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"] =
        json!([{"name": "main", "image": "main:1"}, {"name": "other", "image": "other:1"}]);
    pod
}

/// The status of a container.
fn container(name: &str, ready: bool, state: Value) -> Value {
    let status = json!({
        "name": name, "ready": ready, "restartCount": 0, "image": "main:1", "imageID": "",
    });
    with(status, "/state", state)
}

/// The status of a pod with one container.
fn one_container(phase: &str, container: Value) -> Value {
    with(json!({ "phase": phase }), "/containerStatuses", Value::Array(vec![container]))
}

fn running() -> Value {
    json!({"running": {"startedAt": LONG_AGO}})
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason}})
}

fn terminated(code: i64, signal: i64, reason: &str) -> Value {
    json!({"terminated": {"exitCode": code, "signal": signal, "reason": reason}})
}

/// The same container after some restarts.
fn restarted(mut container: Value, count: i64, ended: Option<&str>) -> Value {
    container["restartCount"] = json!(count);
    if let Some(ended) = ended {
        container["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": ended}});
    }
    container
}

fn condition(condition_type: &str, status: &str) -> Value {
    json!({"type": condition_type, "status": status})
}

pub(in crate::cases) async fn pods_by_phase(t: &mut Script) {
    let phase = |phase: &str| json!({ "phase": phase });
    t.pods_with(&[
        ("a", json!({})),
        ("b", phase("Running")),
        ("c", phase("Succeeded")),
        ("d", phase("Failed")),
        ("e", phase("Unknown")),
        ("f", json!({"phase": "Failed", "reason": "Evicted"})),
    ])
    .await;
}

pub(in crate::cases) async fn pods_whose_containers_wait(t: &mut Script) {
    let status = |state: Value| one_container("Pending", container("main", false, state));
    t.pods_with(&[
        ("a", status(waiting("ContainerCreating"))),
        ("b", status(waiting("CrashLoopBackOff"))),
        ("c", status(waiting("ImagePullBackOff"))),
        ("d", status(waiting(""))),
        ("e", status(json!({}))),
        ("f", status(json!({"waiting": {}}))),
    ])
    .await;
}

pub(in crate::cases) async fn pods_whose_containers_run(t: &mut Script) {
    let status = |ready: bool| one_container("Running", container("main", ready, running()));
    t.pods_with(&[("a", status(true)), ("b", status(false))]).await;
}

pub(in crate::cases) async fn pods_whose_containers_ended(t: &mut Script) {
    let status = |state: Value| one_container("Running", container("main", false, state));
    t.pods_with(&[
        ("a", status(terminated(0, 0, "Completed"))),
        ("b", status(terminated(1, 0, "Error"))),
        ("c", status(terminated(137, 9, "OOMKilled"))),
        ("d", status(terminated(137, 9, ""))),
        ("e", status(terminated(3, 0, ""))),
        ("f", status(terminated(0, 0, ""))),
    ])
    .await;
}

pub(in crate::cases) async fn pods_with_containers_in_different_states(t: &mut Script) {
    let status = |ready: Option<&str>, main: Value, other: Value| {
        json!({
            "phase": "Running",
            "conditions": ready.iter().map(|ready| condition("Ready", ready)).collect::<Value>(),
            "containerStatuses": [
                container("main", main["running"].is_object(), main),
                container("other", other["running"].is_object(), other),
            ],
        })
    };
    let completed = || terminated(0, 0, "Completed");
    let pods = [
        ("a", status(Some("True"), completed(), running())),
        ("b", status(Some("False"), completed(), running())),
        ("c", status(None, completed(), running())),
        ("d", status(None, completed(), terminated(1, 0, "Error"))),
        ("e", status(None, terminated(1, 0, "Error"), completed())),
        ("f", status(None, running(), waiting("CrashLoopBackOff"))),
        ("g", status(None, waiting("CrashLoopBackOff"), terminated(1, 0, "Error"))),
    ];
    let pods = pods.into_iter().map(|(name, status)| (pod_with_two(name), status)).collect();
    t.given_pods(pods).await;
    t.rows(t.pods()).await;
}

pub(in crate::cases) async fn pods_that_initialize(t: &mut Script) {
    let status = |first: Value, second: Value| {
        json!({
            "phase": "Pending",
            "initContainerStatuses": [
                container("one", false, first),
                container("two", false, second),
            ],
            "containerStatuses": [container("main", false, waiting("PodInitializing"))],
        })
    };
    let done = || terminated(0, 0, "Completed");
    let late = || waiting("PodInitializing");
    let initialized = |mut status: Value| {
        status["conditions"] = json!([condition("Initialized", "True")]);
        status
    };
    let pods = [
        ("a", status(running(), late())),
        ("b", status(done(), running())),
        ("c", status(done(), done())),
        ("d", status(late(), late())),
        ("e", status(waiting("CrashLoopBackOff"), late())),
        ("f", status(done(), terminated(1, 0, "Error"))),
        ("g", status(terminated(2, 0, ""), late())),
        ("h", status(terminated(137, 9, ""), late())),
        ("i", initialized(status(running(), late()))),
    ];
    let init = [("one", false), ("two", false)];
    let pods = pods.into_iter().map(|(name, status)| (pod_with_init(name, &init), status));
    t.given_pods(pods.collect()).await;
    t.rows(t.pods()).await;
}

pub(in crate::cases) async fn pods_with_sidecars(t: &mut Script) {
    let sidecar = |started: bool, ready: bool| {
        let mut status = restarted(container("side", ready, running()), 2, Some(LONG_AGO));
        status["started"] = json!(started);
        status
    };
    let done = || container("one", false, terminated(0, 0, "Completed"));
    let status = |sidecar: Value| {
        json!({
            "phase": "Running",
            "initContainerStatuses": [done(), sidecar],
            "containerStatuses": [restarted(container("main", true, running()), 1, None)],
        })
    };
    let pods = [
        ("a", status(sidecar(true, true))),
        ("b", status(sidecar(true, false))),
        ("c", status(sidecar(false, false))),
    ];
    let init = [("one", false), ("side", true)];
    let pods = pods.into_iter().map(|(name, status)| (pod_with_init(name, &init), status));
    t.given_pods(pods.collect()).await;
    t.rows(t.pods()).await;
}

pub(in crate::cases) async fn pods_that_were_restarted(t: &mut Script) {
    let status = |count: i64, ended: Option<&str>| {
        let main = restarted(container("main", true, running()), count, ended);
        json!({"phase": "Running", "containerStatuses": [main]})
    };
    t.pods_with(&[
        ("a", status(0, None)),
        ("b", status(3, None)),
        ("c", status(3, Some(LONG_AGO))),
        ("d", status(0, Some(LONG_AGO))),
        // A time in the future has no valid age.
        ("e", status(1, Some("2999-01-01T00:00:00Z"))),
    ])
    .await;
}

pub(in crate::cases) async fn pods_that_end(t: &mut Script) {
    let held = |name: &str| with(pod(name), "/metadata/finalizers", json!(["example.dev/f"]));
    t.given_pods(vec![
        (held("a"), json!({"phase": "Running"})),
        (held("b"), json!({"phase": "Succeeded"})),
        (held("c"), json!({"phase": "Running", "reason": "NodeLost"})),
        (held("d"), json!({"phase": "Failed", "reason": "NodeLost"})),
    ])
    .await;
    for name in ["a", "b", "c", "d"] {
        t.look(Request::delete(format!("{}/{name}", t.pods()))).await;
    }
    t.rows(t.pods()).await;
}

pub(in crate::cases) async fn pods_that_may_not_be_scheduled(t: &mut Script) {
    let gated = with(pod("a"), "/spec/schedulingGates", json!([{"name": "example.dev/g"}]));
    t.given(t.pods(), gated).await;
    t.rows(t.pods()).await;
}

pub(in crate::cases) async fn pods_with_wide_cells(t: &mut Script) {
    let gates = json!([{"conditionType": "example.dev/a"}, {"conditionType": "example.dev/b"}]);
    let mut first = with(pod("a"), "/spec/readinessGates", gates);
    first["spec"]["nodeName"] = json!("node-1");
    let status = json!({
        "phase": "Running",
        "podIP": "10.1.2.3",
        "podIPs": [{"ip": "10.1.2.3"}, {"ip": "fd00::1"}],
        "conditions": [condition("example.dev/a", "True"), condition("example.dev/b", "False")],
    });
    let nominated = json!({"nominatedNodeName": "node-2"});
    t.given_pods(vec![(first, status), (pod("b"), nominated)]).await;
    t.rows(t.pods()).await;
}
