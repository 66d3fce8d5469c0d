//! Cells of the kinds that run pods or scale them.

use serde_json::{Value, json};

use super::objects::{core, object};
use super::{table, with_fields};
use crate::Script;
use crate::fixtures::{configmap, deployment, owner, with};
use crate::request::Request;

const APPS: &str = "/apis/apps/v1";
const BATCH: &str = "/apis/batch/v1";

const LONG_AGO: &str = "2001-01-01T00:00:00Z";

/// The template of pods with two containers.
fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "a", "tier": "web"}},
        "spec": {"containers": [
            {"name": "main", "image": "main:1"},
            {"name": "other", "image": "registry.example.dev/other:2"},
        ]},
    })
}

pub(in crate::cases) async fn deployments_and_replica_sets_in_a_table(t: &mut Script) {
    let deployments = t.deployments();
    let expressions = json!([
        {"key": "tier", "operator": "In", "values": ["web", "db"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "app", "operator": "Exists"},
        {"key": "app", "operator": "NotIn", "values": ["b"]},
    ]);
    let spec = json!({
        "replicas": 3,
        "selector": {"matchLabels": {"app": "a"}, "matchExpressions": expressions},
        "template": template(),
    });
    let status = json!({
        "replicas": 4, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1,
    });
    t.given_with(&deployments, deployment("a"), Value::Null).await;
    let whole = object("apps/v1", "Deployment", "b", json!({ "spec": spec }));
    t.given_with(&deployments, whole, status).await;
    t.rows(deployments).await;
    let sets = t.collection(APPS, "replicasets");
    let set = object("apps/v1", "ReplicaSet", "a", json!({ "spec": spec }));
    let status = json!({"replicas": 2, "readyReplicas": 1, "fullyLabeledReplicas": 2});
    t.given_with(&sets, set, status).await;
    t.rows(sets).await;
}

pub(in crate::cases) async fn stateful_and_daemon_sets_in_a_table(t: &mut Script) {
    let sets = t.collection(APPS, "statefulsets");
    let selector = json!({"matchLabels": {"app": "a"}});
    let spec = json!({
        "replicas": 2, "serviceName": "a", "selector": selector, "template": template(),
    });
    let set = object("apps/v1", "StatefulSet", "a", json!({ "spec": spec }));
    t.given_with(&sets, set, json!({"replicas": 2, "readyReplicas": 1})).await;
    t.rows(sets).await;
    let sets = t.collection(APPS, "daemonsets");
    let mut template = template();
    template["spec"]["nodeSelector"] = json!({"disk": "ssd", "arch": "arm"});
    let spec = json!({"selector": selector, "template": template});
    let set = object("apps/v1", "DaemonSet", "a", json!({ "spec": spec }));
    let status = json!({
        "desiredNumberScheduled": 5,
        "currentNumberScheduled": 4,
        "numberReady": 3,
        "updatedNumberScheduled": 2,
        "numberAvailable": 1,
        "numberMisscheduled": 0,
    });
    t.given_with(&sets, set, status).await;
    t.rows(sets).await;
}

pub(in crate::cases) async fn controllers_revisions_and_templates_in_a_table(t: &mut Script) {
    let controllers = t.collection("/api/v1", "replicationcontrollers");
    let spec =
        json!({"replicas": 2, "selector": {"tier": "web", "app": "a"}, "template": template()});
    let controller = core("ReplicationController", "a", json!({ "spec": spec }));
    t.given_with(&controllers, controller, json!({"replicas": 2, "readyReplicas": 1})).await;
    t.rows(controllers).await;
    let templates = t.collection("/api/v1", "podtemplates");
    t.given(&templates, core("PodTemplate", "a", json!({"template": template()}))).await;
    t.rows(templates).await;
    let revisions = t.collection(APPS, "controllerrevisions");
    let revision = |name: &str| {
        object("apps/v1", "ControllerRevision", name, json!({"revision": 7, "data": {"x": 1}}))
    };
    t.given(&revisions, revision("a")).await;
    let parent = t.given(t.configmaps(), configmap("owner")).await;
    let reference = |kind: &str, api_version: &str, controller: bool| {
        json!({
            "apiVersion": api_version, "kind": kind, "name": "owner", "uid": parent.uid(),
            "controller": controller,
        })
    };
    let plain = json!([owner("owner", &parent.uid())]);
    let by_core = json!([reference("ConfigMap", "v1", true)]);
    t.given(&revisions, with(revision("b"), "/metadata/ownerReferences", plain)).await;
    t.given(&revisions, with(revision("c"), "/metadata/ownerReferences", by_core)).await;
    t.rows(revisions).await;
}

pub(in crate::cases) async fn jobs_in_a_table(t: &mut Script) {
    let jobs = t.collection(BATCH, "jobs");
    let job = |name: &str, spec: Value| {
        let mut job = object("batch/v1", "Job", name, json!({ "spec": spec }));
        job["spec"]["template"] = template();
        job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        job
    };
    t.given(&jobs, job("a", json!({}))).await;
    t.given(&jobs, job("b", json!({"completions": 3, "parallelism": 2}))).await;
    t.given(&jobs, job("c", json!({"parallelism": 2}))).await;
    t.given_with(&jobs, job("d", json!({"completions": 2})), json!({"succeeded": 1, "ready": 0}))
        .await;
    let held = with(job("e", json!({})), "/metadata/finalizers", json!(["example.dev/f"]));
    t.given(&jobs, held).await;
    let background = json!({"propagationPolicy": "Background"});
    t.look(Request::delete(format!("{jobs}/e")).json(background)).await;
    let complete = json!({
        "startTime": LONG_AGO,
        "completionTime": "2001-01-01T00:05:07Z",
        "succeeded": 1,
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"},
            {"type": "Complete", "status": "True"},
        ],
    });
    t.given_with(&jobs, job("f", json!({})), complete).await;
    let suspended = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
    t.given_with(&jobs, job("g", json!({"suspend": true})), suspended).await;
    t.rows(&jobs).await;
    // The duration of an unfinished job ends now, so it is not recorded.
    for (name, conditions) in [
        ("h", &["FailureTarget", "Failed"][..]),
        ("i", &["FailureTarget"]),
        ("j", &["SuccessCriteriaMet"]),
    ] {
        let conditions = conditions.iter().map(|stage| json!({"type": stage, "status": "True"}));
        let conditions: Value = conditions.collect();
        let status = json!({"startTime": LONG_AGO, "conditions": conditions});
        t.given_with(&jobs, job(name, json!({})), status).await;
        let answer = t.look(table(format!("{jobs}/{name}"))).await;
        let shown = [0, 1, 2].map(|cell| answer.at(&format!("/rows/0/cells/{cell}")));
        t.note("job", &json!(shown));
    }
}

pub(in crate::cases) async fn cron_jobs_in_a_table(t: &mut Script) {
    let jobs = t.collection(BATCH, "cronjobs");
    let mut template = template();
    template["spec"]["restartPolicy"] = json!("Never");
    let job = |name: &str, more: Value| {
        let spec =
            json!({"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}}});
        object("batch/v1", "CronJob", name, json!({"spec": with_fields(spec, more)}))
    };
    t.given(&jobs, job("a", json!({}))).await;
    let status = json!({
        "lastScheduleTime": LONG_AGO,
        "active": [{"kind": "Job", "name": "x"}, {"kind": "Job", "name": "y"}],
    });
    let zoned = json!({"suspend": true, "timeZone": "Europe/Berlin"});
    t.given_with(&jobs, job("b", zoned), status).await;
    t.rows(jobs).await;
}

pub(in crate::cases) async fn disruption_budgets_in_a_table(t: &mut Script) {
    let budgets = t.collection("/apis/policy/v1", "poddisruptionbudgets");
    let budget = |name: &str, spec: Value| {
        object("policy/v1", "PodDisruptionBudget", name, json!({ "spec": spec }))
    };
    t.given(&budgets, budget("a", json!({"minAvailable": 2}))).await;
    t.given(&budgets, budget("b", json!({"maxUnavailable": "30%"}))).await;
    let status = json!({
        "disruptionsAllowed": 3, "currentHealthy": 4, "desiredHealthy": 1, "expectedPods": 4,
    });
    t.given_with(&budgets, budget("c", json!({"minAvailable": "1%"})), status).await;
    t.rows(budgets).await;
}

pub(in crate::cases) async fn autoscalers_in_a_table(t: &mut Script) {
    let scalers = t.collection("/apis/autoscaling/v2", "horizontalpodautoscalers");
    let scaler = |name: &str, metrics: Value| {
        let mut spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "maxReplicas": 9,
        });
        if !metrics.is_null() {
            spec["metrics"] = metrics;
        }
        object("autoscaling/v2", "HorizontalPodAutoscaler", name, json!({ "spec": spec }))
    };
    let cpu =
        |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let percent = json!({"type": "Utilization", "averageUtilization": 80});
    let average = json!({"type": "AverageValue", "averageValue": "5"});
    let value = json!({"type": "Value", "value": "50"});
    let external = |target: &Value| {
        let source = json!({"metric": {"name": "q"}, "target": target});
        json!({"type": "External", "external": source})
    };
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "r"}, "target": average}});
    let described = json!({"apiVersion": "v1", "kind": "Service", "name": "s"});
    let of_object = |target: &Value| {
        json!({"type": "Object", "object": {
            "metric": {"name": "o"}, "describedObject": described, "target": target,
        }})
    };
    let in_container = json!({"type": "ContainerResource", "containerResource": {
        "name": "memory", "container": "main", "target": percent,
    }});
    t.given(&scalers, scaler("a", Value::Null)).await;
    t.given(&scalers, scaler("b", json!([cpu(percent.clone()), cpu(average.clone())]))).await;
    t.given(&scalers, scaler("c", json!([external(&average), external(&value)]))).await;
    t.given(&scalers, scaler("d", json!([pods, of_object(&value)]))).await;
    let many = json!([in_container, of_object(&average), pods, external(&value)]);
    t.given(&scalers, scaler("e", many)).await;
    let status = json!({
        "currentReplicas": 3,
        "desiredReplicas": 4,
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {
                "averageUtilization": 42, "averageValue": "100m",
            }}},
            {"type": "External", "external": {"metric": {"name": "q"}, "current": {"value": "7"}}},
        ],
    });
    t.given_with(&scalers, scaler("f", json!([cpu(percent), external(&value)])), status).await;
    t.rows(scalers).await;
}
