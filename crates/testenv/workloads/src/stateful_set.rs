//! The controller of stateful sets: pods with stable names, created one after the other.
//!
//! One run finds the revision of the template, reads the pods by ordinal, updates their claims,
//! takes the steps of the [`plan`], and writes the status.
//!
//! Names follow from ordinals and templates, so a stale cache leads to a conflict and another run,
//! never to a second pod with the same ordinal.
//!
//! Reading order: [`members`] (the pods by ordinal), [`plan`] (what to do), [`revision`],
//! [`claims`], [`pods`] (new pods), [`status`] (what is reported), [`update`] (the run that puts
//! them together).

mod claims;
mod members;
mod plan;
mod pods;
mod revision;
mod status;
mod update;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use windlass_indexer::Lister;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Action, BuildError, Controller, Error, Reconcile, RunContext, Watch};

use crate::adoption::{adopters, candidates, claim_all, selector};
use crate::clock::Clock;
use crate::objects::{Claim, ControllerRevision, Pod, StatefulSet};
use crate::replica_set::indexed;
use members::is_member;
use update::Update;

/// Reconciles stateful sets.
pub(crate) struct StatefulSets {
    pods: Lister<Pod>,
    revisions: Lister<ControllerRevision>,
    claims: Lister<Claim>,
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
) -> Result<Controller<StatefulSet>, BuildError> {
    const NAME: &str = "statefulset";
    let failed = |error| BuildError::Informer { controller: NAME.to_owned(), error };
    let pods = factory.informer_with::<Pod>(indexed).map_err(failed)?.lister().clone();
    let revisions = factory.informer_with::<ControllerRevision>(indexed).map_err(failed)?;
    let claims = factory.lister::<Claim>().map_err(failed)?;
    let sets = factory.lister::<StatefulSet>().map_err(failed)?;
    let revisions = revisions.lister().clone();
    Controller::named(NAME, Watch::<StatefulSet>::new())
        .workers(workers)
        .owns(Watch::<Pod>::new())
        .watches(Watch::<Pod>::new(), move |pod| adopters(&sets, pod, selector_of))
        .reads(Watch::<ControllerRevision>::new())
        .reads(Watch::<Claim>::new())
        .build(factory, StatefulSets { pods, revisions, claims, clock })
}

fn selector_of(set: &StatefulSet) -> &LabelSelector {
    &set.spec.selector
}

impl Reconcile<StatefulSet> for StatefulSets {
    async fn reconcile(&self, set: Arc<StatefulSet>, cx: &RunContext) -> Result<Action, Error> {
        let Some(selector) = selector(&set.spec.selector)? else { return Ok(Action::done()) };
        let found = candidates(cx, &*set, &self.revisions)?;
        let revisions = claim_all(cx, &*set, &selector, found).await?;
        let mut found = candidates(cx, &*set, &self.pods)?;
        // Matching labels are not enough for adoption: the name has to match, too.
        found.retain(|pod| is_member(&set, pod));
        let pods = claim_all(cx, &*set, &selector, found).await?;
        let revisions = revisions.iter().map(|one| ControllerRevision::clone(one)).collect();
        Update::new(cx, &set, revisions, &pods, self.clock.now()).advance(&self.claims).await
    }
}
