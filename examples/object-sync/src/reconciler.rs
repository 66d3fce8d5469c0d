//! What is done for a sync, and when.

use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use windlass::informer::Resource;
use windlass::prelude::*;
use windlass::reconciler::{
    Children, ChildrenReport, Class, ControllerBuilder, InPlan, is_controlled_by, remove_owner,
};

use crate::kinds::Kinds;
use crate::mapping;
use crate::status::{self, READY, SourceMissing, is_unknown_kind, judge, without_values};
use crate::sync::{ByReference, DISABLE_TARGET_DELETION, FORCE_DELETE, ResourceSync};

/// The name of the controller, by which it knows its targets again.
const NAME: &str = "object-sync";

/// Held until the target of a deleted sync is gone.
pub const FINALIZER: &str = "sync.example.com/target";

/// How often a sync looks whether its target is gone. Its watch says so earlier; this is for the
/// case that the watch does not work.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// The reconciler.
#[derive(Debug)]
pub struct Syncs {
    kinds: Kinds,
}

/// The controller, and its reconciler. The reconciler adds watches to the controller.
pub fn operator() -> (ControllerBuilder<ResourceSync>, Finalized<ResourceSync, Syncs>) {
    let is_relevant = Predicate::generation_changed()
        .or(Predicate::annotations_changed())
        .or(Predicate::finalizers_changed());
    let syncs = Watch::<ResourceSync>::new()
        .options(|informer| informer.index(ByReference))
        .when(is_relevant);
    // Which kinds its targets have is only known in a run; the status of a sync says where to look.
    let controller = Controller::named(NAME, syncs).makes_any().in_plan(InPlan::Run);
    let kinds = Kinds::new(controller.handle());
    (controller, Finalized::new(FINALIZER, Syncs { kinds }))
}

impl Finalize<ResourceSync> for Syncs {
    async fn reconcile(
        &self,
        mut sync: Arc<ResourceSync>,
        cx: &RunContext,
    ) -> Result<Action, Error> {
        match self.make_target(&mut sync, cx).await {
            Ok(done) => {
                let synced = READY.yes("Synced", "the target is up to date");
                status::write_synced(&sync, synced, cx).await?;
                if done.has_changed() {
                    cx.event(&sync).normal("Synced", done.to_string());
                }
                Ok(Action::done())
            }
            // Somebody else wrote meanwhile, leads, or has deleted the sync: the next run will do.
            Err(error) if is_for_the_next_run(&error) => Err(error),
            Err(error) => tell(&sync, error, cx).await,
        }
    }

    async fn cleanup(&self, sync: Arc<ResourceSync>, cx: &RunContext) -> Result<Action, Error> {
        let is_forced = sync.asks_for(FORCE_DELETE);
        match self.remove_target(&sync, cx).await {
            Ok(true) => Ok(Action::done()),
            Ok(false) if is_forced => {
                cx.event(&sync).warning("TargetLeft", "the target is not gone yet");
                Ok(Action::done())
            }
            Ok(false) => {
                let waits = READY.no("Deleting", "waits until the target is gone");
                status::write(&sync, waits, cx).await?;
                Ok(Action::requeue_after(GONE_WITHIN))
            }
            // Somebody else wrote meanwhile, or leads: the next run will do.
            Err(error) if is_for_the_next_run(&error) => Err(error),
            // Not if the target shall stay: it still has its owner, so it would be deleted.
            Err(error) if is_forced && !sync.asks_for(DISABLE_TARGET_DELETION) => {
                cx.event(&sync).warning("TargetLeft", error.to_string());
                Ok(Action::done())
            }
            Err(error) => tell(&sync, error, cx).await,
        }
    }

    async fn absent(&self, sync: &ObjectKey, _: &RunContext) -> Result<Action, Error> {
        self.kinds.forget(sync);
        Ok(Action::done())
    }
}

impl Syncs {
    /// Makes the target as it should be, and deletes one that the sync had before. The sync is as
    /// it is after the target was noted.
    async fn make_target(
        &self,
        sync: &mut Arc<ResourceSync>,
        cx: &RunContext,
    ) -> Result<ChildrenReport, Error> {
        let spec = &sync.spec;
        let [source_kind, target_kind] =
            self.kinds.follow([&spec.source, &spec.target], cx).await?;
        let key = sync.key_of(&source_kind, &spec.source);
        let Some(source) = read(&source_kind, &key, cx).await? else {
            return Err(SourceMissing { kind: spec.source.kind.clone(), key }.into());
        };
        let source = serde_json::to_value(&*source)?;
        let target = mapping::target(&spec.target, &spec.mappings, &source)?;
        // Not earlier: a kind that nothing can be made of takes no room in the list.
        *sync = status::note_target(Arc::clone(sync), cx).await?;
        // It gets an owner reference to the sync. An object that belongs to somebody else is
        // refused, and so is a cluster-scoped one, which cannot have such an owner.
        let children = self.with_older_targets(sync, cx).await?.apply_of(&target_kind, target);
        children.prune().await.map_err(without_values)
    }

    /// The set of a sync, which looks for targets of every kind that it may have had.
    async fn with_older_targets<'a>(
        &self,
        sync: &ResourceSync,
        cx: &'a RunContext,
    ) -> Result<Children<'a>, Error> {
        let mut children = cx.children(sync);
        for target in sync.status.iter().flat_map(|status| &status.targets) {
            match self.kinds.find(target, cx).await {
                Ok(kind) => children = children.prune_of(&kind),
                // There are no objects of a kind that the server does not know.
                Err(error) if is_unknown_kind(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(children)
    }

    /// Deletes the target, or lets go of it. Returns whether nothing is left to do.
    async fn remove_target(&self, sync: &ResourceSync, cx: &RunContext) -> Result<bool, Error> {
        let kind = match self.kinds.follow([&sync.spec.target], cx).await {
            Ok([kind]) => Some(kind),
            // There are no objects of a kind that the server does not know.
            Err(error) if is_unknown_kind(&error) => None,
            Err(error) => return Err(error),
        };
        let target = kind.as_ref().map(|kind| (kind, sync.key_of(kind, &sync.spec.target)));
        if sync.asks_for(DISABLE_TARGET_DELETION) {
            if let Some((kind, key)) = target {
                // Otherwise the garbage collector would delete it.
                let let_go = |target: &mut DynamicObject| {
                    remove_owner(target, sync);
                };
                cx.live_of::<DynamicObject>(kind).modify(&key, let_go).await?;
            }
            return Ok(true);
        }
        let done = self.with_older_targets(sync, cx).await?.prune().await?;
        if done.has_changed() {
            cx.event(sync).normal("TargetDeleted", done.to_string());
        }
        let Some((kind, key)) = target else { return Ok(true) };
        let left = cx.live_of::<DynamicObject>(kind).get(&key).await?;
        Ok(!left.is_some_and(|target| is_controlled_by(&target.metadata, sync)))
    }
}

fn is_for_the_next_run(error: &Error) -> bool {
    matches!(
        error.class(),
        Class::Conflict | Class::NotLeader | Class::StaleRead | Class::OwnerDeleted
    )
}

/// An object from its cache. The cache may be so new that it is not complete, so the server is
/// asked for what it does not have.
async fn read(
    resource: &Resource,
    key: &ObjectKey,
    cx: &RunContext,
) -> Result<Option<Arc<DynamicObject>>, Error> {
    if let Ok(cache) = cx.cache_of::<DynamicObject>(resource)
        && let Some(cached) = cache.get(key)?
    {
        return Ok(Some(cached));
    }
    Ok(cx.live_of::<DynamicObject>(resource).get(key).await?.map(Arc::new))
}

/// Writes what is wrong into the status, with an event if it is news, and ends the run.
async fn tell(sync: &ResourceSync, error: Error, cx: &RunContext) -> Result<Action, Error> {
    let message = error.to_string();
    let (reason, end) = judge(error);
    if status::write(sync, READY.no(reason, &message), cx).await? {
        cx.event(sync).warning(reason, message);
    }
    end
}
