//! The controller of pods, which stands for the scheduler and all nodes: pods are bound, run, and
//! go when they are told to.

mod running;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams, Preconditions};
use serde_json::json;
use tokio::time::Instant;
use windlass::indexer::ObjectKey;
use windlass::informer::SharedInformerFactory;
use windlass::reconciler::{Action, BuildError, Controller, Error, Reconcile, RunContext, Watch};

use crate::clock::Clock;
use crate::objects::{Binding, Pod};
use crate::pod::{PENDING, is_deleted, is_finished, node, phase};

/// The node of all pods. There is no such object.
const NODE: &str = "windlass-node";

/// Runs pods, in a manner of speaking.
pub(crate) struct Kubelet {
    start_delay: Duration,
    clock: Clock,
    /// When pods that do not run yet will, by key, for the pod of that uid. Stored times are too
    /// coarse for this.
    starting: Mutex<HashMap<ObjectKey, (Option<String>, Instant)>>,
}

/// The controller, with informers from `factory`.
///
/// # Errors
/// If it does not fit what others ask of the informers.
pub(crate) fn build(
    factory: &SharedInformerFactory,
    workers: usize,
    clock: Clock,
    start_delay: Duration,
) -> Result<Controller<Pod>, BuildError> {
    Controller::of(Watch::<Pod>::new())
        .name("kubelet")
        .workers(workers)
        .build(factory, Kubelet { start_delay, clock, starting: Mutex::default() })
}

impl Reconcile<Pod> for Kubelet {
    async fn reconcile(&self, pod: Arc<Pod>, cx: &RunContext) -> Result<Action, Error> {
        if is_deleted(&pod) {
            self.forget(cx.key());
            // Nothing runs that would have to end first. Finalizers still hold it.
            let uid = Preconditions { uid: pod.uid(), resource_version: None };
            let at_once = DeleteParams::default().grace_period(0).preconditions(uid);
            cx.live().delete_with(&*pod, &at_once).await?;
            return Ok(Action::Done);
        }
        if is_finished(&pod) || phase(&pod) != PENDING {
            return Ok(Action::Done);
        }
        if node(&pod).is_none() {
            if !is_gated(&pod) {
                bind(&pod, cx).await?;
            }
            // The event of the binding is the next run.
            return Ok(Action::Done);
        }
        let left = self.starts_at(&pod, cx.key()).duration_since(Instant::now());
        if !left.is_zero() {
            return Ok(Action::RequeueAfter(left));
        }
        let mut started = Pod::clone(&pod);
        started.status = running::status(&pod, self.clock.now());
        cx.live().update_status(&*pod, &started).await?;
        self.forget(cx.key());
        Ok(Action::Done)
    }

    async fn absent(&self, key: &ObjectKey, _: &RunContext) -> Result<Action, Error> {
        self.forget(key);
        Ok(Action::Done)
    }
}

impl Kubelet {
    /// When the pod starts: some time after it was first seen on its node.
    fn starts_at(&self, pod: &Pod, key: &ObjectKey) -> Instant {
        let begin = || (pod.uid(), Instant::now() + self.start_delay);
        let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = starting.entry(key.clone()).or_insert_with(begin);
        if entry.0 != pod.uid() {
            *entry = begin();
        }
        entry.1
    }

    fn forget(&self, key: &ObjectKey) {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// Whether somebody wants the pod not to be scheduled yet.
fn is_gated(pod: &Pod) -> bool {
    pod.spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
}

/// Assigns the pod to the node.
async fn bind(pod: &Pod, cx: &RunContext) -> Result<(), Error> {
    let name = pod.name_any();
    let binding = Binding {
        metadata: ObjectMeta { name: Some(name.clone()), uid: pod.uid(), ..ObjectMeta::default() },
        target: json!({"kind": "Node", "name": NODE}),
    };
    let pods: Api<Pod> =
        Api::namespaced(cx.client().clone(), cx.key().namespace().unwrap_or_default());
    let bound: Result<Status, _> =
        pods.create_subresource("binding", &name, &PostParams::default(), &binding).await;
    match bound {
        Ok(_) => Ok(()),
        // It is gone, is being deleted, or somebody else was faster: an event will tell.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
