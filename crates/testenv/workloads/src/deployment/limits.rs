//! The limits of a rollout step: surge and unavailability, in pods.

use crate::objects::{Amount, Deployment, Round};

/// The bounds of a deployment, in pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// The desired number of pods.
    pub(super) desired: i32,
    /// How many more may exist temporarily.
    pub(super) surge: i32,
    /// How many fewer may be available temporarily.
    pub(super) unavailable: i32,
}

impl Limits {
    pub(super) fn of(deployment: &Deployment) -> Self {
        let spec = &deployment.spec;
        let desired = spec.replicas.unwrap_or(1).max(0);
        if deployment.is_recreate_strategy() {
            return Self { desired, surge: 0, unavailable: 0 };
        }
        let rolling = spec.strategy.rolling_update.clone().unwrap_or_default();
        let surge = resolve(rolling.max_surge.as_ref(), desired, Round::Up);
        let mut unavailable = resolve(rolling.max_unavailable.as_ref(), desired, Round::Down);
        if surge == 0 && unavailable == 0 {
            // With both zero, no rollout could proceed.
            unavailable = 1;
        }
        Self { desired, surge, unavailable: unavailable.min(desired) }
    }

    /// The maximum number of pods that may exist.
    pub(super) fn total_max(&self) -> i32 {
        self.desired.saturating_add(self.surge)
    }

    /// The minimum number of pods that must be available.
    pub(super) fn available_min(&self) -> i32 {
        self.desired - self.unavailable
    }
}

/// An absent value is a quarter, the API default.
fn resolve(value: Option<&Amount>, total: i32, round: Round) -> i32 {
    match value {
        Some(amount) => amount.of(total, round),
        None => Amount::Text("25%".to_owned()).of(total, round),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn limits(replicas: i32, strategy: &Value) -> (i32, i32) {
        let deployment = json!({"metadata": {}, "spec": {
            "replicas": replicas, "selector": {}, "template": {}, "strategy": strategy,
        }});
        let limits = Limits::of(&serde_json::from_value(deployment).expect("a deployment"));
        (limits.surge, limits.unavailable)
    }

    fn rolling(surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
        let (surge, unavailable) = (surge.into(), unavailable.into());
        json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    }

    #[test]
    fn surge_is_rounded_up_and_unavailable_down() {
        assert_eq!(limits(10, &rolling("25%", "25%")), (3, 2));
        assert_eq!(limits(3, &json!({})), (1, 0));
        assert_eq!(limits(10, &rolling(4, "100%")), (4, 10));
    }

    #[test]
    fn unavailable_is_one_if_both_limits_are_zero() {
        assert_eq!(limits(3, &rolling(0, 0)), (0, 1));
        assert_eq!(limits(1, &rolling(0, "25%")), (0, 1));
    }

    #[test]
    fn no_more_than_all_can_be_unavailable() {
        assert_eq!(limits(2, &rolling(0, 5)), (0, 2));
        assert_eq!(limits(0, &rolling(1, 1)), (1, 0));
    }

    #[test]
    fn recreate_knows_no_limits() {
        assert_eq!(limits(5, &json!({"type": "Recreate"})), (0, 0));
    }
}
