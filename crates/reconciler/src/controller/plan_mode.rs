//! Plan mode: every key runs once, and nothing is stored.

use parking_lot::Mutex;
use windlass_indexer::ObjectType;
use windlass_workqueue::{Add, KeyStatus};

use super::Controller;
use super::main_loop::resume_panic;
use crate::cause::Cause;
use crate::controller::run_error::RunError;
use crate::plan::{InPlan, OpenPlan, Plan, PlanRecorder};
use crate::shutdown::Shutdown;

impl<K: ObjectType> Controller<K> {
    /// What the controller would do to the cluster as it is now: runs every key once, with all
    /// writes as server-side dry runs, and returns the differences. Nothing is stored.
    ///
    /// - The server defaults, validates and admits each write as usual. So a plan also shows what
    ///   it would refuse. The account needs the same rights, and `get` on what it patches.
    /// - Each write is compared with the object as it is stored. What a run reads after a write is
    ///   not changed by it, and no run is woken by another: the plan is the first step of what
    ///   would happen, not where it ends. Its events are not published.
    /// - A run that fails is part of the plan. Retries and requeues are not.
    /// - Writes are sent one at a time, whatever the number of workers, and after each the plan
    ///   checks that the server has stored nothing.
    ///
    /// Afterwards, the controller cannot run: build another one.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    /// # use windlass_informer::SharedInformerFactory;
    /// # use windlass_reconciler::{Action, Controller, Error, InPlan};
    /// # use windlass_reconciler::{Reconcile, RunContext, Watch};
    /// # struct Scaler;
    /// # impl Reconcile<Deployment> for Scaler {
    /// #     async fn reconcile(
    /// #         &self,
    /// #         _: std::sync::Arc<Deployment>,
    /// #         _: &RunContext,
    /// #     ) -> Result<Action, Error> {
    /// #         Ok(Action::done())
    /// #     }
    /// # }
    /// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let deployments = Watch::<Deployment>::new();
    /// let builder = Controller::named("deployment", deployments).in_plan(InPlan::Run);
    /// let controller = builder.build(&SharedInformerFactory::new(client), Scaler)?;
    /// println!("{}", controller.plan().await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the controller has not said by
    /// [`in_plan`](crate::ControllerBuilder::in_plan) what it does, or has run already, and if a
    /// cache does not sync in time. If a server makes a write although it was sent as a dry run,
    /// the plan stops, and the [error](crate::DryRunIgnored) names the object.
    ///
    /// # Cancel safety
    /// If it is dropped, the runs that are under way are cancelled.
    pub async fn plan(&self) -> Result<Plan, RunError> {
        self.plan_with(&PlanRecorder::new()).await
    }

    /// Like [`plan`](Self::plan), as a part of a larger plan: if a server ignores a dry run in one
    /// part, all stop. Writes are noted in the plan that is returned, not by `recorder`.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    ///
    /// # Cancel safety
    /// As for [`plan`](Self::plan).
    pub async fn plan_with(&self, recorder: &PlanRecorder) -> Result<Plan, RunError> {
        match self.in_plan {
            None => return Err(RunError::NotInPlan),
            Some(InPlan::Skip) => return Ok(Plan::skipped(self.name())),
            Some(InPlan::Run) => {}
        }
        // `is_running` is never reset, so `run` is refused from now on: the queue is shut down
        // below.
        self.mark_running()?;
        let new = || OpenPlan { recorder: recorder.for_part(), plan: Mutex::default() };
        let open = self.core().plan.get_or_init(new);
        self.wait_for_sync().await?;
        // The handlers have enqueued what the caches have. In a plan, delayed keys run at once.
        let is_delayed = |status: &KeyStatus<_, _>| {
            status.next_run.as_ref().is_some_and(|run| run.due.is_some())
        };
        for status in self.queue().snapshot().keys.into_iter().filter(is_delayed) {
            self.core().enqueuer.add(status.key, Add::now(), Cause::Timer, None);
        }
        // The workers end when all keys have run, or when a server has ignored a dry run.
        self.queue().shut_down();
        let mut workers = self.start_workers(open.recorder.stop(), &Shutdown::new());
        while let Some(ended) = workers.join_next().await {
            ended.unwrap_or_else(resume_panic);
        }
        open.recorder.wait_for_check().await;
        if let Some(ignored) = open.recorder.ignored() {
            return Err(RunError::DryRunIgnored(ignored));
        }
        let plan = std::mem::take(&mut *open.plan.lock());
        Ok(plan.finish(self.name()))
    }
}
