//! The controller of jobs: runs pods until enough have succeeded or too many have failed.
//!
//! Every finished pod is counted exactly once, even if a run fails half-way: it keeps a finalizer
//! until its uid is listed in the status as uncounted, and is counted once the finalizer is gone.
//!
//! Reading order: [`indexes`], [`tally`] (what the pods report), [`verdict`] (whether the job is
//! over), [`backoff`], [`demand`] (how many pods are missing), [`pods`] (new pods), [`count`]
//! (counting finished pods), [`condition`], [`run`] (the run that puts them together).
//!
//! Not supported: `podFailurePolicy`, `successPolicy` and `backoffLimitPerIndex`; a job that has
//! one of these gets an event that says so.

mod backoff;
mod condition;
mod count;
mod demand;
mod indexes;
mod pods;
mod run;
mod tally;
mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use windlass_indexer::{Lister, ObjectKey};
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{
    Action, BuildError, Controller, Error, Propagation, Reconcile, RunContext, Watch, WriteOptions,
};

use crate::adoption::{adopters, claim_all_with, controller, selector, trusted_candidates};
use crate::clock::{Clock, until};
use crate::objects::{Job, Pod};
use crate::replica_set::indexed;
use backoff::Backoff;
use pods::{is_tracked, track, untrack};
use run::Run;
use verdict::{COMPLETE, FAILED};

/// The value of `managedBy` for jobs that kube-controller-manager runs.
const MANAGED_BY: &str = "kubernetes.io/job-controller";

/// Reconciles jobs.
pub(crate) struct Jobs {
    pods: Lister<Pod>,
    clock: Clock,
    /// The consecutive failures of each job's pods, by key and uid. As upstream, this is not
    /// stored.
    backoffs: Mutex<HashMap<ObjectKey, (Option<String>, Backoff)>>,
}

/// Builds the controller with informers from `factory`.
///
/// # Errors
/// If its informer options conflict with those that others have requested.
pub(crate) fn build(
    factory: &SharedInformerFactory,
    workers: usize,
    clock: Clock,
) -> Result<Controller<Job>, BuildError> {
    const NAME: &str = "job";
    let failed = |error| BuildError::Informer { controller: NAME.to_owned(), error };
    let pods = factory.informer_with::<Pod>(indexed).map_err(failed)?.lister().clone();
    let jobs = factory.lister::<Job>().map_err(failed)?;
    Controller::named(NAME, Watch::<Job>::new())
        .workers(workers)
        .owns(Watch::<Pod>::new())
        .watches(Watch::<Pod>::new(), move |pod| adopters(&jobs, pod, selector_of))
        .build(factory, Jobs { pods, clock, backoffs: Mutex::default() })
}

fn selector_of(job: &Job) -> &LabelSelector {
    &job.spec.selector
}

impl Reconcile<Job> for Jobs {
    async fn reconcile(&self, job: Arc<Job>, cx: &RunContext) -> Result<Action, Error> {
        if job.spec.managed_by.as_deref().is_some_and(|by| by != MANAGED_BY) {
            return Ok(Action::done());
        }
        if job.condition(COMPLETE).or_else(|| job.condition(FAILED)).is_some() {
            self.forget(cx.key());
            self.release(cx, None).await?;
            return self.expire(&job, cx).await;
        }
        let Some(selector) = selector(&job.spec.selector)? else { return Ok(Action::done()) };
        self.release(cx, job.metadata.uid.as_deref()).await?;
        let found = trusted_candidates(cx, &*job, &self.pods).await?;
        let pods = claim_all_with(cx, &*job, &selector, found, track).await?;
        let backoff = self.backoff(&job, cx.key());
        let run = Run::new(cx, &job, pods, backoff, self.clock.now());
        let (backoff, action) = run.advance().await?;
        self.note_backoff(&job, cx.key(), backoff);
        Ok(action)
    }

    async fn absent(&self, key: &ObjectKey, cx: &RunContext) -> Result<Action, Error> {
        self.forget(key);
        self.release(cx, None).await?;
        Ok(Action::done())
    }
}

impl Jobs {
    /// Deletes a job and its pods when its `ttlSecondsAfterFinished` has passed.
    async fn expire(&self, job: &Job, cx: &RunContext) -> Result<Action, Error> {
        let Some(ttl) = job.spec.ttl_seconds_after_finished else { return Ok(Action::done()) };
        let over = job.condition(COMPLETE).or_else(|| job.condition(FAILED));
        let since = over.and_then(|over| over.last_transition_time.as_ref());
        let Some(since) = since.filter(|_| job.metadata.deletion_timestamp.is_none()) else {
            return Ok(Action::done());
        };
        let left = until(self.clock.now(), since, ttl);
        if !left.is_zero() {
            return Ok(Action::requeue_after(left));
        }
        let options = WriteOptions::new().propagation(Propagation::Foreground).same_version();
        cx.live().with(options).delete(job).await?;
        Ok(Action::done())
    }

    /// Removes the finalizers of pods that no job will count any more: all that belong to a job of
    /// this name, or all except those of the job with the uid `kept`.
    async fn release(&self, cx: &RunContext, kept: Option<&str>) -> Result<(), Error> {
        let (namespace, name) = (cx.key().namespace().unwrap_or_default(), cx.key().name());
        let mut orphaned = Vec::new();
        for pod in &self.pods.in_namespace(namespace) {
            let owner = pod.head().controller();
            let is_ours = owner.is_some_and(|owner| owner.kind == "Job" && owner.name == name);
            if !is_ours {
                continue;
            }
            let pod = pod.get()?;
            let owner = controller(&pod.metadata).map(|owner| owner.uid.as_str());
            if is_tracked(&pod) && (kept.is_none() || owner != kept) {
                orphaned.push(pod);
            }
        }
        if orphaned.is_empty() {
            return Ok(());
        }
        // The cache of jobs may lack a new job, which will count its pods.
        let live = cx.live::<Job>().get(cx.key()).await?.and_then(|job| job.uid());
        for pod in orphaned {
            let owner = controller(&pod.metadata).map(|owner| owner.uid.as_str());
            if live.is_none() || owner != live.as_deref() {
                untrack(cx, &pod).await?;
            }
        }
        Ok(())
    }

    fn backoff(&self, job: &Job, key: &ObjectKey) -> Backoff {
        let backoffs = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = backoffs.get(key).filter(|(uid, _)| *uid == job.uid());
        known.map_or_else(Backoff::default, |(_, backoff)| *backoff)
    }

    fn note_backoff(&self, job: &Job, key: &ObjectKey, backoff: Backoff) {
        let mut backoffs = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        backoffs.insert(key.clone(), (job.uid(), backoff));
    }

    fn forget(&self, key: &ObjectKey) {
        self.backoffs.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
