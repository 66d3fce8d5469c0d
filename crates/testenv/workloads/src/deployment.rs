//! The controller of deployments: a replica set for each pod template, and rollouts from one to the
//! next.
//!
//! Reading order: [`limits`], [`rolling`], [`proportion`] (arithmetic), [`template`], [`revision`],
//! [`sets`] (replica sets), [`condition`], [`status`] (what is reported), [`rollout`] (the run that
//! puts them together).

mod condition;
mod limits;
mod proportion;
mod revision;
mod rolling;
mod rollout;
mod sets;
mod status;
pub(crate) mod template;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use windlass_indexer::{Cached, Lister, ObjectKey};
use windlass_informer::{Event, SharedInformerFactory};
use windlass_reconciler::{
    Action, BuildError, Controller, Error, Predicate, Reconcile, RunContext, Watch,
};

use crate::adoption::{adopters, candidates, claim_all, selector};
use crate::clock::Clock;
use crate::objects::{Deployment, Pod, ReplicaSet};
use crate::replica_set::indexed;
use rollout::Rollout;

/// Reconciles deployments.
pub(crate) struct Deployments {
    sets: Lister<ReplicaSet>,
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
) -> Result<Controller<Deployment>, BuildError> {
    const NAME: &str = "deployment";
    let failed = |error| BuildError::Informer { controller: NAME.to_owned(), error };
    let pods = factory.informer_with::<Pod>(indexed).map_err(failed)?.lister().clone();
    let sets = factory.informer_with::<ReplicaSet>(indexed).map_err(failed)?.lister().clone();
    let deployments = factory.lister::<Deployment>().map_err(failed)?;
    let owners = sets.clone();
    // `Recreate` waits for the last pod of an old template, which its replica set no longer counts.
    let deleted =
        Watch::<Pod>::new().when(Predicate::new(|event| matches!(event, Event::Deleted { .. })));
    Controller::named(NAME, Watch::<Deployment>::new())
        .workers(workers)
        .owns(Watch::<ReplicaSet>::new())
        .watches(Watch::<ReplicaSet>::new(), move |set| adopters(&deployments, set, selector_of))
        .watches(deleted, move |pod| deployment_of(&owners, pod))
        .build(factory, Deployments { sets, pods, clock })
}

fn selector_of(deployment: &Deployment) -> &LabelSelector {
    &deployment.spec.selector
}

/// Returns the deployment that owns the replica set of a pod.
fn deployment_of(sets: &Lister<ReplicaSet>, pod: &Cached<Pod>) -> Option<ObjectKey> {
    let namespace = pod.head().namespace()?;
    let owner = pod.head().controller().filter(|owner| owner.kind == "ReplicaSet")?;
    let set = sets.cached((namespace, owner.name))?;
    let owner = set.head().controller().filter(|owner| owner.kind == "Deployment")?;
    Some(ObjectKey::namespaced(namespace, owner.name))
}

impl Reconcile<Deployment> for Deployments {
    async fn reconcile(&self, object: Arc<Deployment>, cx: &RunContext) -> Result<Action, Error> {
        let Some(selector) = selector(&object.spec.selector)? else { return Ok(Action::done()) };
        let found = candidates(cx, &*object, &self.sets)?;
        let sets = claim_all(cx, &*object, &selector, found).await?;
        let sets = sets.iter().map(|set| ReplicaSet::clone(set)).collect();
        let rollout = Rollout::new(cx, Deployment::clone(&object), sets, self.clock.now());
        rollout.advance(&self.pods).await
    }
}
