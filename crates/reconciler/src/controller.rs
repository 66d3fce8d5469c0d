//! A controller: informers whose events become keys in a queue, and workers that drain it.

pub(crate) mod any_controller;
pub(crate) mod builder;
pub(crate) mod defaults;
pub(crate) mod handle;
#[cfg(feature = "prometheus")]
pub(crate) mod metrics;
pub(crate) mod run_error;
pub(crate) mod signal;
pub(crate) mod status;

mod cache_sync;
mod main_loop;
mod plan_mode;
mod wiring;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use windlass_indexer::{Lister, ObjectKey, ObjectType};
use windlass_informer::{InformerCache, InformerStatus, Resource};
use windlass_workqueue::WorkQueue;

use crate::cause::Cause;
use crate::controller::handle::ControllerHandle;
use crate::controller::run_error::RunError;
use crate::controller::status::ControllerStatus;
use crate::controller_core::ControllerCore;
use crate::history::hot_loop::HotLoop;
use crate::history::inactive::InactiveKey;
use crate::history::journal::RecentRuns;
use crate::history::run_record::Run;
use crate::plan::InPlan;
use crate::recorder::Recorder;
use crate::worker::Work;
use crate::writes::write::Write;

/// A controller, ready to run. Built by [`Controller::of`](crate::ControllerBuilder).
pub struct Controller<K> {
    pub(crate) work: Arc<Work<K>>,
    pub(crate) handle: ControllerHandle,
    /// Set while `run` runs. It stays set if the future of `run` is dropped, and after `plan`: then
    /// the controller cannot run again.
    pub(crate) is_running: AtomicBool,
    /// Whether all caches were complete once.
    pub(crate) is_synced: AtomicBool,
    pub(crate) in_plan: Option<InPlan>,
    pub(crate) sync_timeout: Duration,
}

impl<K: ObjectType> Controller<K> {
    fn core(&self) -> &ControllerCore {
        &self.work.core
    }

    /// The last runs of a key, the oldest first: when, why, how long, how it ended, what it wrote.
    pub fn runs(&self, key: &ObjectKey) -> Vec<Run> {
        self.core().journal.runs(key)
    }

    /// How often a key has run since this controller started. It begins again for a key that is
    /// forgotten because many others ran after it.
    pub fn run_count(&self, key: &ObjectKey) -> u64 {
        self.core().journal.run_count(key)
    }

    /// The last runs of all keys, the newest first, at most `limit`.
    pub fn recent_runs(&self, limit: usize) -> RecentRuns {
        self.core().journal.recent_runs(limit)
    }

    /// Calls `observer` with every write of a run that the server has answered, in the order of the
    /// answers, together with the key that ran. It is called before the run sees the answer, so it
    /// must be quick. Returns whether it was accepted: a controller has one observer.
    pub fn on_write(&self, observer: impl Fn(&ObjectKey, &Write) + Send + Sync + 'static) -> bool {
        self.core().on_write.set(Arc::new(observer)).is_ok()
    }

    /// Its caches. Each can tell whether it shows something that was written.
    pub fn caches(&self) -> Vec<InformerCache> {
        let sources = self.core().sources.all();
        sources.iter().map(|source| source.cache.clone()).collect()
    }

    /// The kinds of [children](crate::RunContext::children) that it makes, as its builder declares
    /// them.
    pub fn made_kinds(&self) -> Vec<Resource> {
        self.core().child_kinds.made().to_vec()
    }

    /// The kinds of children that it [does not make any more](crate::ControllerBuilder::retires).
    pub fn retired_kinds(&self) -> Vec<Resource> {
        self.core().child_kinds.retired().to_vec()
    }

    /// Records the Kubernetes events of its runs.
    pub fn recorder(&self) -> &Recorder {
        &self.core().recorder
    }

    /// The cache of the objects that are reconciled.
    pub fn lister(&self) -> &Lister<K> {
        &self.work.objects
    }

    /// The queue, which knows the state of every key.
    pub fn queue(&self) -> &WorkQueue<ObjectKey, Cause> {
        &self.core().enqueuer.queue
    }

    /// What it has done, and how busy it is.
    pub fn status(&self) -> ControllerStatus {
        self.core().status()
    }

    /// The state of its informers, the reconciled kind first. Each call computes how much memory
    /// they use, which takes longer the more objects there are.
    pub fn informers(&self) -> Vec<InformerStatus> {
        self.core().sources.all().iter().map(|source| source.cache.status()).collect()
    }

    /// The keys that do not run, because their object is paused, because they were given up, or
    /// because of a terminal error, in their order.
    pub fn inactive(&self) -> Vec<InactiveKey> {
        self.core().inactive.all()
    }

    /// The last runs of all keys that wrote something, the newest first, at most `limit`.
    pub fn writing_runs(&self, limit: usize) -> Vec<(ObjectKey, Run)> {
        self.core().journal.writing_runs(limit)
    }

    /// The keys that their own writes wake again and again, at most `limit`: those whose last ten
    /// runs or more were caused by nothing but the run before, and changed the same object again.
    pub fn hot_loops(&self, limit: usize) -> Vec<(ObjectKey, HotLoop)> {
        self.core().journal.hot_loops(limit)
    }

    /// The annotation that [pauses](crate::ControllerBuilder::paused_by) an object if its value is
    /// `true`; `None` if nothing does.
    pub fn pause_annotation(&self) -> Option<&str> {
        self.core().pause.annotation()
    }

    /// Whether the cached object of a key is paused. `false` if there is none.
    pub fn is_paused(&self, key: &ObjectKey) -> bool {
        self.lister().reader().get(key).is_some_and(|object| self.core().pause.is_paused(&object))
    }

    /// A handle that adds streams and sources while the controller runs, and shows its finished
    /// runs.
    pub fn handle(&self) -> ControllerHandle {
        self.handle.clone()
    }

    /// For how long all workers have been busy; `None` if one is free. This is the age of the
    /// youngest run, so it is a lower bound.
    pub fn all_busy_for(&self) -> Option<Duration> {
        self.core().all_busy_for()
    }

    /// Why a cache is not complete, and what to do about it. `None` if all of them are. Sources
    /// that were added later do not count.
    pub fn trouble(&self) -> Option<String> {
        let sources = self.core().sources.all().into_iter();
        let unsynced = sources.filter(|source| !source.is_late && !source.cache.has_synced());
        let troubles = unsynced.map(|source| RunError::incomplete(&source.cache.status()));
        let troubles: Vec<_> = troubles.collect();
        (!troubles.is_empty()).then(|| troubles.join("; "))
    }

    /// The name of the controller.
    pub fn name(&self) -> &str {
        &self.core().controller
    }
}

impl<K> Drop for Controller<K> {
    /// Empties the queue, which would warn of keys that are left. No work is lost: a controller
    /// that starts later enqueues every object.
    fn drop(&mut self) {
        let queue = &self.work.core.enqueuer.queue;
        queue.shut_down();
        while let Some(key) = queue.try_get() {
            drop(key);
        }
    }
}

impl<K> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Controller").field(&self.work.core.controller).finish()
    }
}
