//! `pods/eviction`: a delete that disruption budgets can reject.
//!
//! A controller writes the status of the budgets, as on a real server. An eviction only decrements
//! `disruptionsAllowed` and adds the pod to `disruptedPods`.

use serde_json::{Map, Value, json};

use super::condition;
use super::delete::DeleteOptions;
use crate::failure::Failure;
use crate::fields::{is_terminating, text};
use crate::kinds::Registered;
use crate::object::Key;
use crate::selector::object::selects;
use crate::state::State;
use crate::target::Target;

/// The limit on approved evictions that the budget's controller has not seen yet.
const DISRUPTED_MAX: usize = 2000;

impl State {
    /// Deletes a pod if its disruption budget allows it.
    pub(crate) fn evict(&mut self, pod: &Target, options: &DeleteOptions) -> Result<(), Failure> {
        let dry_run = options.check()?;
        let held = self.existing(pod)?.value();
        if !is_no_disruption(&held) {
            let mut budgets = self.budgets_of(pod, &held);
            match (budgets.pop(), budgets.len()) {
                (None, _) => {}
                (Some(budget), 0) => self.charge_budget(pod, &held, &budget, dry_run)?,
                _ => {
                    return Err(Failure::internal(
                        "This pod has more than one PodDisruptionBudget, which the eviction \
                         subresource does not support.",
                    ));
                }
            }
        }
        options.check_preconditions(pod, &held)?;
        if !dry_run {
            let mut object = held;
            mark(&mut object, &self.clock.now());
            self.put(&pod.kind, &pod.key(), object);
        }
        // Webhooks have admitted the eviction, and the deletion is a part of it.
        self.admitted(|state| state.delete(pod, &options.without_preconditions(), false))?;
        Ok(())
    }

    /// Returns the keys of the budgets that select the pod.
    fn budgets_of(&self, pod: &Target, held: &Map<String, Value>) -> Vec<Key> {
        let Some(kind) = self.budgets() else { return Vec::new() };
        let labels = held["metadata"].get("labels").cloned().unwrap_or_default();
        let objects = self.store.objects(kind.storage, &pod.namespace);
        let matching = objects.filter(|(_, budget)| {
            budget.value().get("spec").is_some_and(|spec| selects(&spec["selector"], &labels))
        });
        matching.map(|(key, _)| key.clone()).collect()
    }

    fn budgets(&self) -> Option<std::sync::Arc<Registered>> {
        Some(self.registry.resource("policy", "v1", "poddisruptionbudgets")?.entry)
    }

    /// Decrements the allowed disruptions of the budget. Returns an error if the budget does not
    /// allow the eviction.
    fn charge_budget(
        &mut self,
        pod: &Target,
        held: &Map<String, Value>,
        key: &Key,
        dry_run: bool,
    ) -> Result<(), Failure> {
        let Some(kind) = self.budgets() else { return Ok(()) };
        let Some(stored) = self.store.get(kind.storage, key) else { return Ok(()) };
        let mut budget = stored.value();
        if !is_ready(held) && allows_unready_eviction(&budget) {
            return Ok(());
        }
        check(&budget)?;
        let now = self.clock.now();
        let status = budget.entry("status").or_insert_with(|| json!({}));
        let left = number(status, "disruptionsAllowed") - 1;
        status["disruptionsAllowed"] = left.into();
        if left == 0 {
            set_exhausted_condition(status, &now);
        }
        if !dry_run {
            if !status["disruptedPods"].is_object() {
                status["disruptedPods"] = json!({});
            }
            status["disruptedPods"][&pod.name] = now.into();
            self.put(&kind, key, budget);
        }
        Ok(())
    }
}

/// Whether evicting the pod disrupts nothing: the pod has ended, has not started, or is being
/// deleted.
fn is_no_disruption(pod: &Map<String, Value>) -> bool {
    let phase = pod.get("status").and_then(|status| status.get("phase")).and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed" | "Pending")) || is_terminating(pod)
}

fn is_ready(pod: &Map<String, Value>) -> bool {
    let conditions = pod.get("status").and_then(|status| status.get("conditions"));
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Whether the budget allows evicting a pod that is not ready without counting it.
fn allows_unready_eviction(budget: &Map<String, Value>) -> bool {
    let always = budget["spec"].get("unhealthyPodEvictionPolicy");
    let status = budget.get("status").unwrap_or(&Value::Null);
    let desired = number(status, "desiredHealthy");
    always.is_some_and(|policy| policy == "AlwaysAllow")
        || number(status, "currentHealthy") >= desired && desired > 0
}

/// Returns an error if the budget allows no disruption.
fn check(budget: &Map<String, Value>) -> Result<(), Failure> {
    let name = text(budget, "name");
    let status = budget.get("status").unwrap_or(&Value::Null);
    let generation = budget["metadata"].get("generation").and_then(Value::as_i64).unwrap_or(0);
    let refuse = |why: &str| Failure::forbidden("policy", "poddisruptionbudget", name, why);
    if number(status, "observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Failure::disruption_budget(&why, Some(10)));
    }
    if number(status, "disruptionsAllowed") < 0 {
        return Err(refuse("pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_MAX) {
        return Err(refuse(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if number(status, "disruptionsAllowed") > 0 {
        return Ok(());
    }
    Err(Failure::disruption_budget(&explain(name, status), None))
}

/// Explains why the budget allows no disruption.
fn explain(name: &str, status: &Value) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions.into_iter().find(|one| one["type"] == "DisruptionAllowed");
    let condition = condition.filter(|one| one["status"] == "False");
    let said =
        |field: &str| condition.and_then(|one| one[field].as_str()).unwrap_or_default().to_owned();
    let (reason, message) = (said("reason"), said("message"));
    let (desired, current) = (number(status, "desiredHealthy"), number(status, "currentHealthy"));
    if !message.is_empty() && reason == "SyncFailed" {
        return format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        );
    }
    if current <= desired {
        return format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        );
    }
    let plain = format!("The disruption budget {name} does not allow evicting pods currently");
    if message.is_empty() { plain } else { format!("{plain} ({reason}): {message}") }
}

/// Sets the condition of a budget that has just been used up.
fn set_exhausted_condition(status: &mut Value, now: &str) {
    let mut condition = json!({
        "type": "DisruptionAllowed",
        "status": "False",
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    });
    if let Some(generation) = status.get("observedGeneration").filter(|value| **value != 0) {
        condition["observedGeneration"] = generation.clone();
    }
    condition::set(status, condition);
}

/// Sets the condition on the pod that names the reason for its deletion.
fn mark(pod: &mut Map<String, Value>, now: &str) {
    let status = pod.entry("status").or_insert_with(|| json!({}));
    condition::set(
        status,
        json!({
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": now,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }),
    );
}

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}
