//! The controller that assigns pods to nodes: to the fitting node with the fewest pods.
//!
//! Pods are assigned one after the other, so that each decision sees the previous ones: they are
//! remembered before any cache shows them. [`fit`] decides which nodes fit.

mod affinity;
mod fit;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::ResourceExt as _;
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::json;
use windlass_indexer::{Lister, ObjectKey};
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Action, BuildError, Controller, Error, Reconcile, RunContext, Watch};

use crate::clock::{Clock, stored};
use crate::objects::{Binding, Condition, Node, Pod};
use crate::pod::{is_deleted, is_finished, node};

/// The node of all pods if there are no nodes. It has no object.
const NODE: &str = "windlass-node";

/// Assigns pods to nodes.
pub(crate) struct Scheduler {
    /// `None` if there are no Node objects: then all pods are assigned to [`NODE`].
    nodes: Option<Lister<Node>>,
    clock: Clock,
    assignments: Mutex<Assignments>,
}

/// The node of each pod.
#[derive(Debug, Default)]
struct Assignments {
    by_pod: HashMap<ObjectKey, String>,
    /// The number of pods on each node.
    load: BTreeMap<String, usize>,
}

/// Builds the controller with informers from `factory`.
///
/// # Errors
/// If its informer options conflict with those that others have requested.
pub(crate) fn build(
    factory: &SharedInformerFactory,
    clock: Clock,
    has_nodes: bool,
) -> Result<Controller<Pod>, BuildError> {
    const NAME: &str = "scheduler";
    let failed = |error| BuildError::Informer { controller: NAME.to_owned(), error };
    let pods = factory.lister::<Pod>().map_err(failed)?;
    let nodes = has_nodes.then(|| factory.lister::<Node>()).transpose().map_err(failed)?;
    let mut builder = Controller::named(NAME, Watch::<Pod>::new()).workers(1);
    if has_nodes {
        builder = builder.watches(Watch::<Node>::new(), move |_| waiting_pods(&pods));
    }
    builder.build(factory, Scheduler { nodes, clock, assignments: Mutex::default() })
}

/// Returns the pods without a node: a changed node may be what they wait for.
fn waiting_pods(pods: &Lister<Pod>) -> Vec<ObjectKey> {
    let pods = pods.list();
    // A pod that cannot be decoded is reported when the pod itself is reconciled.
    let waiting = pods.iter().filter(|pod| pod.get().is_ok_and(|pod| node(&pod).is_none()));
    waiting.map(|pod| pod.key().clone()).collect()
}

impl Reconcile<Pod> for Scheduler {
    async fn reconcile(&self, pod: Arc<Pod>, cx: &RunContext) -> Result<Action, Error> {
        let place = node(&pod);
        if place.is_some() || is_finished(&pod) {
            self.assignments().set(cx.key(), place.filter(|_| !is_finished(&pod)));
            return Ok(Action::done());
        }
        if is_deleted(&pod) || is_gated(&pod) || !uses_this_scheduler(&pod) {
            return Ok(Action::done());
        }
        match self.choose(&pod)? {
            Ok(node) => self.bind(&pod, &node, cx).await?,
            Err(message) => self.refuse(&pod, &message, cx).await?,
        }
        Ok(Action::done())
    }

    async fn absent(&self, key: &ObjectKey, _: &RunContext) -> Result<Action, Error> {
        self.assignments().set(key, None);
        Ok(Action::done())
    }
}

impl Scheduler {
    /// Returns the node for the pod, or the reason why none fits.
    fn choose(&self, pod: &Pod) -> Result<Result<String, String>, Error> {
        let Some(nodes) = &self.nodes else { return Ok(Ok(NODE.to_owned())) };
        let nodes = nodes.list();
        let nodes: Result<Vec<Arc<Node>>, _> = nodes.iter().map(|node| node.get()).collect();
        Ok(fit::choose(pod, &nodes?, &self.assignments().load))
    }

    /// Assigns the pod to the node.
    async fn bind(&self, pod: &Pod, node: &str, cx: &RunContext) -> Result<(), Error> {
        let name = pod.name_any();
        let metadata =
            ObjectMeta { name: Some(name.clone()), uid: pod.uid(), ..ObjectMeta::default() };
        let binding = Binding { metadata, target: json!({"kind": "Node", "name": node}) };
        let namespace = cx.key().namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(cx.client().clone(), namespace);
        let bound: Result<Status, _> =
            pods.create_subresource("binding", &name, &PostParams::default(), &binding).await;
        match bound {
            Ok(_) => {
                self.assignments().set(cx.key(), Some(node));
                let message = format!("Successfully assigned {namespace}/{name} to {node}");
                cx.event(pod).normal("Scheduled", message);
                Ok(())
            }
            // The pod is gone, is being deleted, or was assigned by somebody else: an event will
            // follow.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reports why the pod has no node, as a condition and an event.
    async fn refuse(&self, pod: &Pod, message: &str, cx: &RunContext) -> Result<(), Error> {
        let mut refused = pod.clone();
        if set_unschedulable(&mut refused.status.conditions, message, self.clock.now()) {
            cx.live().update_status(pod, &refused).await?;
            cx.event(pod).warning("FailedScheduling", message);
        }
        Ok(())
    }

    fn assignments(&self) -> MutexGuard<'_, Assignments> {
        self.assignments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Assignments {
    /// Records the node of a pod, or that it has none.
    fn set(&mut self, pod: &ObjectKey, node: Option<&str>) {
        let before = match node {
            Some(node) => self.by_pod.insert(pod.clone(), node.to_owned()),
            None => self.by_pod.remove(pod),
        };
        if let Some(pods) = before.and_then(|before| self.load.get_mut(&before)) {
            *pods -= 1;
        }
        if let Some(node) = node {
            *self.load.entry(node.to_owned()).or_default() += 1;
        }
    }
}

/// Sets the condition; returns whether it changed.
fn set_unschedulable(conditions: &mut Vec<Condition>, message: &str, now: Timestamp) -> bool {
    let held = conditions.iter().position(|condition| condition.kind == "PodScheduled");
    let held = held.map(|at| conditions.remove(at)).filter(|held| held.status == "False");
    let is_same = held.as_ref().is_some_and(|held| held.message.as_deref() == Some(message));
    let since = held.and_then(|held| held.last_transition_time);
    conditions.push(Condition {
        kind: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: since.or_else(|| Some(stored(now))),
        ..Condition::default()
    });
    !is_same
}

/// Returns whether the pod has a scheduling gate.
fn is_gated(pod: &Pod) -> bool {
    pod.spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
}

/// Returns whether the pod asks for no other scheduler.
fn uses_this_scheduler(pod: &Pod) -> bool {
    let asked = pod.spec["schedulerName"].as_str().unwrap_or_default();
    asked.is_empty() || asked == "default-scheduler"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_count_where_they_are() {
        let mut assignments = Assignments::default();
        let key = |name: &str| ObjectKey::namespaced("x", name);
        assignments.set(&key("a"), Some("one"));
        assignments.set(&key("a"), Some("one"));
        assignments.set(&key("b"), Some("one"));
        assignments.set(&key("b"), Some("two"));
        assignments.set(&key("c"), None);
        assert_eq!(
            assignments.load,
            BTreeMap::from([("one".to_owned(), 1), ("two".to_owned(), 1)])
        );
        assignments.set(&key("a"), None);
        assert_eq!(assignments.load["one"], 0);
    }

    #[test]
    fn condition_changes_with_its_message_and_keeps_its_time() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let mut conditions = Vec::new();
        assert!(set_unschedulable(&mut conditions, "one", at(1)));
        assert!(!set_unschedulable(&mut conditions, "one", at(2)));
        assert!(set_unschedulable(&mut conditions, "two", at(3)));
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].last_transition_time, Some(stored(at(1))));
    }
}
