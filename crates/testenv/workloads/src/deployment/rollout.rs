//! One run for one deployment: carries out what the pure modules decide.
//!
//! Every write names the resource version that it was decided on, and the name of a replica set
//! follows from its template. So a stale cache leads to a conflict and another run, never to a
//! second replica set or a step too many. The status is written once, at the end.

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use windlass_indexer::{Lister, ObjectKey, Uid};
use windlass_reconciler::{Action, Class, Error, RunContext, WriteOptions};

use super::limits::Limits;
use super::proportion::{Share, sizes};
use super::revision::{
    REVISION, desired_before, note_newest, note_scale, revision, total_max_before,
};
use super::rolling::{Size, Step, new_size, occupied, step};
use super::sets::Sets;
use super::status::{counted, deadline_in, is_complete, note_new_set, note_pause, set_progressing};
use super::template::{is_same, new_replica_set};
use crate::adoption::controller;
use crate::objects::{Condition, Deployment, Pod, ReplicaSet};
use crate::pod::is_finished;

/// A deployment in the middle of a run.
pub(super) struct Rollout<'a> {
    cx: &'a RunContext,
    now: Timestamp,
    deployment: Deployment,
    limits: Limits,
    sets: Sets,
    /// The conditions to write.
    conditions: Vec<Condition>,
}

impl<'a> Rollout<'a> {
    pub(super) fn new(
        cx: &'a RunContext,
        deployment: Deployment,
        sets: Vec<ReplicaSet>,
        now: Timestamp,
    ) -> Self {
        let template = &deployment.spec.template;
        let sets = Sets::of(sets, |set| is_same(&set.spec.template, template));
        let limits = Limits::of(&deployment);
        let conditions = deployment.status.conditions.clone();
        Self { cx, now, deployment, limits, sets, conditions }
    }

    /// Takes the next step, and writes the resulting status.
    pub(super) async fn advance(mut self, pods: &Lister<Pod>) -> Result<Action, Error> {
        if self.deployment.metadata.deletion_timestamp.is_some() {
            return self.write_status(false).await;
        }
        note_pause(&self.deployment, &mut self.conditions, self.now);
        let is_paused = self.deployment.spec.paused == Some(true);
        if is_paused || self.is_being_scaled() {
            self.prepare_new(false).await?;
            self.scale().await?;
            if is_paused {
                self.clean_up().await?;
            }
            return self.write_status(false).await;
        }
        if self.deployment.is_recreate_strategy() {
            self.recreate(pods).await?;
        } else {
            self.roll().await?;
        }
        self.write_status(true).await
    }

    /// Returns whether a replica set was last scaled for a different desired number.
    fn is_being_scaled(&self) -> bool {
        let active = self.sets.active_at().into_iter().map(|at| &self.sets.all()[at]);
        active.filter_map(desired_before).any(|desired| desired != self.limits.desired)
    }

    async fn roll(&mut self) -> Result<(), Error> {
        self.prepare_new(true).await?;
        let Some(new) = self.sets.new_at() else { return Ok(()) };
        let places = self.sets.old_at();
        let old: Vec<Size> = self.sets.old().map(Size::of).collect();
        match step(&self.limits, Size::of(&self.sets.all()[new]), &old) {
            Step::Wait => self.clean_up_if_complete().await,
            Step::ScaleNew(replicas) => self.resize(new, replicas).await,
            Step::ScaleOld(sizes) => {
                for (at, (size, old)) in places.into_iter().zip(sizes.into_iter().zip(old)) {
                    if size != old.replicas {
                        self.resize(at, size).await?;
                    }
                }
                Ok(())
            }
        }
    }

    async fn recreate(&mut self, pods: &Lister<Pod>) -> Result<(), Error> {
        self.prepare_new(false).await?;
        let old = self.sets.old_active_at();
        for &at in &old {
            self.resize(at, 0).await?;
        }
        if !old.is_empty() || self.old_pods_are_there(pods)? {
            return Ok(());
        }
        if self.sets.new_at().is_none() {
            self.prepare_new(true).await?;
        }
        if let Some(new) = self.sets.new_at() {
            self.resize(new, self.limits.desired).await?;
        }
        self.clean_up_if_complete().await
    }

    /// Returns whether a pod of an old template may still run, including pods being deleted.
    fn old_pods_are_there(&self, pods: &Lister<Pod>) -> Result<bool, Error> {
        for set in self.sets.old() {
            if set.status.replicas > 0 {
                return Ok(true);
            }
            for pod in &pods.by_owner(&Uid::new(&set.uid().unwrap_or_default()))? {
                if !is_finished(&*pod.get()?) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Brings the sizes to the desired number, without continuing a rollout.
    async fn scale(&mut self) -> Result<(), Error> {
        if let Some(at) = self.sets.only_active_or_newest() {
            return self.resize(at, self.limits.desired).await;
        }
        let active = self.sets.active_at();
        let is_saturated = |set: &ReplicaSet| {
            let desired = self.limits.desired;
            set.replicas() == desired
                && set.available() == desired
                && desired_before(set) == Some(desired)
        };
        if self.sets.newest().is_some_and(is_saturated) {
            for at in self.sets.old_active_at() {
                self.resize(at, 0).await?;
            }
        } else if !self.deployment.is_recreate_strategy() {
            let share = |&at: &usize| {
                let set = &self.sets.all()[at];
                Share { replicas: set.replicas(), total_max_before: total_max_before(set) }
            };
            let shares: Vec<Share> = active.iter().map(share).collect();
            let observed = self.deployment.status.replicas.unwrap_or(0);
            let sizes = sizes(&self.limits, &shares, observed);
            for (at, size) in active.into_iter().zip(sizes) {
                self.resize(at, size).await?;
            }
        }
        Ok(())
    }

    /// Scales a replica set, and records the limits in its annotations.
    async fn resize(&mut self, at: usize, replicas: i32) -> Result<(), Error> {
        let set = &self.sets.all()[at];
        let mut sized = set.clone();
        sized.spec.replicas = Some(replicas);
        note_scale(&mut sized, &self.limits);
        let sized = self.cx.live().update(set, &sized).await?;
        self.record_scaling(&sized, set.replicas());
        self.sets.replace(at, sized);
        Ok(())
    }

    fn record_scaling(&self, set: &ReplicaSet, before: i32) {
        let (name, now) = (set.name_any(), set.replicas());
        let direction = match now - before {
            0 => return,
            1.. => "up",
            _ => "down",
        };
        let note = format!("Scaled {direction} replica set {name} from {before} to {now}");
        self.cx.event(&self.deployment).normal("ScalingReplicaSet", note);
    }

    /// Updates the annotations of the new replica set. If it does not exist, creates it if
    /// `is_wanted`.
    async fn prepare_new(&mut self, is_wanted: bool) -> Result<(), Error> {
        match (self.sets.new_at(), self.sets.newest()) {
            (Some(at), Some(set)) => {
                let mut noted = set.clone();
                note_newest(&mut noted, &self.deployment, self.sets.old());
                noted.spec.min_ready_seconds = self.deployment.spec.min_ready_seconds;
                let noted = self.cx.live().update(set, &noted).await?;
                self.note_new_set(&noted, false);
                self.sets.replace(at, noted);
            }
            _ if is_wanted => self.create_new().await?,
            _ => return Ok(()),
        }
        self.note_revision().await
    }

    async fn create_new(&mut self) -> Result<(), Error> {
        let mut set = new_replica_set(&self.deployment)?;
        let old: Vec<Size> = self.sets.old().map(Size::of).collect();
        set.spec.replicas = Some(new_size(&self.limits, 0, occupied(&old)));
        note_newest(&mut set, &self.deployment, self.sets.old());
        note_scale(&mut set, &self.limits);
        match self.cx.live().create(&set).await {
            Ok(created) => {
                self.record_scaling(&created, 0);
                self.note_new_set(&created, true);
                self.sets.add_new(created);
                Ok(())
            }
            Err(error) if error.class() == Class::Conflict => {
                self.handle_taken_name(&set, error).await
            }
            Err(error) => Err(error),
        }
    }

    /// Handles a conflict on the name of a new replica set: either the cache does not show this
    /// replica set yet, or another object has the name.
    async fn handle_taken_name(
        &mut self,
        wanted: &ReplicaSet,
        refused: Error,
    ) -> Result<(), Error> {
        let namespace = self.cx.key().namespace().unwrap_or_default();
        let key = ObjectKey::namespaced(namespace, &wanted.name_any());
        let Some(set) = self.cx.live::<ReplicaSet>().get(&key).await? else {
            return Err(refused);
        };
        let owner = controller(&set.metadata).map(|owner| &owner.uid);
        if owner == self.deployment.metadata.uid.as_ref()
            && is_same(&set.spec.template, &self.deployment.spec.template)
        {
            self.note_new_set(&set, false);
            self.sets.add_new(set);
            return Ok(());
        }
        let mut counted = self.deployment.clone();
        let status = &mut counted.status;
        status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        self.cx.live().update_status(&self.deployment, &counted).await?;
        Err(Error::msg(format!(
            "replica set {} is not of this deployment; the next one gets another name",
            set.name_any()
        )))
    }

    fn note_new_set(&mut self, set: &ReplicaSet, is_created: bool) {
        let name = set.name_any();
        note_new_set(&self.deployment, &mut self.conditions, &name, is_created, self.now);
    }

    /// Sets the deployment's revision to that of its newest replica set. It is written with the
    /// status, as upstream does: a change of the annotations alone would be a new generation.
    async fn note_revision(&mut self) -> Result<(), Error> {
        let Some(new) = self.sets.newest() else { return Ok(()) };
        let revision = revision(new).to_string();
        if self.deployment.annotations().get(REVISION) == Some(&revision) {
            return Ok(());
        }
        let metadata = &self.deployment.metadata;
        let patch = json!({ "metadata": {
            "resourceVersion": metadata.resource_version,
            "annotations": { REVISION: revision },
        }});
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let deployments = Api::namespaced(self.cx.client().clone(), namespace);
        let (name, parameters) = (self.deployment.name_any(), PatchParams::default());
        self.deployment =
            deployments.patch_status(&name, &parameters, &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn clean_up_if_complete(&mut self) -> Result<(), Error> {
        if is_complete(&self.deployment, &self.deployment.status) {
            self.clean_up().await
        } else {
            Ok(())
        }
    }

    /// Deletes old replica sets beyond the history limit, oldest revisions first.
    async fn clean_up(&mut self) -> Result<(), Error> {
        let Some(limit) = self.deployment.spec.revision_history_limit else { return Ok(()) };
        let mut old: Vec<&ReplicaSet> =
            self.sets.old().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by_key(|set| revision(set));
        let surplus: Vec<_> = old.into_iter().take(surplus).filter(|set| is_empty(set)).collect();
        if !surplus.is_empty() {
            // A newer version of the deployment may keep more, or roll back to one of these.
            self.cx.confirm(&self.deployment).await?;
        }
        let in_this_version = WriteOptions::new().same_version();
        for set in surplus {
            self.cx.live().with(in_this_version).delete(set).await?;
        }
        Ok(())
    }

    /// Writes the status, and evaluates the progress if a rollout is under way.
    async fn write_status(self, is_rollout: bool) -> Result<Action, Error> {
        let Self { deployment, sets, now, .. } = &self;
        let mut status = counted(deployment, self.conditions.clone(), sets, *now);
        if is_rollout {
            set_progressing(deployment, &mut status, sets, *now);
        }
        let again = deadline_in(deployment, &status, *now);
        let mut observed = deployment.clone();
        observed.status = status;
        self.cx.live().update_status(deployment, &observed).await?;
        Ok(again.map_or(Action::done(), Action::requeue_after))
    }
}

/// Returns whether a replica set has no pods, wants none, and its status is up to date.
fn is_empty(set: &ReplicaSet) -> bool {
    set.replicas() == 0
        && set.status.replicas == 0
        && set.status.observed_generation >= set.metadata.generation
}
