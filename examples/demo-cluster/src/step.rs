//! What may happen next in the cluster of this process: a pure choice, from what is there and a
//! random source.

use fastrand::Rng;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::objects::{APPS, NODES};

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A controller makes a pod of the app with this number.
    Create(usize),
    /// A scheduler assigns a pod to a node.
    Bind(PodName, &'static str),
    /// A node has started a pod.
    Start(PodName),
    /// A container of a pod ended and was started again, so often by now.
    Restart(PodName, i32),
    /// A pod has done its work.
    Finish(PodName),
    /// Somebody deletes a pod.
    Delete(PodName),
    /// A node has ended a pod that was to be deleted.
    Remove(PodName),
    /// The pod group of the batch comes, or goes.
    ToggleGroup,
}

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Chooses.
#[derive(Debug)]
pub(crate) struct Chooser {
    pub(crate) rng: Rng,
    /// Whether to assign pods to nodes.
    pub(crate) schedules: bool,
    steps: u64,
}

/// Pods, as long as they are not on their way out. Few, so that one can follow each.
const PODS_MAX: usize = 9;

/// The group comes and goes every so many steps.
const GROUP_EVERY: u64 = 12;

impl Chooser {
    pub(crate) fn new(seed: u64, schedules: bool) -> Self {
        Self { rng: Rng::with_seed(seed), schedules, steps: 0 }
    }

    /// The next step in a cluster with these pods.
    pub(crate) fn next(&mut self, pods: &[Pod]) -> Step {
        self.steps += 1;
        if self.steps.is_multiple_of(GROUP_EVERY) {
            return Step::ToggleGroup;
        }
        let leaving = pods.iter().find(|pod| pod.metadata.deletion_timestamp.is_some());
        if let Some(pod) = leaving {
            return Step::Remove(name_of(pod));
        }
        if let Some(step) = pods.iter().find_map(|pod| self.begin(pod)) {
            return step;
        }
        let settled: Vec<_> = pods.iter().filter(|pod| phase(pod) != "Pending").collect();
        let has_room = pods.len() < PODS_MAX;
        if has_room && (settled.is_empty() || self.rng.u8(..4) > 0) {
            return Step::Create(self.rng.usize(..APPS.len()));
        }
        if settled.is_empty() {
            // All of them wait for a node, and somebody gives up.
            return Step::Delete(name_of(&pods[0]));
        }
        let chosen = self.rng.usize(..settled.len());
        self.go_on(settled[chosen])
    }

    /// What a new pod waits for.
    fn begin(&mut self, pod: &Pod) -> Option<Step> {
        if phase(pod) != "Pending" {
            return None;
        }
        let is_assigned = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        match (is_assigned, self.schedules) {
            (true, _) => Some(Step::Start(name_of(pod))),
            (false, true) => Some(Step::Bind(name_of(pod), NODES[self.rng.usize(..NODES.len())])),
            (false, false) => None,
        }
    }

    /// What happens to a pod that runs, or has ended.
    fn go_on(&mut self, pod: &Pod) -> Step {
        let ends = APPS.iter().any(|(namespace, app, ends)| {
            *ends
                && pod.metadata.namespace.as_deref() == Some(namespace)
                && pod.labels().get("app").is_some_and(|label| label == app)
        });
        match (phase(pod), self.rng.u8(..3)) {
            ("Running", _) if ends => Step::Finish(name_of(pod)),
            ("Running", 0) => Step::Restart(name_of(pod), restarts(pod) + 1),
            _ => Step::Delete(name_of(pod)),
        }
    }
}

fn name_of(pod: &Pod) -> PodName {
    PodName { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.into_iter().flatten().map(|container| container.restart_count).sum()
}
