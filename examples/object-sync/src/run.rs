//! `object-sync run`: the operator on a cluster.

use anyhow::{Result, ensure};
use kube::CustomResourceExt as _;
use windlass::manager::{Manager, Options};

use crate::reconciler::operator;
use crate::sync::ResourceSync;

/// The name of the Lease of the leader.
pub const LEASE: &str = "object-sync";

/// The operator, ready to run. It installs the definition of `ResourceSync`.
pub fn manager(options: Options) -> Manager {
    let (controller, reconciler) = operator();
    Manager::new(options)
        .leader_election(LEASE)
        .install(ResourceSync::crd())
        .controller(controller, reconciler)
}

/// Runs the operator until a signal, or prints its plan.
///
/// # Errors
/// If something cannot start, or fails. The error says what to do.
pub async fn run(options: Options) -> Result<()> {
    let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    ensure!(
        options.kubeconfig.is_some() || is_in_pod,
        "which cluster? Give --kubeconfig FILE. An example does not work on the cluster that \
         kubectl happens to point at"
    );
    Ok(manager(options).run().await?)
}
