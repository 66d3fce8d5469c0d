//! One run for one stateful set: carries out what the pure modules decide.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use windlass_indexer::{Lister, ObjectKey};
use windlass_reconciler::{Action, Class, Error, RunContext};

use super::claims::{claims_of, is_left_over, owners_of};
use super::members::{Members, ordinal, pod_name};
use super::plan::{Step, plan};
use super::pods::{new_pod, revision_of, set_identity};
use super::revision::{data, new_revision, next, sort, surplus};
use super::status::{self, Names};
use crate::objects::{Claim, ControllerRevision, Pod, StatefulSet};
use crate::pod::{PENDING, is_deleted, phase};

/// How long to wait for a claim that is being deleted: no event reports its end.
const CLAIM_WAIT: Duration = Duration::from_millis(200);

/// A stateful set in the middle of a run.
pub(super) struct Update<'a> {
    cx: &'a RunContext,
    set: &'a StatefulSet,
    members: Members,
    /// From the oldest to the newest.
    revisions: Vec<ControllerRevision>,
    now: Timestamp,
    /// Whether a pod cannot be created because of a claim that is being deleted.
    waits_for_claim: bool,
}

/// The revisions in use.
struct UsedRevisions {
    /// The revision of the template.
    update: ControllerRevision,
    /// The revision that all pods had when the last update was complete.
    current: ControllerRevision,
    collisions: i32,
}

impl<'a> Update<'a> {
    pub(super) fn new(
        cx: &'a RunContext,
        set: &'a StatefulSet,
        mut revisions: Vec<ControllerRevision>,
        pods: &[Arc<Pod>],
        now: Timestamp,
    ) -> Self {
        sort(&mut revisions);
        let members = Members::of(set, pods);
        Self { cx, set, members, revisions, now, waits_for_claim: false }
    }

    /// Takes the possible steps, and writes the resulting status.
    pub(super) async fn advance(mut self, claims: &Lister<Claim>) -> Result<Action, Error> {
        let used = self.find_revisions().await?;
        let mut replaced = 0;
        let mut stepped = Ok(());
        if self.set.metadata.deletion_timestamp.is_none() {
            self.update_claims(claims).await?;
            for step in plan(self.set, &self.members, &used.update.name_any(), self.now) {
                let is_current = matches!(&step, Step::Replace(pod)
                    if revision_of(pod) == used.current.metadata.name.as_deref());
                stepped = self.execute(step, &used, claims).await;
                if stepped.is_err() {
                    break;
                }
                replaced += i32::from(is_current);
            }
        }
        // The status is worth writing even if a pod could not be created.
        let again = self.write_status(&used, replaced).await?;
        stepped?;
        self.clean_up(&used).await?;
        Ok(again.map_or(Action::done(), Action::requeue_after))
    }

    /// Finds the revision of the template among the existing ones, or creates it.
    async fn find_revisions(&mut self) -> Result<UsedRevisions, Error> {
        let collisions = self.set.status.collision_count.unwrap_or(0);
        let wanted = data(self.set);
        let found = self.revisions.iter().rposition(|revision| revision.data == wanted);
        let (update, collisions) = match found {
            Some(at) if at + 1 == self.revisions.len() => (self.revisions[at].clone(), collisions),
            Some(at) => {
                // A template that is used again becomes the newest.
                let old = self.revisions.remove(at);
                let mut newest = old.clone();
                newest.revision = next(&self.revisions);
                let newest = self.cx.live().update(&old, &newest).await?;
                self.revisions.push(newest.clone());
                (newest, collisions)
            }
            None => {
                let (made, collisions) = self.create_revision(collisions).await?;
                self.revisions.push(made.clone());
                (made, collisions)
            }
        };
        let current = self.set.status.current_revision.as_ref();
        let mut revisions = self.revisions.iter();
        let current = revisions.find(|one| one.metadata.name.as_ref() == current).cloned();
        Ok(UsedRevisions { current: current.unwrap_or_else(|| update.clone()), update, collisions })
    }

    /// Creates the revision of the template, trying other names while they are taken.
    async fn create_revision(
        &self,
        mut collisions: i32,
    ) -> Result<(ControllerRevision, i32), Error> {
        loop {
            let revision = new_revision(self.set, &self.revisions, collisions)?;
            let refused = match self.cx.live().create(&revision).await {
                Ok(made) => return Ok((made, collisions)),
                Err(error) if error.class() == Class::Conflict => error,
                Err(error) => return Err(error),
            };
            let namespace = self.cx.key().namespace().unwrap_or_default();
            let key = ObjectKey::namespaced(namespace, &revision.name_any());
            match self.cx.live::<ControllerRevision>().get(&key).await? {
                // The cache does not show it yet.
                Some(present) if present.data == revision.data => return Ok((present, collisions)),
                Some(_) => collisions = collisions.wrapping_add(1),
                None => return Err(refused),
            }
        }
    }

    /// Creates claims that pending pods lack, and sets the owners of all claims.
    async fn update_claims(&self, claims: &Lister<Claim>) -> Result<(), Error> {
        if self.set.spec.volume_claim_templates.is_empty() {
            return Ok(());
        }
        for (pod, is_surplus) in self.with_is_surplus() {
            let Some(ordinal) = ordinal(self.set, pod) else { continue };
            for wanted in claims_of(self.set, ordinal)? {
                let Some(claim) = claims.get((self.namespace(), &*wanted.name_any()))? else {
                    if phase(pod) == PENDING && !is_deleted(pod) && !is_surplus {
                        self.create_claim(&wanted, &pod.name_any()).await?;
                    }
                    continue;
                };
                if let Some(owners) = owners_of(&claim, self.set, pod, is_surplus)? {
                    let mut owned = Claim::clone(&claim);
                    owned.metadata.owner_references = Some(owners);
                    self.cx.live().update(&*claim, &owned).await?;
                }
            }
        }
        Ok(())
    }

    /// Returns all pods, and whether each is surplus.
    fn with_is_surplus(&self) -> impl Iterator<Item = (&Arc<Pod>, bool)> {
        let wanted = self.members.wanted.iter().flatten().map(|pod| (pod, false));
        wanted.chain(self.members.surplus.iter().map(|pod| (pod, true)))
    }

    async fn execute(
        &mut self,
        step: Step,
        used: &UsedRevisions,
        claims: &Lister<Claim>,
    ) -> Result<(), Error> {
        tracing::debug!(step = step.describe(), "stateful set");
        match step {
            Step::Create(ordinal) => self.create_pod(ordinal, used, claims).await,
            Step::Delete(pod) | Step::Replace(pod) => {
                // A newer version of the set may want the pod.
                self.cx.confirm(self.set).await?;
                self.cx.live().delete(&*pod).await?;
                self.record_event("SuccessfulDelete", "Delete Pod", &pod.name_any());
                Ok(())
            }
            Step::Label(pod) => {
                let Some(ordinal) = ordinal(self.set, &pod) else { return Ok(()) };
                let mut labelled = Pod::clone(&pod);
                set_identity(&mut labelled, ordinal);
                self.cx.live().update(&*pod, &labelled).await?;
                Ok(())
            }
        }
    }

    /// Creates a pod after its claims, unless one of these is being deleted.
    async fn create_pod(
        &mut self,
        ordinal: i32,
        used: &UsedRevisions,
        claims: &Lister<Claim>,
    ) -> Result<(), Error> {
        let name = pod_name(self.set, ordinal);
        for wanted in claims_of(self.set, ordinal)? {
            match claims.get((self.namespace(), &*wanted.name_any()))? {
                None => self.create_claim(&wanted, &name).await?,
                Some(claim) if waits_for_claim(&claim, self.set, &name) => {
                    self.waits_for_claim = true;
                    return Ok(());
                }
                Some(_) => {}
            }
        }
        let keeps_current = ordinal < self.set.start().saturating_add(self.set.partition());
        let revision = if keeps_current { &used.current } else { &used.update };
        self.cx.live().create(&new_pod(self.set, revision, ordinal)?).await?;
        self.record_event("SuccessfulCreate", "Create Pod", &name);
        Ok(())
    }

    async fn create_claim(&self, claim: &Claim, pod: &str) -> Result<(), Error> {
        let mut made = claim.clone();
        // The pod does not exist yet, so only the set can be the owner.
        if self.set.spec.persistent_volume_claim_retention_policy.deletes_with_set() {
            made.metadata.owner_references =
                Some(vec![windlass_reconciler::owner_reference(self.set)?]);
        }
        self.cx.live().create(&made).await?;
        let note = format!(
            "Create Claim {} Pod {pod} in StatefulSet {} success",
            claim.name_any(),
            self.set.name_any()
        );
        self.cx.event(self.set).normal("SuccessfulCreate", note);
        Ok(())
    }

    fn record_event(&self, reason: &str, what: &str, pod: &str) {
        let note = format!("{what} {pod} in StatefulSet {} successful", self.set.name_any());
        self.cx.event(self.set).normal(reason, note);
    }

    fn namespace(&self) -> &str {
        self.cx.key().namespace().unwrap_or_default()
    }

    /// Writes the status, and returns when to recompute it.
    async fn write_status(
        &self,
        used: &UsedRevisions,
        replaced: i32,
    ) -> Result<Option<Duration>, Error> {
        let names = Names {
            current: used.current.name_any(),
            update: used.update.name_any(),
            collisions: used.collisions,
        };
        let (status, later) = status::of(self.set, &self.members, &names, replaced, self.now);
        let mut observed = self.set.clone();
        observed.status = status;
        self.cx.live().update_status(self.set, &observed).await?;
        let held_up = self.waits_for_claim.then_some(CLAIM_WAIT);
        Ok(later.into_iter().chain(held_up).min())
    }

    /// Deletes revisions beyond the history limit.
    async fn clean_up(&self, used: &UsedRevisions) -> Result<(), Error> {
        let of_pods = self.members.all().filter_map(|pod| revision_of(pod).map(str::to_owned));
        let of_status = [used.current.name_any(), used.update.name_any()];
        let names: BTreeSet<String> = of_pods.chain(of_status).collect();
        let surplus = surplus(self.set, &self.revisions, &names);
        if !surplus.is_empty() {
            self.cx.confirm(self.set).await?;
        }
        for revision in surplus {
            self.cx.live().delete(revision).await?;
        }
        Ok(())
    }
}

/// Returns whether a pod of this name has to wait for the claim's deletion.
fn waits_for_claim(claim: &Claim, set: &StatefulSet, pod_name: &str) -> bool {
    claim.metadata.deletion_timestamp.is_some() || is_left_over(claim, set, pod_name)
}
