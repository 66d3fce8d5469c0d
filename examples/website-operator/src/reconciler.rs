//! What is done for each Website, and what its status says.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use windlass::informer::InformerOptions;
use windlass::prelude::*;
use windlass::reconciler::{
    Class, ConditionType, ControllerBuilder, InPlan, children_selector, set_conditions,
};

use crate::config_map::config_map;
use crate::deployment::deployment;
use crate::hosts::Hosts;
use crate::service::service;
use crate::{Website, WebsiteStatus};

/// Held until the host of a deleted Website is free again.
pub const FINALIZER: &str = "example.com/host";

/// How often a blocked Website is tried again: another Website has its host, or an object has its
/// name. The operator does not watch these, so it has to look again.
const BLOCKED_FOR: Duration = Duration::from_secs(30);

/// The name of the controller.
const NAME: &str = "website";

/// Whether the site is served as it should be.
const READY: ConditionType = ConditionType::new("Ready");

/// Whether something is still changing.
const PROGRESSING: ConditionType = ConditionType::new("Progressing");

/// The reconciler.
#[derive(Clone, Debug)]
pub struct Websites {
    hosts: Hosts,
}

/// A reconciler that keeps the hosts in this namespace.
pub fn reconciler(hosts_namespace: &str) -> Finalized<Website, Websites> {
    Finalized::new(FINALIZER, Websites { hosts: Hosts::new(hosts_namespace) })
}

/// What the reconciler is run for: Websites, and changes to the objects that they own.
pub fn controller() -> ControllerBuilder<Website> {
    // What others make is not cached.
    let ours = |options: InformerOptions| options.label_selector(children_selector(NAME));
    Controller::named(NAME, Watch::<Website>::new().when(Predicate::generation_changed()))
        .owns(Watch::<ConfigMap>::new().options(ours))
        .owns(Watch::<Deployment>::new().options(ours))
        .owns(Watch::<Service>::new().options(ours))
        .pausable()
        // It changes nothing but through its context.
        .in_plan(InPlan::Run)
}

impl Finalize<Website> for Websites {
    async fn reconcile(&self, site: Arc<Website>, cx: &RunContext) -> Result<Action, Error> {
        match self.publish(&site, cx).await {
            Ok(made) => {
                write_status(&site, Progress::of(&site, &made), cx).await?;
                Ok(Action::done())
            }
            // People can do something about these, so they are told.
            Err(error) if matches!(error.class(), Class::Other | Class::Forbidden) => {
                cx.event(&site).warning("Blocked", error.to_string());
                write_status(&site, Progress::blocked(&error), cx).await?;
                Err(error.retry_after(BLOCKED_FOR))
            }
            // The server is busy, or somebody wrote or deleted it meanwhile: the next run will do.
            Err(error) => Err(error),
        }
    }

    async fn cleanup(&self, site: Arc<Website>, cx: &RunContext) -> Result<Action, Error> {
        self.hosts.release(&site, cx).await?;
        cx.event(&site).normal("Withdrawn", format!("the host {} is free", site.spec.host));
        Ok(Action::done())
    }
}

impl Websites {
    /// Makes everything, and returns the Deployment as the server has it now. If nothing differs,
    /// nothing is sent.
    async fn publish(&self, site: &Website, cx: &RunContext) -> Result<Deployment, Error> {
        self.hosts.claim(site, cx).await?;
        let children = cx
            .children(site)
            .apply(config_map(site))
            .apply(service(site))
            .apply(deployment(site))
            .prune()
            .await?;
        let made = children.get(&site.name_any())?;
        made.ok_or_else(|| Error::msg("the Deployment was applied, and must be there"))
    }
}

/// How far a Website is: what its status says.
struct Progress {
    /// `None` if it is not known, and the status keeps the number that it has.
    available: Option<i32>,
    conditions: [Condition; 2],
}

impl Progress {
    fn of(site: &Website, made: &Deployment) -> Self {
        let wanted = site.spec.replicas();
        // What the Deployment says of an older generation is not about this spec.
        let status = made.status.clone().unwrap_or_default();
        let is_current = status.observed_generation == made.metadata.generation;
        let DeploymentStatus { available_replicas, updated_replicas, replicas, .. } = status;
        let available = available_replicas.unwrap_or(0);
        let is_settled = is_current
            && available == wanted
            && updated_replicas == Some(wanted)
            && replicas == Some(wanted);
        let message = format!("{available} of {wanted} replicas are available");
        let conditions = if is_settled {
            [READY.yes("Available", &message), PROGRESSING.no("Settled", &message)]
        } else {
            [READY.no("Starting", &message), PROGRESSING.yes("RollingOut", &message)]
        };
        Self { available: Some(available), conditions }
    }

    fn blocked(error: &Error) -> Self {
        let told = |type_: ConditionType| type_.no("Blocked", error.to_string());
        Self { available: None, conditions: [told(READY), told(PROGRESSING)] }
    }
}

/// Writes the status, unless it says all of this already.
async fn write_status(site: &Website, progress: Progress, cx: &RunContext) -> Result<(), Error> {
    let mut new = site.clone();
    let status = new.status.get_or_insert_with(WebsiteStatus::default);
    let was_ready = READY.is_true(&status.conditions);
    status.observed_generation = site.metadata.generation;
    status.available_replicas = progress.available.unwrap_or(status.available_replicas);
    set_conditions(&mut status.conditions, site.metadata.generation, progress.conditions);
    let is_ready = READY.is_true(&status.conditions);
    cx.live().update_status(site, &new).await?;
    if is_ready && !was_ready {
        cx.event(site).normal("Published", format!("http://{} is served", site.spec.host));
    }
    Ok(())
}
