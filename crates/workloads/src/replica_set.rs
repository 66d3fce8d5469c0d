//! The controller of replica sets: as many pods as asked for.
//!
//! One run looks at the pods that belong to the set, makes or deletes what is missing or too much, and says in the status
//! what it saw. Whether the cache can be believed for that is [`unseen`]'s to say; which pods go first, [`ranking`]'s.

mod ranking;
mod status;
mod unseen;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, ObjectMeta};
use serde_json::Value;
use windlass::indexer::{ByOwner, Lister, ObjectKey};
use windlass::informer::{InformerOptions, SharedInformerFactory};
use windlass::reconciler::{Action, BuildError, Context, Controller, Error, Reconcile, Watch};

use crate::claim::{Orphans, adopters, candidates, claim_all, controller, reference, selector};
use crate::clock::Clock;
use crate::objects::{Pod, PodStatus, ReplicaSet};
use crate::pod::is_active;
use crate::write::{api, create, delete, update_status};
use unseen::Unseen;

/// Pods that one run makes or deletes at most, so that others get their turn: as upstream.
const BURST: usize = 500;

/// Makes replica sets true.
pub(crate) struct ReplicaSets {
    pods: Lister<Pod>,
    clock: Clock,
    unseen: Unseen,
}

/// The controller, with informers from `factory`.
///
/// # Errors
/// If it does not fit what others ask of the informers.
pub(crate) fn build(
    factory: &SharedInformerFactory,
    workers: usize,
    clock: Clock,
) -> Result<Controller<ReplicaSet>, BuildError> {
    const NAME: &str = "replicaset";
    let failed = |error| BuildError::Informer { controller: NAME.to_owned(), error };
    let pods = factory.informer_with::<Pod>(indexed).map_err(failed)?.lister().clone();
    let sets = factory.lister::<ReplicaSet>().map_err(failed)?;
    Controller::of(Watch::<ReplicaSet>::new())
        .name(NAME)
        .workers(workers)
        .owns(Watch::<Pod>::new())
        .watches(Watch::<Pod>::new(), move |pod| adopters(&sets, pod, selector_of))
        .build(factory, ReplicaSets { pods, clock, unseen: Unseen::default() })
}

/// By owner, and those that have none.
pub(crate) fn indexed(options: InformerOptions) -> InformerOptions {
    options.index(ByOwner).index(Orphans)
}

fn selector_of(set: &ReplicaSet) -> &LabelSelector {
    &set.spec.selector
}

impl Reconcile<ReplicaSet> for ReplicaSets {
    async fn reconcile(&self, set: Arc<ReplicaSet>, cx: &Context) -> Result<Action, Error> {
        let Some(selector) = selector(&set.spec.selector)? else { return Ok(Action::Done) };
        let candidates = self.candidates(&set, cx).await?;
        let pods = claim_all(cx, &*set, &selector, candidates).await?;
        let managed = if set.metadata.deletion_timestamp.is_none() {
            self.manage(&set, &pods, cx).await
        } else {
            Ok(())
        };
        // The status is worth writing even if a pod could not be.
        let (status, later) = status::of(&set, &pods, self.clock.now());
        let mut observed = ReplicaSet::clone(&set);
        observed.status = status;
        update_status(cx, &*set, &observed).await?;
        managed?;
        Ok(later.map_or(Action::Done, Action::RequeueAfter))
    }

    async fn absent(&self, key: &ObjectKey, _: &Context) -> Result<Action, Error> {
        // Its pods are collected by their owner references.
        self.unseen.forget(key);
        Ok(Action::Done)
    }
}

impl ReplicaSets {
    /// The pods that belong to the set, or may come to: from the cache, or live if the cache lacks own writes.
    async fn candidates(&self, set: &ReplicaSet, cx: &Context) -> Result<Vec<Arc<Pod>>, Error> {
        let cached = candidates(cx, set, &self.pods)?;
        if !self.unseen.is_behind(cx.key(), &cached) {
            return Ok(cached);
        }
        tracing::debug!(key = %cx.key(), "the cache lacks own writes, so pods are listed");
        let live = api::<Pod>(cx).list(&ListParams::default()).await?;
        let uid = set.metadata.uid.as_ref();
        let is_candidate =
            |pod: &Pod| controller(&pod.metadata).is_none_or(|owner| Some(&owner.uid) == uid);
        let live: Vec<_> = live.items.into_iter().filter(is_candidate).map(Arc::new).collect();
        self.unseen.look_at_live(cx.key(), &live);
        Ok(live)
    }

    /// Makes the pods that are missing, or deletes those that are too many.
    async fn manage(&self, set: &ReplicaSet, pods: &[Arc<Pod>], cx: &Context) -> Result<(), Error> {
        let wanted = usize::try_from(set.replicas()).unwrap_or(0);
        let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        for _ in active.len()..wanted.min(active.len() + BURST) {
            // One after the other: if the server refuses one, it would refuse the others, too.
            let pod = create(cx, &new_pod(set)?).await?;
            self.unseen.created(cx.key(), &pod);
        }
        let excess = active.len().saturating_sub(wanted).min(BURST);
        for pod in ranking::to_delete(active, excess) {
            delete(cx, &*pod, DeleteParams::default()).await?;
            self.unseen.deleted(cx.key(), &pod);
        }
        Ok(())
    }
}

/// A pod of the set's template, without a name of its own.
fn new_pod(set: &ReplicaSet) -> Result<Pod, Error> {
    let template = &set.spec.template;
    let metadata: ObjectMeta = match &template["metadata"] {
        Value::Null => ObjectMeta::default(),
        metadata => serde_json::from_value(metadata.clone())?,
    };
    Ok(Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.name_any())),
            namespace: set.namespace(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: Some(vec![reference(set)]),
            ..ObjectMeta::default()
        },
        spec: template["spec"].clone(),
        status: PodStatus::default(),
    })
}
