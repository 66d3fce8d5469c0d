//! `config-restarter run`: the operator on a cluster.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use windlass::manager::{Manager, Options};

use crate::reconciler::{Restarter, controller};
use crate::throttle::Throttle;

/// The name of the Lease of the leader.
pub const LEASE: &str = "config-restarter";

/// The options of the operator.
#[derive(Args, Debug)]
pub struct Flags {
    /// How many workloads are restarted a second, after the burst; inf for no limit
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    update_rate: f64,
    /// How many workloads may be restarted at once
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    update_burst: u32,
    #[command(flatten)]
    manager: Options,
}

/// The operator, ready to run.
pub fn manager(options: Options, throttle: Throttle) -> Manager {
    let restarter = Restarter::new(Arc::new(throttle));
    Manager::new(options)
        .leader_election(LEASE)
        .controller(controller::<Deployment>(), restarter.clone())
        .controller(controller::<StatefulSet>(), restarter.clone())
        .controller(controller::<DaemonSet>(), restarter)
}

/// Runs the operator until a signal, or prints its plan.
///
/// # Errors
/// If something cannot start, or fails. The error says what to do.
pub async fn run(flags: Flags) -> Result<()> {
    let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    ensure!(
        flags.manager.kubeconfig.is_some() || is_in_pod,
        "which cluster? Give --kubeconfig FILE. An example does not work on the cluster that \
         kubectl happens to point at"
    );
    let throttle = Throttle::new(flags.update_rate, flags.update_burst)
        .context("--update-rate and --update-burst are invalid")?;
    Ok(manager(flags.manager, throttle).run().await?)
}
