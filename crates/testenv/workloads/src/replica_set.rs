//! The controller of replica sets: keeps the desired number of pods.
//!
//! One run compares the set's pods with the desired number, creates missing pods or deletes surplus
//! ones, and writes the status. [`ranking`] decides which pods go first.
//!
//! Pods have generated names, so only counting prevents duplicates, and a stale cache counts wrong.
//! So a run trusts the cache only if it shows the writes of the previous run; otherwise it asks the
//! server.

pub(crate) mod ranking;
mod status;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use windlass_indexer::{ByOwner, Lister};
use windlass_informer::{InformerOptions, SharedInformerFactory};
use windlass_reconciler::{Action, BuildError, Controller, Error, Reconcile, RunContext, Watch};

use crate::adoption::{Orphans, adopters, claim_all, selector, trusted_candidates};
use crate::clock::Clock;
use crate::objects::{Pod, ReplicaSet};
use crate::pod::{from_template, is_active};

/// The maximum number of pods that one run creates or deletes, so that other sets get their turn:
/// as upstream.
const BURST: usize = 500;

/// Reconciles replica sets.
pub(crate) struct ReplicaSets {
    pods: Lister<Pod>,
    clock: Clock,
}

/// Builds the controller with informers from `factory`.
///
/// # Errors
/// If its informer options conflict with those that others have requested.
pub(crate) fn build(
    factory: &SharedInformerFactory,
    workers: usize,
    clock: Clock,
) -> Result<Controller<ReplicaSet>, BuildError> {
    const NAME: &str = "replicaset";
    let failed = |error| BuildError::Informer { controller: NAME.to_owned(), error };
    let pods = factory.informer_with::<Pod>(indexed).map_err(failed)?.lister().clone();
    let sets = factory.lister::<ReplicaSet>().map_err(failed)?;
    Controller::named(NAME, Watch::<ReplicaSet>::new())
        .workers(workers)
        .owns(Watch::<Pod>::new())
        .watches(Watch::<Pod>::new(), move |pod| adopters(&sets, pod, selector_of))
        .build(factory, ReplicaSets { pods, clock })
}

/// Adds the indexes by owner and of orphans.
pub(crate) fn indexed(options: InformerOptions) -> InformerOptions {
    options.index(ByOwner).index(Orphans)
}

fn selector_of(set: &ReplicaSet) -> &LabelSelector {
    &set.spec.selector
}

impl Reconcile<ReplicaSet> for ReplicaSets {
    async fn reconcile(&self, set: Arc<ReplicaSet>, cx: &RunContext) -> Result<Action, Error> {
        let Some(selector) = selector(&set.spec.selector)? else { return Ok(Action::done()) };
        let candidates = trusted_candidates(cx, &*set, &self.pods).await?;
        let pods = claim_all(cx, &*set, &selector, candidates).await?;
        let managed = if set.metadata.deletion_timestamp.is_none() {
            Self::manage(&set, &pods, cx).await
        } else {
            Ok(())
        };
        // The status is worth writing even if a pod could not be created.
        let (status, later) = status::of(&set, &pods, self.clock.now());
        let mut observed = ReplicaSet::clone(&set);
        observed.status = status;
        cx.live().update_status(&*set, &observed).await?;
        managed?;
        Ok(later.map_or(Action::done(), Action::requeue_after))
    }
}

impl ReplicaSets {
    /// Creates missing pods, or deletes surplus ones.
    async fn manage(set: &ReplicaSet, pods: &[Arc<Pod>], cx: &RunContext) -> Result<(), Error> {
        let wanted = usize::try_from(set.replicas()).unwrap_or(0);
        let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        for _ in active.len()..wanted.min(active.len() + BURST) {
            // One after the other: if the server refuses one, it would refuse the others as well.
            let pod = cx.live().create(&from_template(&set.spec.template, set)?).await?;
            cx.event(set).normal("SuccessfulCreate", format!("Created pod: {}", pod.name_any()));
        }
        let excess = active.len().saturating_sub(wanted).min(BURST);
        if excess > 0 {
            // A newer version of the set may want more.
            cx.confirm(set).await?;
        }
        for pod in ranking::to_delete(active, excess) {
            cx.live().delete(&*pod).await?;
            cx.event(set).normal("SuccessfulDelete", format!("Deleted pod: {}", pod.name_any()));
        }
        Ok(())
    }
}
