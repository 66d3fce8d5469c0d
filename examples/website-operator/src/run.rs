//! `website-operator run`: the operator on a cluster.

use anyhow::{Result, ensure};
use clap::Args;
use windlass::manager::{Manager, Options, TaskContext};

use crate::{NAME, controller, definition, reconciler, webhooks};

/// The options of the operator.
#[derive(Args, Debug)]
pub struct Flags {
    /// The namespace of the `ConfigMap` that records which Website has which host
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = "default")]
    hosts_namespace: String,
    /// End when the standard input ends: for the story, whose replicas must not outlive it
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
    #[command(flatten)]
    manager: Options,
}

/// The operator, ready to run. Every replica serves the webhooks, and the leader reconciles.
pub fn manager(options: Options, hosts_namespace: &str) -> Manager {
    Manager::new(options)
        .leader_election(NAME)
        .install(definition())
        .webhooks(NAME, webhooks())
        .controller(controller(), reconciler(hosts_namespace))
}

/// Runs the operator until a signal.
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
    let mut manager = manager(flags.manager, &flags.hosts_namespace);
    if flags.until_stdin_ends {
        manager = manager.task("parent", |_: TaskContext| stdin_ends());
    }
    Ok(manager.run().await?)
}

/// Waits for the end of the standard input, and fails then, which stops the manager.
#[cfg(unix)]
async fn stdin_ends() -> std::io::Result<()> {
    use std::os::fd::AsFd as _;
    use tokio::io::AsyncReadExt as _;

    // Not `tokio::io::stdin`: its blocking read would keep the process from ending.
    let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(stdin)?;
    let mut bytes = [0; 64];
    while pipe.read(&mut bytes).await? > 0 {}
    Err(std::io::Error::other("the story that started this replica has ended"))
}

#[cfg(not(unix))]
async fn stdin_ends() -> std::io::Result<()> {
    Ok(())
}
