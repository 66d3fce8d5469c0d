//! Special behaviour of built-in kinds, as far as controllers encounter it.

use serde_json::json;

use crate::Script;
use crate::fixtures::{deployment, lease, pod};
use crate::request::Request;
use crate::script::MERGE_PATCH;

pub(super) async fn lease_is_taken_and_renewed(t: &mut Script) {
    let read = t.post(t.leases(), lease("a")).await;
    let path = format!("{}/a", t.leases());
    let renewed = read.edited(|object| {
        object["spec"]["renewTime"] = json!("2001-01-01T00:00:00.000001Z");
        object["spec"]["holderIdentity"] = json!("you");
    });
    t.put(format!("{path}?timeout=5s"), renewed.clone()).await;
    t.put(&path, renewed).await;
}

pub(super) async fn deployment_gets_its_defaults(t: &mut Script) {
    t.post(t.deployments(), deployment("a")).await;
}

pub(super) async fn deployment_generation_counts_its_spec(t: &mut Script) {
    t.given(t.deployments(), deployment("a")).await;
    let path = format!("{}/a", t.deployments());
    let parts = ["/metadata/generation", "/metadata/resourceVersion"];
    for change in [
        json!({"spec": {"replicas": 2}}),
        json!({"spec": {"replicas": 2}}),
        json!({"metadata": {"annotations": {"n": "1"}}}),
        json!({"spec": {"template": {"metadata": {"annotations": {"n": "1"}}}}}),
    ] {
        t.pick(Request::patch(&path, MERGE_PATCH, change), &parts).await;
    }
}

pub(super) async fn pod_is_pending_until_somebody_runs_it(t: &mut Script) {
    let parts = ["/metadata/generation", "/spec/restartPolicy", "/status"];
    t.pick(Request::post(t.pods(), pod("a")), &parts).await;
    let path = format!("{}/a", t.pods());
    let running = json!({"status": {"phase": "Running", "podIP": "10.0.0.1"}});
    let merge = |path: &str, change| Request::patch(path, MERGE_PATCH, change);
    t.pick(merge(&path, running.clone()), &["/status/phase"]).await;
    t.pick(merge(&format!("{path}/status"), running), &["/status/phase", "/status/podIP"]).await;
}

pub(super) async fn pod_is_bound_to_a_node(t: &mut Script) {
    t.given(t.pods(), pod("a")).await;
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    });
    let path = format!("{}/a", t.pods());
    t.post(format!("{path}/binding"), binding.clone()).await;
    t.pick(Request::get(&path), &["/spec/nodeName", "/metadata/generation"]).await;
    t.post(format!("{path}/binding"), binding).await;
}

pub(super) async fn bound_pod_has_the_place_of_its_node(t: &mut Script) {
    let node = format!("{}-node", t.ns());
    let labels = json!({
        "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "b", "other": "c",
    });
    let object = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels},
    });
    t.given("/api/v1/nodes", object).await;
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.dev/wait"}]);
    let mut elsewhere = pod("elsewhere");
    elsewhere["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "z", "app": "a"});
    for object in [gated, elsewhere] {
        t.given(t.pods(), object).await;
    }
    for name in ["gated", "elsewhere"] {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let path = format!("{}/{name}", t.pods());
        t.post(format!("{path}/binding"), binding).await;
        let scheduled = ["/status/conditions/0/type", "/status/conditions/0/status"];
        t.pick(Request::get(&path), &["/metadata/labels", scheduled[0], scheduled[1]]).await;
    }
}

pub(super) async fn event_is_one_object_in_two_groups(t: &mut Script) {
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": t.ns()},
        "reason": "Started",
        "message": "It runs.",
        "type": "Normal",
        "count": 1,
        "source": {"component": "me"},
        "firstTimestamp": "2001-01-01T00:00:00Z",
        "lastTimestamp": "2001-01-01T00:00:00Z",
    });
    t.post(format!("/api/v1/namespaces/{}/events", t.ns()), event).await;
    let newer = format!("/apis/events.k8s.io/v1/namespaces/{}/events", t.ns());
    t.get(format!("{newer}/a")).await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "b"},
        "eventTime": "2001-01-01T00:00:00.000001Z",
        "regarding": {"kind": "Pod", "name": "p", "namespace": t.ns()},
        "reason": "Started",
        "action": "Start",
        "note": "It runs.",
        "type": "Normal",
        "reportingController": "example.dev/me",
        "reportingInstance": "me-1",
    });
    t.post(newer, event).await;
    t.get(format!("/api/v1/namespaces/{}/events/b", t.ns())).await;
}

pub(super) async fn some_kinds_answer_a_deletion_with_the_object(t: &mut Script) {
    let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", t.ns());
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    t.given(&accounts, account).await;
    t.delete(format!("{accounts}/a")).await;
    t.given(t.pods(), pod("a")).await;
    let parts = ["/kind", "/metadata/name", "/metadata/deletionTimestamp", "/status/phase"];
    t.pick(Request::delete(format!("{}/a", t.pods())), &parts).await;
    t.given(t.leases(), lease("a")).await;
    t.delete(format!("{}/a", t.leases())).await;
}

pub(super) async fn pod_on_a_node_is_given_time_to_end(t: &mut Script) {
    let mut on_a_node = pod("a");
    on_a_node["spec"]["nodeName"] = json!("node-1");
    t.given(t.pods(), on_a_node).await;
    let path = format!("{}/a", t.pods());
    let parts = [
        "/kind",
        "/metadata/deletionGracePeriodSeconds",
        "/metadata/deletionTimestamp",
        "/metadata/generation",
    ];
    t.pick(Request::delete(&path), &parts).await;
    t.pick(Request::get(&path), &parts).await;
    t.pick(Request::delete(format!("{path}?gracePeriodSeconds=0")), &parts).await;
    t.get(&path).await;
}

pub(super) async fn role_names_may_hold_colons(t: &mut Script) {
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles", t.ns());
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "system:Some_Thing"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    t.post(&roles, role).await;
    t.get(format!("{roles}/system:Some_Thing")).await;
}
