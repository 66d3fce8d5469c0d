//! The controllers of a manager, with their types erased.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use windlass_indexer::ObjectKey;
use windlass_informer::{InformerCache, InformerStatus, Resource, SharedInformerFactory};
use windlass_reconciler::{
    BuildError, Cause, Controller, ControllerBuilder, ControllerDefaults, ControllerMetrics,
    ControllerStatus, HotLoop, InactiveKey, ObjectType, Plan, PlanRecorder, RecentRuns, Reconcile,
    Recorder, Run, RunError, Shutdown, Write,
};
use windlass_workqueue::WorkQueue;

use crate::error::ManagerError;
use crate::http::checks::{Checks, Finding, Probe};

/// A [`Controller`] of any type. Its methods are those of the controller.
pub trait AnyController: Send + Sync {
    /// [`Controller::name`].
    fn name(&self) -> &str;
    /// [`Controller::status`].
    fn status(&self) -> ControllerStatus;
    /// [`Controller::all_busy_for`].
    fn all_busy_for(&self) -> Option<Duration>;
    /// [`Controller::trouble`].
    fn trouble(&self) -> Option<String>;
    /// [`Controller::queue`].
    fn queue(&self) -> &WorkQueue<ObjectKey, Cause>;
    /// [`Controller::runs`].
    fn runs(&self, key: &ObjectKey) -> Vec<Run>;
    /// [`Controller::run_count`].
    fn run_count(&self, key: &ObjectKey) -> u64;
    /// [`Controller::recent_runs`].
    fn recent_runs(&self, limit: usize) -> RecentRuns;
    /// [`Controller::writing_runs`].
    fn writing_runs(&self, limit: usize) -> Vec<(ObjectKey, Run)>;
    /// [`Controller::informers`].
    fn informers(&self) -> Vec<InformerStatus>;
    /// [`Controller::inactive`].
    fn inactive(&self) -> Vec<InactiveKey>;
    /// [`Controller::hot_loops`].
    fn hot_loops(&self, limit: usize) -> Vec<(ObjectKey, HotLoop)>;
    /// [`Controller::pause_annotation`].
    fn pause_annotation(&self) -> Option<&str>;
    /// [`Controller::is_paused`].
    fn is_paused(&self, key: &ObjectKey) -> bool;
    /// [`Controller::caches`]. The first one is of what the controller reconciles.
    fn caches(&self) -> Vec<InformerCache>;
    /// [`Controller::made_kinds`].
    fn made_kinds(&self) -> Vec<Resource>;
    /// [`Controller::retired_kinds`].
    fn retired_kinds(&self) -> Vec<Resource>;
    /// [`Controller::recorder`].
    fn recorder(&self) -> &Recorder;
    /// [`Controller::on_write`].
    fn on_write(&self, observer: OnWrite) -> bool;
    /// [`Controller::wait_for_sync`].
    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), RunError>>;
    /// [`Controller::run`].
    fn run(&self, shutdown: Shutdown) -> BoxFuture<'_, Result<(), RunError>>;
    /// [`Controller::take_over`].
    fn take_over(&self, shutdown: Shutdown) -> BoxFuture<'_, Result<(), RunError>>;
    /// [`Controller::plan_with`].
    fn plan_with<'a>(&'a self, recorder: &'a PlanRecorder)
    -> BoxFuture<'a, Result<Plan, RunError>>;
}

/// Called with every write of a run, and the key that ran. See [`Controller::on_write`].
pub type OnWrite = Arc<dyn Fn(&ObjectKey, &Write) + Send + Sync>;

impl<K: ObjectType> AnyController for Controller<K> {
    fn name(&self) -> &str {
        Controller::name(self)
    }

    fn status(&self) -> ControllerStatus {
        Controller::status(self)
    }

    fn all_busy_for(&self) -> Option<Duration> {
        Controller::all_busy_for(self)
    }

    fn trouble(&self) -> Option<String> {
        Controller::trouble(self)
    }

    fn queue(&self) -> &WorkQueue<ObjectKey, Cause> {
        Controller::queue(self)
    }

    fn runs(&self, key: &ObjectKey) -> Vec<Run> {
        Controller::runs(self, key)
    }

    fn run_count(&self, key: &ObjectKey) -> u64 {
        Controller::run_count(self, key)
    }

    fn recent_runs(&self, limit: usize) -> RecentRuns {
        Controller::recent_runs(self, limit)
    }

    fn writing_runs(&self, limit: usize) -> Vec<(ObjectKey, Run)> {
        Controller::writing_runs(self, limit)
    }

    fn informers(&self) -> Vec<InformerStatus> {
        Controller::informers(self)
    }

    fn inactive(&self) -> Vec<InactiveKey> {
        Controller::inactive(self)
    }

    fn hot_loops(&self, limit: usize) -> Vec<(ObjectKey, HotLoop)> {
        Controller::hot_loops(self, limit)
    }

    fn pause_annotation(&self) -> Option<&str> {
        Controller::pause_annotation(self)
    }

    fn is_paused(&self, key: &ObjectKey) -> bool {
        Controller::is_paused(self, key)
    }

    fn caches(&self) -> Vec<InformerCache> {
        Controller::caches(self)
    }

    fn made_kinds(&self) -> Vec<Resource> {
        Controller::made_kinds(self)
    }

    fn retired_kinds(&self) -> Vec<Resource> {
        Controller::retired_kinds(self)
    }

    fn recorder(&self) -> &Recorder {
        Controller::recorder(self)
    }

    fn on_write(&self, observer: OnWrite) -> bool {
        Controller::on_write(self, move |key, write| observer(key, write))
    }

    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(Controller::wait_for_sync(self))
    }

    fn run(&self, shutdown: Shutdown) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(Controller::run(self, shutdown))
    }

    fn take_over(&self, shutdown: Shutdown) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(Controller::take_over(self, shutdown))
    }

    fn plan_with<'a>(
        &'a self,
        recorder: &'a PlanRecorder,
    ) -> BoxFuture<'a, Result<Plan, RunError>> {
        Box::pin(Controller::plan_with(self, recorder))
    }
}

/// A controller that is built once the manager has a client.
pub(crate) struct PendingController {
    pub(crate) name: String,
    pub(crate) needs_leadership: bool,
    build: Build,
}

type Build = Box<dyn FnOnce(&Parts) -> Result<Arc<dyn AnyController>, BuildError> + Send>;

/// Builds controllers in another way than with a [`ControllerBuilder`], as a library does.
pub(crate) type BuildOthers = Box<
    dyn FnOnce(&SharedInformerFactory) -> Result<Vec<Arc<dyn AnyController>>, ManagerError> + Send,
>;

/// What controllers are built from.
pub(crate) struct Parts {
    pub(crate) factory: SharedInformerFactory,
    pub(crate) defaults: ControllerDefaults,
    /// `None` if metrics are off.
    pub(crate) metrics: Option<ControllerMetrics>,
    /// The client of the runs.
    pub(crate) client: Client,
}

impl PendingController {
    pub(crate) fn new<K: ObjectType>(
        builder: ControllerBuilder<K>,
        reconciler: impl Reconcile<K>,
        needs_leadership: bool,
    ) -> Self {
        let name = builder.controller_name();
        let build = move |parts: &Parts| {
            let mut builder = builder.defaults(parts.defaults.clone());
            builder = builder.client(parts.client.clone());
            if let Some(metrics) = &parts.metrics {
                builder = builder.metrics(metrics);
            }
            let controller = builder.build(&parts.factory, reconciler)?;
            Ok(Arc::new(controller) as Arc<dyn AnyController>)
        };
        Self { name, needs_leadership, build: Box::new(build) }
    }

    pub(crate) fn build(self, parts: &Parts) -> Result<Arc<dyn AnyController>, BuildError> {
        (self.build)(parts)
    }
}

/// Adds the checks of a controller: it is ready when its caches are complete, and not alive if all
/// of its workers are stuck.
pub(crate) fn add_checks(
    checks: &Checks,
    controller: &Arc<dyn AnyController>,
    stuck_after: Duration,
    has_webhooks: bool,
) {
    let name = format!("controller/{}", controller.name());
    let ready = Arc::clone(controller);
    checks.add(Probe::Ready, &name, move || {
        std::future::ready(match ready.trouble() {
            None => Finding::Ok(None),
            // The API server must be able to call this replica, see `State::start`.
            Some(trouble) if has_webhooks => Finding::Ok(Some(trouble)),
            Some(trouble) => Finding::Failed(trouble),
        })
    });
    let live = Arc::clone(controller);
    checks.add(Probe::Live, &name, move || {
        std::future::ready(match live.all_busy_for() {
            Some(busy) if busy > stuck_after => Finding::Failed(format!(
                "all workers have been busy with one object each for {} s: see the log for which, \
                 and give the controller a timeout",
                busy.as_secs()
            )),
            _ => Finding::Ok(None),
        })
    });
}
