//! The controller of pods, which stands in for the kubelets of all nodes: scheduled pods start, may
//! finish, and are removed when deleted.
//!
//! [`life`] decides what happens next to a pod, and when. This file waits, and writes the statuses
//! that [`running`] and [`ended`] compute.

mod ended;
mod life;
mod running;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kube::ResourceExt as _;
use tokio::time::Instant;
use windlass_indexer::{Lister, ObjectKey};
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{
    Action, BuildError, Controller, Error, Reconcile, RunContext, Watch, WriteOptions,
};

use crate::addresses::{Addresses, Network};
use crate::clock::Clock;
use crate::objects::{Node, Pod};
use crate::pod::{is_deleted, is_finished, node};
use life::{KILLED, NextChange};

/// The delays in the life of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodDelays {
    /// Until its containers run.
    pub(crate) start_delay: Duration,
    /// Until its containers end, if they do.
    pub(crate) run_time: Duration,
}

/// Simulates running pods; no container is started.
pub(crate) struct Kubelet {
    delays: PodDelays,
    clock: Clock,
    pods: Lister<Pod>,
    /// `None` if there are no Node objects.
    nodes: Option<Lister<Node>>,
    /// The next change of each pod, by key. Kept here because the times in objects are rounded to
    /// seconds.
    timers: Mutex<HashMap<ObjectKey, Timer>>,
    addresses: Mutex<Addresses>,
    /// Set once the addresses of existing pods are recorded.
    addresses_recorded: OnceLock<()>,
}

/// When the next change of a pod is due.
struct Timer {
    uid: Option<String>,
    what: NextChange,
    at: Instant,
}

/// Builds the controller with informers from `factory`.
///
/// # Errors
/// If its informer options conflict with those that others have requested.
pub(crate) fn build(
    factory: &SharedInformerFactory,
    workers: usize,
    clock: Clock,
    delays: PodDelays,
    has_nodes: bool,
) -> Result<Controller<Pod>, BuildError> {
    const NAME: &str = "kubelet";
    let failed = |error| BuildError::Informer { controller: NAME.to_owned(), error };
    let pods = factory.lister::<Pod>().map_err(failed)?;
    let nodes = has_nodes.then(|| factory.lister::<Node>()).transpose().map_err(failed)?;
    let mut builder = Controller::named(NAME, Watch::<Pod>::new()).workers(workers);
    if has_nodes {
        builder = builder.reads(Watch::<Node>::new());
    }
    let kubelet = Kubelet {
        delays,
        clock,
        pods,
        nodes,
        timers: Mutex::default(),
        addresses: Mutex::default(),
        addresses_recorded: OnceLock::new(),
    };
    builder.build(factory, kubelet)
}

impl Reconcile<Pod> for Kubelet {
    async fn reconcile(&self, pod: Arc<Pod>, cx: &RunContext) -> Result<Action, Error> {
        if is_deleted(&pod) {
            self.forget(cx.key());
            return end_deleted(&pod, self.clock, cx).await;
        }
        if is_finished(&pod) {
            self.forget(cx.key());
        }
        let Some((next, wait)) = life::next(&pod, self.delays) else { return Ok(Action::done()) };
        let left = self.due(&pod, cx.key(), next, wait).duration_since(Instant::now());
        if !left.is_zero() {
            return Ok(Action::requeue_after(left));
        }
        let now = self.clock.now();
        let mut changed = Pod::clone(&pod);
        changed.status = match next {
            NextChange::Start => {
                let (host, address) = self.address(&pod, cx.key())?;
                running::status(&pod, host, address, now)
            }
            NextChange::Restart => running::restarted(&pod, now),
            NextChange::End => ended::status(&pod, &life::ending(&pod), now),
        };
        cx.live().update_status(&*pod, &changed).await?;
        self.timers.lock().unwrap_or_else(PoisonError::into_inner).remove(cx.key());
        Ok(Action::done())
    }

    async fn absent(&self, key: &ObjectKey, _: &RunContext) -> Result<Action, Error> {
        self.forget(key);
        Ok(Action::done())
    }
}

impl Kubelet {
    /// Returns the time of the change: `wait` after the pod was first seen in this state.
    fn due(&self, pod: &Pod, key: &ObjectKey, what: NextChange, wait: Duration) -> Instant {
        let begin = || Timer { uid: pod.uid(), what, at: Instant::now() + wait };
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        let timer = timers.entry(key.clone()).or_insert_with(begin);
        if timer.uid != pod.uid() || timer.what != what {
            *timer = begin();
        }
        timer.at
    }

    /// Returns the address of the pod's node, and of the pod.
    fn address(&self, pod: &Pod, key: &ObjectKey) -> Result<(Ipv4Addr, Option<Ipv4Addr>), Error> {
        let node = match (&self.nodes, node(pod)) {
            (Some(nodes), Some(node)) => nodes.get(&ObjectKey::cluster(node))?,
            _ => None,
        };
        let network = node.map_or_else(|| Network::numbered(0), |node| Network::of(&node));
        if pod.spec["hostNetwork"] == true {
            return Ok((network.host, Some(network.host)));
        }
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if self.addresses_recorded.set(()).is_ok() {
            for pod in &self.pods.list() {
                let known = pod.get()?;
                if let Some(address) = known.status.pod_ip.as_ref().filter(|_| !is_finished(&known))
                {
                    addresses.note(pod.key(), known.metadata.uid.as_deref(), address);
                }
            }
        }
        Ok((network.host, addresses.take(key, pod.metadata.uid.as_deref(), network)))
    }

    /// Drops the timer and the address of a pod that has ended.
    fn forget(&self, key: &ObjectKey) {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).release(key);
    }
}

/// Ends a pod that is being deleted but has finalizers: the owner of a finalizer may wait for the
/// end of the pod.
async fn end_deleted(pod: &Pod, clock: Clock, cx: &RunContext) -> Result<Action, Error> {
    if !is_finished(pod) && !pod.finalizers().is_empty() && node(pod).is_some() {
        let uid = pod.uid();
        cx.live::<Pod>()
            .modify_status(cx.key(), |live| {
                if live.uid() == uid && !is_finished(live) {
                    live.status = ended::status(live, &Ok(KILLED), clock.now());
                }
            })
            .await?;
    }
    cx.live().with(WriteOptions::new().grace_period(0)).delete(pod).await?;
    Ok(Action::done())
}
