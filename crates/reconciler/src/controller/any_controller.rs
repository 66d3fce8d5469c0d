//! Controllers of different types behind one interface.

use std::time::Duration;

use futures::future::BoxFuture;
use windlass_indexer::{ObjectKey, ObjectType};
use windlass_informer::{InformerCache, InformerStatus, Resource};
use windlass_workqueue::WorkQueue;

use super::Controller;
use super::run_error::RunError;
use super::status::ControllerStatus;
use crate::cause::Cause;
use crate::controller_core::OnWrite;
use crate::history::hot_loop::HotLoop;
use crate::history::inactive::InactiveKey;
use crate::history::journal::RecentRuns;
use crate::history::run_record::Run;
use crate::plan::{Plan, PlanRecorder};
use crate::recorder::Recorder;
use crate::shutdown::Shutdown;

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
