//! What an operator would do to a cluster: `--plan`, or [`Manager::plan`].

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Plan, PlanRecorder, PlannedWrite, plan_crd};

use crate::connect::{Cluster, wait_for_server};
use crate::controllers::Parts;
use crate::error::{ManagerError, NoCluster};
use crate::manager::Manager;
use crate::options::PlanFormat;
use crate::own_requests::own_requests;

/// How long informers may take to stop. They wait for nothing that takes long.
const INFORMERS_TIMEOUT: Duration = Duration::from_secs(5);

/// What an operator would do to a cluster.
///
/// [`Display`](fmt::Display) is for people, [`Serialize`] for programs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OperatorPlan {
    /// What would change in its definitions.
    pub definitions: Vec<PlannedWrite>,
    /// What would change in its webhook configurations. Certificates are no part of a plan: each
    /// `caBundle` is as it is now, and there is none where there is none yet.
    pub webhook_configurations: Vec<PlannedWrite>,
    /// What its controllers would do, in the order in which they were added.
    pub controllers: Vec<Plan>,
    /// The names of its tasks, which are not part of a plan.
    pub tasks_left_out: Vec<String>,
}

impl OperatorPlan {
    /// Whether nothing would be written, and no run failed.
    pub fn is_empty(&self) -> bool {
        let mut configured = self.definitions.iter().chain(&self.webhook_configurations);
        configured.next().is_none() && self.controllers.iter().all(Plan::is_empty)
    }

    /// How many runs failed.
    pub fn failed(&self) -> usize {
        self.controllers.iter().map(Plan::failed).sum()
    }

    /// Prints the plan to standard output. Returns an error if runs failed.
    pub(crate) fn print(&self, format: PlanFormat) -> Result<(), ManagerError> {
        match format {
            PlanFormat::Text => print!("{self}"),
            PlanFormat::Json => {
                let text = serde_json::to_string_pretty(self);
                println!("{}", text.expect("a plan must be representable as JSON"));
            }
        }
        match self.failed() {
            0 => Ok(()),
            failed => Err(ManagerError::PlanIncomplete { failed }),
        }
    }
}

impl Manager {
    /// What the operator would do to the cluster as it is now. Every controller runs
    /// [in plan mode](windlass_reconciler::Controller::plan): all of its writes are server-side dry
    /// runs. Definitions are compared, and not installed. Tasks do not run, there is no election,
    /// and nothing is served.
    ///
    /// `--plan` prints this instead of running the operator.
    ///
    /// # Errors
    /// Returns an error if a controller does not set
    /// [`in_plan`](windlass_reconciler::ControllerBuilder::in_plan), if a definition is not
    /// installed, or if a cache cannot be filled. If a server makes a write although it was sent as
    /// a dry run, the whole plan stops, and the error names the object.
    ///
    /// # Cancel safety
    /// If it is dropped, the runs that are under way are cancelled. Nothing was changed, unless a
    /// server has ignored a dry run.
    pub async fn plan(self) -> Result<OperatorPlan, ManagerError> {
        self.check_names()?;
        Box::pin(plan(self)).await
    }
}

/// Runs all controllers in plan mode.
async fn plan(manager: Manager) -> Result<OperatorPlan, ManagerError> {
    let recorder = PlanRecorder::new();
    let planned = plan_parts(manager, &recorder).await;
    // A controller that has failed ends the others, also in the middle of a write.
    recorder.wait_for_check().await;
    // Whatever failed because of that.
    recorder.ignored().map_or(planned, |ignored| Err(ignored.into()))
}

async fn plan_parts(
    mut manager: Manager,
    recorder: &PlanRecorder,
) -> Result<OperatorPlan, ManagerError> {
    let Cluster { make_client, found, server } =
        Cluster::find(manager.make_client.take(), &manager.options).await?;
    tracing::info!(cluster = found, "planning: nothing will be changed");
    let client = make_client(manager.stack.clone()).map_err(|error| NoCluster::new(&error))?;
    if let Some(server) = &server {
        wait_for_server(&client, server).await?;
    }
    let planning = recorder.client(own_requests(&client));
    let registration = match manager.webhooks.take() {
        Some(webhooks) => Some(webhooks.plan(&manager.options, &client)?),
        None => None,
    };
    if let Some(registration) = &registration {
        registration.set_conversions(&mut manager.definitions)?;
    }
    for definition in &manager.definitions {
        plan_crd(&planning, definition).await?;
    }
    let definitions = recorder.take();
    if let Some(registration) = &registration {
        registration.install(&planning).await?;
    }
    let webhook_configurations = recorder.take();
    let mut informers = manager.informers;
    let namespaces = manager.options.namespaces();
    if !namespaces.is_empty() {
        informers = informers.namespaces(namespaces);
    }
    let factory = SharedInformerFactory::builder(client.clone()).defaults(informers).build();
    let mut defaults = manager.defaults;
    if let Some(workers) = manager.options.workers {
        defaults = defaults.workers(workers);
    }
    let parts = Parts { factory: factory.clone(), defaults, metrics: None, client };
    let mut controllers = Vec::new();
    for pending in manager.controllers {
        controllers.push(pending.build(&parts)?);
    }
    let plans = controllers.iter().map(|controller| async {
        let name = controller.name().to_owned();
        controller
            .plan_with(recorder)
            .await
            .map_err(|error| ManagerError::Controller { name, error })
    });
    let plans = futures::future::try_join_all(plans).await;
    drop(controllers);
    // The plan is complete, even if the informers do not stop in time.
    let _ = timeout(INFORMERS_TIMEOUT, factory.shut_down()).await;
    Ok(OperatorPlan {
        definitions,
        webhook_configurations,
        controllers: plans?,
        tasks_left_out: manager.tasks.into_iter().map(|task| task.name).collect(),
    })
}

impl fmt::Display for OperatorPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (definitions, webhooks) = (&self.definitions, &self.webhook_configurations);
        for (title, writes) in [("definitions", definitions), ("webhook configurations", webhooks)]
        {
            if !writes.is_empty() {
                writeln!(f, "{title}")?;
                writes.iter().try_for_each(|write| write!(f, "{write}"))?;
            }
        }
        self.controllers.iter().try_for_each(|plan| write!(f, "{plan}"))?;
        for task in &self.tasks_left_out {
            writeln!(f, "task {task}: left out")?;
        }
        let writes: usize = self.controllers.iter().map(|plan| plan.writes().count()).sum();
        let writes = writes + definitions.len() + webhooks.len();
        writeln!(f, "{writes} writes planned. Nothing was changed.")
    }
}
