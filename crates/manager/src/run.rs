//! The order in which a manager starts and stops. What is between "definitions" and "Lease
//! released" is in `service`.
//!
//! ```text
//!  bind ─▶ connect ─▶ HTTP ─▶ server ─▶ webhooks ─▶ definitions ─▶ caches ─┐
//!                  ┌──────────────────────────────────────────────────────────┘
//!                  └▶ every replica ─▶ leadership ─▶ leader
//!  a stop, or a failure:                   ▲─ standby ─┘ lost
//!  runs end within the grace period ─▶ informers stop ─▶ Lease released ─▶ HTTP ends
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_reconciler::InstallError;

use crate::connect::{Cluster, wait_for_server};
use crate::dashboard;
use crate::error::{ManagerError, NoCluster};
use crate::group::Group;
use crate::http::{Endpoints, listen};
use crate::logging;
use crate::manager::Manager;
use crate::options::Options;
use crate::own_requests::own_requests;
use crate::rights::{Review, Rights};
use crate::service::Service;
use crate::signals::{self, EXIT_BY_FORCE, stop_on_signals};
use crate::state::Phase;
use crate::watchdog::wait_until_overdue;

/// How long a manager that could not be started asks for missing rights before it ends.
const REVIEW_MAX: Duration = Duration::from_secs(5);

impl Manager {
    /// Runs until a signal or a failure.
    ///
    /// The process itself ends with status 130 at a second signal, and with status 1 if something
    /// keeps it from ending: a run or a task that blocks its thread and does not end within the
    /// grace period, or after the leadership is lost.
    ///
    /// # Errors
    /// Returns an error if a part cannot start, fails or panics, or if the leadership is lost. The
    /// error names the part, and says what to do.
    ///
    /// # Cancel safety
    /// If it is dropped, everything is cancelled at once, and the Lease is not released.
    pub async fn run(self) -> Result<(), ManagerError> {
        let logs = self.init_logs()?;
        let (stop, has_ended) = (CancellationToken::new(), CancellationToken::new());
        let grace = self.options.grace_period.saturating_add(self.options.webhook_drain);
        let overdue = wait_until_overdue(Arc::clone(&self.state), stop.clone(), grace);
        stop_on_signals(stop.clone(), has_ended.clone(), overdue)
            .map_err(|error| ManagerError::Setup(format!("signals cannot be received: {error}")))?;
        let ended = Box::pin(run_and_tell(self, stop, has_ended)).await;
        if let Err(error) = &ended
            && error.is_stuck()
        {
            // Dropping the runtime would block on that thread forever.
            let error = error.to_string();
            signals::exit(EXIT_BY_FORCE, move || {
                tracing::error!("the process ends by force: {error}");
                drop(logs);
            });
        }
        ended
    }

    /// Runs until `stop` is cancelled or something fails. Like [`run`](Self::run), but it does not
    /// handle signals, and never ends the process itself. For tests, and for several managers in
    /// one process.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until(self, stop: CancellationToken) -> Result<(), ManagerError> {
        let _logs = self.init_logs()?;
        Box::pin(run(self, stop)).await
    }

    /// Sets up the logs, unless the program does. The guard must be dropped last.
    fn init_logs(&self) -> Result<Option<logging::Guard>, ManagerError> {
        if !self.sets_up_logs {
            return Ok(None);
        }
        let Options { log_format, log_level, .. } = &self.options;
        let guard = logging::init(*log_format, log_level);
        guard.map(Some).map_err(|error| ManagerError::Setup(error.to_string()))
    }
}

/// As [`run`]. When it has ended, or is dropped, `has_ended` is cancelled: the process may go on.
async fn run_and_tell(
    manager: Manager,
    stop: CancellationToken,
    has_ended: CancellationToken,
) -> Result<(), ManagerError> {
    let _ended = has_ended.drop_guard();
    Box::pin(run(manager, stop)).await
}

/// Runs a manager until `stop` is cancelled, or something fails.
async fn run(mut manager: Manager, stop: CancellationToken) -> Result<(), ManagerError> {
    if let Some(format) = manager.options.plan {
        return match stop.run_until_cancelled(manager.plan()).await {
            Some(plan) => plan?.print(format),
            None => Ok(()),
        };
    }
    let grace_period = manager.options.grace_period;
    let state = Arc::clone(&manager.state);
    let server_clock = manager.server_clock.clone();
    state.start(&manager.checks, manager.has_webhooks, server_clock.clone());
    manager.stack = manager.stack.server_clock(server_clock.clone());
    manager.check_names()?;
    let endpoints = Endpoints::bind(&manager.options).await?;
    let dashboard = dashboard::Endpoint::bind(&manager.options).await?;
    // What is declared has to be read before it is taken apart.
    let rights = Rights::declared(&manager);
    let webhooks = match manager.webhooks.take() {
        Some(webhooks) => Some(webhooks.bind(&manager.options, &server_clock).await?),
        None => None,
    };
    let Cluster { make_client, found, server } =
        Cluster::find(manager.make_client.take(), &manager.options).await?;
    log_configuration(&manager, &found, &endpoints);
    if manager.has_metrics {
        manager.stack = manager.stack.observer(Arc::new(manager.metrics.requests().clone()));
    }
    let metrics = Arc::new(std::mem::take(&mut manager.metrics));
    metrics.watch_clock(&server_clock);
    let webhooks = match webhooks {
        Some(webhooks) if manager.has_metrics => Some(webhooks.metrics(&metrics)),
        webhooks => webhooks,
    };
    let client = make_client(manager.stack.clone()).map_err(|error| NoCluster::new(&error))?;
    let own_client = own_requests(&client);
    let mut http = Group::new();
    endpoints
        .serve(&manager.options, &manager.checks, &state, &metrics, &own_client, &mut http)
        .await?;
    if let Some(dashboard) = dashboard {
        dashboard.serve(&manager.options, &state, &own_client, &mut http).await?;
    }

    // A replica that stops is still called for a while, until everybody has noticed.
    let drain = webhooks.as_ref().map(|_| manager.options.webhook_drain).unwrap_or_default();
    let http_grace = webhooks.as_ref().map(|_| listen::WEBHOOKS.drain).unwrap_or_default();
    // Also cancelled if something fails, and the manager stops by itself.
    let stopping = stop.child_token();
    let review = Review::new(own_client.clone(), rights.clone());
    let built = Box::pin(async {
        if let Some(server) = &server {
            state.set_phase(Phase::Connecting);
            wait_for_server(&own_client, server).await?;
        }
        if let Some(webhooks) = webhooks {
            let registration = webhooks
                .serve(&manager.options, &own_client, &manager.checks, &mut http, &stopping)
                .await?;
            registration.set_conversions(&mut manager.definitions)?;
            registration.install(&own_client).await?;
        }
        Service::build(manager, rights, &make_client, client, &state, &metrics).await
    });
    let mut errors = match stop.run_until_cancelled(built).await {
        // Stopped before anything had started.
        None => Vec::new(),
        Some(Err(error)) => {
            if matches!(&error, ManagerError::Install(InstallError::Forbidden { .. })) {
                // The error names one verb. Other verbs that are missing would end the next start.
                let _ = timeout(REVIEW_MAX, review.run()).await;
            }
            vec![error]
        }
        Some(Ok(mut service)) => {
            let failure = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                failure = http.wait_for_failure() => Some(failure),
                failure = service.run(&state) => Some(failure),
            };
            state.set_phase(Phase::Stopping);
            stopping.cancel();
            let stopped = stop_service(service, failure, grace_period);
            tokio::join!(stopped, sleep(drain)).0
        }
    };
    errors.extend(http.stop(http_grace).await);
    ManagerError::all(errors)
}

/// Stops a service that was asked to stop, or has failed. Returns all errors, in order.
async fn stop_service(
    mut service: Service,
    failure: Option<ManagerError>,
    grace_period: Duration,
) -> Vec<ManagerError> {
    if let Some(failure) = &failure {
        tracing::error!("stopping: {failure}");
    }
    // Another replica may already lead, so runs get no grace period.
    let has_lost = matches!(failure, Some(ManagerError::LostLeadership));
    let grace_period = if has_lost { Duration::ZERO } else { grace_period };
    let later = service.stop(grace_period).await;
    failure.into_iter().chain(later).collect()
}

/// Logs the effective configuration in one line.
fn log_configuration(manager: &Manager, cluster: &str, endpoints: &Endpoints) {
    let options = &manager.options;
    let lease = manager.lease.as_deref().filter(|_| options.leader_elect);
    let namespaces = match options.namespaces().as_slice() {
        [] => "all".to_owned(),
        names => names.join(","),
    };
    let names = manager.controllers.iter().map(|controller| controller.name.as_str());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster,
        namespaces,
        controllers = names.collect::<Vec<_>>().join(","),
        lease = lease.unwrap_or("none, every replica is active"),
        probes = endpoints.probes_address(),
        metrics = endpoints.metrics_address(),
        grace_period = ?options.grace_period,
        "starting"
    );
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use windlass_testserver::apiserver::ApiServer;

    use super::*;

    #[tokio::test]
    async fn process_that_drops_its_manager_is_not_waited_for_by_the_watchdog() {
        let (server, has_ended) = (ApiServer::new(), CancellationToken::new());
        let manager = Manager::new(Options::default().without_http())
            .without_logs()
            .connect(move |stack| Ok(stack.around(server.service(), "default")));
        let run = run_and_tell(manager, CancellationToken::new(), has_ended.clone());
        let mut run = Box::pin(run);
        assert!((&mut run).now_or_never().is_none(), "it runs");
        assert!(!has_ended.is_cancelled());
        drop(run);
        assert!(has_ended.is_cancelled());
    }
}
