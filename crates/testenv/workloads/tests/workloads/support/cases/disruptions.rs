//! Disruption budgets, and evictions that respect them.

use kube::api::EvictParams;
use serde_json::{Value, json};

use super::super::{BUDGETS, DEPLOYMENTS, PODS, STATEFUL_SETS, Stage};
use super::deployment;

fn budget(spec: &Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    });
    let spec = spec.as_object().cloned().unwrap_or_default();
    budget["spec"].as_object_mut().expect("an object").extend(spec);
    budget
}

/// Waits until the budget is up to date and allows this many disruptions.
async fn until_allowed(stage: &Stage, allowed: i64) {
    stage
        .until(BUDGETS, &format!("{allowed} allowed"), |budgets| {
            budgets.iter().all(|one| {
                one["status"]["observedGeneration"] == one["metadata"]["generation"]
                    && one["status"]["disruptionsAllowed"] == allowed
            })
        })
        .await;
}

/// Evicts a pod if its budget allows it.
async fn evict(stage: &Stage) -> Result<(), u16> {
    let pods = stage.list(PODS).await;
    let name = pods[0]["metadata"]["name"].as_str().expect("a name");
    match stage.evict(name, &EvictParams::default()).await {
        Ok(()) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

pub(crate) async fn budget_lets_pods_go_one_after_the_other(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(3, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    stage.create(BUDGETS, budget(&json!({"minAvailable": 2}))).await;
    until_allowed(stage, 1).await;
    assert_eq!(evict(stage).await, Ok(()));
    stage.until_complete("web").await;
    until_allowed(stage, 1).await;
    stage.patch(BUDGETS, "web", json!({"spec": {"minAvailable": 3}})).await;
    until_allowed(stage, 0).await;
    if stage.is_embedded {
        // The real server sends `Retry-After`, so its client retries for minutes.
        assert_eq!(evict(stage).await, Err(429));
    }
}

pub(crate) async fn budget_by_percent_follows_the_scale(stage: &Stage) {
    stage.create(DEPLOYMENTS, deployment(4, "web:1", &json!({}))).await;
    stage.until_complete("web").await;
    stage.create(BUDGETS, budget(&json!({"maxUnavailable": "50%"}))).await;
    until_allowed(stage, 2).await;
    stage.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 2}})).await;
    stage.until_complete("web").await;
    until_allowed(stage, 1).await;
}

pub(crate) async fn budget_without_pods_allows_nothing(stage: &Stage) {
    stage.create(BUDGETS, budget(&json!({"maxUnavailable": 1}))).await;
    until_allowed(stage, 0).await;
}

pub(crate) async fn budget_of_a_stateful_set(stage: &Stage) {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
        "spec": {
            "serviceName": "web", "replicas": 2, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    });
    stage.create(STATEFUL_SETS, set).await;
    stage.create(BUDGETS, budget(&json!({"minAvailable": "50%"}))).await;
    until_allowed(stage, 1).await;
    stage
        .until(STATEFUL_SETS, "available", |sets| {
            sets.iter().all(|set| set["status"]["availableReplicas"] == 2)
        })
        .await;
}
