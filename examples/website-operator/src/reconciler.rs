//! What is done for each Website, and what its status says.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::informer::InformerOptions;
use windlass::prelude::*;
use windlass::reconciler::{Class, ControllerBuilder, condition, is_condition_true, set_condition};

use crate::config_map::config_map;
use crate::deployment::deployment;
use crate::hosts::Hosts;
use crate::labels;
use crate::service::service;
use crate::website::{Website, WebsiteStatus};

/// Held until the host of a deleted Website is free again.
pub const FINALIZER: &str = "example.com/host";

/// How often a blocked Website is tried again: another Website has its host, or an object has its
/// name. The operator does not watch these, so it has to look again.
const BLOCKED_FOR: Duration = Duration::from_secs(30);

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
    let ours = |options: InformerOptions| options.label_selector(labels::selector());
    Controller::of(Watch::<Website>::new().when(Predicate::generation_changed()))
        .name("website")
        .owns(Watch::<ConfigMap>::new().options(ours))
        .owns(Watch::<Deployment>::new().options(ours))
        .owns(Watch::<Service>::new().options(ours))
}

impl Finalize<Website> for Websites {
    async fn reconcile(&self, site: Arc<Website>, cx: &RunContext) -> Result<Action, Error> {
        match self.publish(&site, cx).await {
            Ok(made) => {
                write_status(&site, &Progress::of(&site, &made), cx).await?;
                Ok(Action::Done)
            }
            // People can do something about these, so they are told.
            Err(error) if matches!(error.class(), Class::Other | Class::Forbidden) => {
                cx.event(&site).warning("Blocked", error.to_string());
                write_status(&site, &Progress::blocked(&error), cx).await?;
                Err(error.retry_after(BLOCKED_FOR))
            }
            // The server is busy, or somebody wrote meanwhile: the next run will do.
            Err(error) => Err(error),
        }
    }

    async fn cleanup(&self, site: Arc<Website>, cx: &RunContext) -> Result<Action, Error> {
        self.hosts.release(&site, cx).await?;
        cx.event(&site).normal("Withdrawn", format!("the host {} is free", site.spec.host));
        Ok(Action::Done)
    }
}

impl Websites {
    /// Makes everything, and returns the Deployment as the server has it now. Each of these writes
    /// changes nothing if nothing differs.
    async fn publish(&self, site: &Website, cx: &RunContext) -> Result<Deployment, Error> {
        self.hosts.claim(site, cx).await?;
        cx.live().apply_owned(config_map(site), site).await?;
        cx.live().apply_owned(service(site), site).await?;
        cx.live().apply_owned(deployment(site), site).await
    }
}

/// How far a Website is: what its status says.
struct Progress {
    /// `None` if it is not known, and the status keeps the number that it has.
    available: Option<i32>,
    ready: (&'static str, &'static str, String),
    progressing: (&'static str, &'static str, String),
}

impl Progress {
    fn of(site: &Website, made: &Deployment) -> Self {
        let wanted = site.spec.replicas;
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
        let (ready, progressing) = if is_settled {
            (("True", "Available"), ("False", "Settled"))
        } else {
            (("False", "Starting"), ("True", "RollingOut"))
        };
        Self {
            available: Some(available),
            ready: (ready.0, ready.1, message.clone()),
            progressing: (progressing.0, progressing.1, message),
        }
    }

    fn blocked(error: &Error) -> Self {
        Self {
            available: None,
            ready: ("False", "Blocked", error.to_string()),
            progressing: ("False", "Blocked", error.to_string()),
        }
    }

    fn conditions(&self, generation: Option<i64>) -> [Condition; 2] {
        let with_generation = |type_, (status, reason, message): &(&str, &str, String)| Condition {
            observed_generation: generation,
            ..condition(type_, *status, *reason, message)
        };
        [with_generation("Ready", &self.ready), with_generation("Progressing", &self.progressing)]
    }
}

/// Writes the status, unless it says all of this already.
async fn write_status(site: &Website, progress: &Progress, cx: &RunContext) -> Result<(), Error> {
    let mut new = site.clone();
    let status = new.status.get_or_insert_with(WebsiteStatus::default);
    let was_ready = is_condition_true(&status.conditions, "Ready");
    status.observed_generation = site.metadata.generation;
    status.available_replicas = progress.available.unwrap_or(status.available_replicas);
    for condition in progress.conditions(site.metadata.generation) {
        set_condition(&mut status.conditions, condition);
    }
    let is_ready = is_condition_true(&status.conditions, "Ready");
    cx.live().update_status(site, &new).await?;
    if is_ready && !was_ready {
        cx.event(site).normal("Published", format!("http://{} is served", site.spec.host));
    }
    Ok(())
}
