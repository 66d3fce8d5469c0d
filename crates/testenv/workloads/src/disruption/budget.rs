//! What a budget allows, computed from its spec and the pods that it selects. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::json;
use windlass_reconciler::Error;

use crate::clock::until;
use crate::condition;
use crate::objects::{
    Amount, Condition, DisruptionBudget, DisruptionBudgetSpec, DisruptionBudgetStatus, Pod, Round,
};
use crate::pod::{is_deleted, is_ready};

/// How long a pod whose eviction was allowed counts as gone, even if it has not been deleted. As
/// upstream.
const DELETION_TIMEOUT_SECONDS: i32 = 120;

const CONDITION: &str = "DisruptionAllowed";

/// The expected number of pods, and how many of them must be healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    expected: i32,
    healthy: i32,
}

/// Computes the numbers that the spec asks for. `pods` is how many there are; `scale` returns how
/// many their controllers want, and is only called for percentages.
///
/// # Errors
/// Those of `scale`.
pub(super) fn wanted(
    spec: &DisruptionBudgetSpec,
    pods: usize,
    scale: impl FnOnce() -> Result<i32, Error>,
) -> Result<Wanted, Error> {
    let (expected, healthy) = match (&spec.max_unavailable, &spec.min_available) {
        (Some(unavailable), _) => {
            let expected = scale()?;
            (expected, expected - unavailable.of(expected, Round::Up))
        }
        (None, Some(Amount::Number(number))) => (i32::try_from(pods).unwrap_or(i32::MAX), *number),
        (None, Some(share)) => {
            let expected = scale()?;
            (expected, share.of(expected, Round::Up))
        }
        (None, None) => (0, 0),
    };
    Ok(Wanted { expected, healthy: healthy.max(0) })
}

/// Returns the new status, and after which time to recompute it.
pub(super) fn status_of(
    budget: &DisruptionBudget,
    pods: &[Arc<Pod>],
    wanted: Wanted,
    now: Timestamp,
) -> (DisruptionBudgetStatus, Option<Duration>) {
    let (disrupted_pods, again) = still_expected(&budget.status.disrupted_pods, pods, now);
    let is_healthy = |pod: &&Arc<Pod>| {
        !is_deleted(pod) && !disrupted_pods.contains_key(&pod.name_any()) && is_ready(pod)
    };
    let healthy = i32::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i32::MAX);
    let allowed = if wanted.expected > 0 { (healthy - wanted.healthy).max(0) } else { 0 };
    let (is_allowed, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let generation = budget.metadata.generation;
    let mut status = DisruptionBudgetStatus {
        observed_generation: generation,
        disrupted_pods,
        disruptions_allowed: Some(allowed),
        current_healthy: Some(healthy),
        desired_healthy: Some(wanted.healthy),
        expected_pods: Some(wanted.expected),
        conditions: budget.status.conditions.clone(),
    };
    set_condition(&mut status, is_allowed, reason, "", now);
    (status, again)
}

/// Returns the status of a budget that cannot be computed: nothing may be evicted.
pub(super) fn failed(
    budget: &DisruptionBudget,
    why: &str,
    now: Timestamp,
) -> DisruptionBudgetStatus {
    let mut status = budget.status.clone();
    status.observed_generation = budget.metadata.generation;
    status.disruptions_allowed = Some(0);
    set_condition(&mut status, "False", "SyncFailed", why, now);
    status
}

/// Returns the pods with a granted eviction that are not deleted yet, and how long the first of
/// them still counts.
fn still_expected(
    disrupted: &BTreeMap<String, Time>,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Duration>) {
    let is_left = |name: &str, since: &Time| {
        let is_there = pods.iter().any(|pod| pod.name_any() == name && !is_deleted(pod));
        is_there && !until(now, since, DELETION_TIMEOUT_SECONDS).is_zero()
    };
    let left: BTreeMap<String, Time> = disrupted
        .iter()
        .filter(|(name, since)| is_left(name, since))
        .map(|(name, since)| (name.clone(), since.clone()))
        .collect();
    let again = left.values().map(|since| until(now, since, DELETION_TIMEOUT_SECONDS)).min();
    (left, again)
}

fn set_condition(
    status: &mut DisruptionBudgetStatus,
    is_allowed: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let generation = status.observed_generation.unwrap_or_default();
    let condition = Condition {
        kind: CONDITION.to_owned(),
        status: is_allowed.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        rest: [("observedGeneration".to_owned(), json!(generation))].into_iter().collect(),
        ..Condition::default()
    };
    condition::set(&mut status.conditions, condition, now);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::clock::stored;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn budget(spec: &Value, status: &Value) -> DisruptionBudget {
        let budget = json!({
            "metadata": {"name": "web", "generation": 2}, "spec": spec, "status": status,
        });
        serde_json::from_value(budget).expect("a budget")
    }

    fn wanted_of(spec: &Value, pods: usize, scale: i32) -> (i32, i32) {
        let wanted = wanted(&budget(spec, &json!({})).spec, pods, || Ok(scale)).expect("a scale");
        (wanted.expected, wanted.healthy)
    }

    fn pod(name: &str, is_ready: bool) -> Arc<Pod> {
        let ready = if is_ready { "True" } else { "False" };
        let pod = json!({
            "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(serde_json::from_value(pod).expect("a pod"))
    }

    #[test]
    fn percentages_are_of_the_scale_and_rounded_up() {
        assert_eq!(wanted_of(&json!({"minAvailable": 2}), 3, 7), (3, 2));
        assert_eq!(wanted_of(&json!({"minAvailable": "50%"}), 3, 7), (7, 4));
        assert_eq!(wanted_of(&json!({"maxUnavailable": 2}), 3, 7), (7, 5));
        assert_eq!(wanted_of(&json!({"maxUnavailable": "30%"}), 3, 7), (7, 4));
        assert_eq!(wanted_of(&json!({"maxUnavailable": 9}), 3, 7), (7, 0));
        assert_eq!(wanted_of(&json!({}), 3, 7), (0, 0));
    }

    #[test]
    fn absolute_number_needs_no_controller() {
        let spec = budget(&json!({"minAvailable": 1}), &json!({})).spec;
        let asked = wanted(&spec, 1, || Err(Error::msg("nobody knows")));
        assert_eq!(asked.expect("it is not asked").expected, 1);
    }

    #[test]
    fn healthy_pods_beyond_the_wanted_number_may_be_evicted() {
        let budget = budget(&json!({"minAvailable": 2}), &json!({}));
        let pods = [pod("a", true), pod("b", true), pod("c", true), pod("d", false)];
        let wanted = Wanted { expected: 4, healthy: 2 };
        let (status, again) = status_of(&budget, &pods, wanted, NOW);
        assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(3), Some(1)));
        assert_eq!((status.observed_generation, again), (Some(2), None));
        assert_eq!(status.conditions[0].reason.as_deref(), Some("SufficientPods"));
    }

    #[test]
    fn pod_whose_eviction_was_allowed_counts_as_gone_for_two_minutes() {
        let status =
            json!({"disruptedPods": {"a": "1970-01-01T00:00:00Z", "gone": "1970-01-01T00:00:00Z"}});
        let budget = budget(&json!({"minAvailable": 1}), &status);
        let pods = [pod("a", true), pod("b", true)];
        let wanted = Wanted { expected: 2, healthy: 1 };
        let (status, again) = status_of(&budget, &pods, wanted, NOW);
        assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(1), Some(0)));
        assert_eq!(status.disrupted_pods.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(again, Some(Duration::from_mins(2)));
        let later = NOW + Duration::from_mins(2);
        let (status, again) = status_of(&budget, &pods, wanted, later);
        assert_eq!((status.disruptions_allowed, again), (Some(1), None));
        assert!(status.disrupted_pods.is_empty());
    }

    #[test]
    fn time_of_a_condition_moves_only_with_its_status() {
        let mut budget = budget(&json!({"minAvailable": 1}), &json!({}));
        let wanted = Wanted { expected: 1, healthy: 1 };
        budget.status = status_of(&budget, &[], wanted, NOW).0;
        let later = NOW + Duration::from_mins(1);
        let status = status_of(&budget, &[pod("a", true)], wanted, later).0;
        assert_eq!(status.conditions, budget.status.conditions);
        let wanted = Wanted { expected: 1, healthy: 0 };
        let status = status_of(&budget, &[pod("a", true)], wanted, later).0;
        assert_eq!(status.conditions[0].last_transition_time, Some(stored(later)));
    }
}
