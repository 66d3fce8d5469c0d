//! What a manager serves over HTTP: probes, metrics, and the debug endpoint.
//!
//! | path | what |
//! |---|---|
//! | `/healthz`, `/livez` | whether the process works; a process that fails is restarted |
//! | `/readyz` | whether it is ready, by named checks |
//! | `/metrics` | metrics in the `OpenMetrics` format |
//! | `/debug/windlass` | controllers, queues, runs, informers and leadership, as JSON |
//! | `/debug/windlass/story?key=…` | the runs of an object, what woke them, and what they woke |
//!
//! `/readyz?verbose` lists all checks, `/readyz/NAME` runs one, and `?exclude=NAME` leaves one out,
//! as Kubernetes' own components do it.
//!
//! Probes have one address, metrics and the debug endpoint another one, which can be
//! [secured](crate::Options::metrics_secure). If the addresses are the same, there is one listener.

pub mod auth;
pub(crate) mod checks;
pub(crate) mod host;
pub mod listen;
pub mod report;
pub(crate) mod routes;
pub mod tls;

pub use auth::Authorizer;
pub use listen::Listener;
pub use report::Report;
use report::StoryReport;
pub use tls::{CertificateState, InvalidCertificate, Tls, TlsError};
pub use windlass_serve::BindError;

use std::sync::Arc;

use axum::Router;
use tokio_util::sync::CancellationToken;

use crate::error::ManagerError;
use crate::group::Group;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::state::State;
use checks::{Checks, Finding, Probe};
use host::only_this_machine;
use report::Clock;

/// The flags that set the addresses. Errors name them.
const PROBES_FLAG: &str = "--health-probe-bind-address";
const METRICS_FLAG: &str = "--metrics-bind-address";

/// The addresses of a manager, bound and not yet served.
pub(crate) struct Endpoints {
    probes: Option<Listener>,
    /// `None` if metrics are not served, or share the listener of the probes.
    metrics: Option<Listener>,
    is_shared: bool,
}

impl Endpoints {
    /// Binds the addresses.
    pub(crate) async fn bind(options: &Options) -> Result<Self, ManagerError> {
        let (probes, metrics) = (&options.health_probe_bind_address, &options.metrics_bind_address);
        let is_shared = probes == metrics && is_enabled(probes);
        if is_shared && options.metrics_secure {
            return Err(ManagerError::Setup(format!(
                "--metrics-secure needs an address of its own: the kubelet has no token for the \
                 probes; give {METRICS_FLAG} another address than {PROBES_FLAG}"
            )));
        }
        Ok(Self {
            probes: bind(probes, PROBES_FLAG).await?,
            metrics: if is_shared { None } else { bind(metrics, METRICS_FLAG).await? },
            is_shared,
        })
    }

    /// Where probes are served.
    pub(crate) fn probes_address(&self) -> String {
        address(self.probes.as_ref())
    }

    /// Where metrics are served.
    pub(crate) fn metrics_address(&self) -> String {
        address(if self.is_shared { self.probes.as_ref() } else { self.metrics.as_ref() })
    }

    /// Whether to serve the debug endpoint, which shows names of objects and error messages: only
    /// on a loopback address, to [this machine](only_this_machine), or with access control.
    fn may_show_debug(&self, options: &Options) -> bool {
        let listener = if self.is_shared { &self.probes } else { &self.metrics };
        let is_local = |listener: &Listener| listener.address().ip().is_loopback();
        let may_show = options.metrics_secure || listener.as_ref().is_none_or(is_local);
        if !may_show {
            tracing::info!(
                "/debug/windlass is not served, because {METRICS_FLAG} is not a loopback address; \
                 use --metrics-secure to serve it"
            );
        }
        may_show
    }

    /// Serves until the group is stopped.
    pub(crate) async fn serve(
        self,
        options: &Options,
        checks: &Checks,
        state: &Arc<State>,
        metrics: &Arc<Metrics>,
        client: &kube::Client,
        group: &mut Group,
    ) -> Result<(), ManagerError> {
        let stop = group.shutdown().token().clone();
        let mut probes = routes::probes(checks);
        let mut metrics = metrics_router(metrics);
        if self.may_show_debug(options) {
            let debug = debug(state);
            metrics = metrics.merge(if options.metrics_secure {
                debug
            } else {
                only_this_machine(debug)
            });
        }
        if self.is_shared {
            probes = probes.merge(metrics.clone());
        }
        if let Some(listener) = self.probes {
            spawn(group, "the HTTP server of the probes", listener, probes, None, stop.clone());
        }
        let Some(listener) = self.metrics else { return Ok(()) };
        let (mut router, mut tls) = (metrics, None);
        if options.metrics_secure {
            router = Authorizer::new(client.clone()).protect(router);
            let served = certificate(options, state).await?;
            let checked = served.clone();
            checks.add(Probe::Ready, "metrics-certificate", move || {
                std::future::ready(match checked.check() {
                    Ok(()) => Finding::Ok(None),
                    Err(error) => Finding::Failed(error.to_string()),
                })
            });
            tls = Some(served);
        }
        spawn(group, "the HTTP server of the metrics", listener, router, tls, stop);
        Ok(())
    }
}

fn metrics_router(metrics: &Arc<Metrics>) -> Router {
    let metrics = Arc::clone(metrics);
    routes::metrics(move || metrics.encode())
}

/// The debug endpoint.
pub(crate) fn debug(state: &Arc<State>) -> Router {
    let (reported, told) = (Arc::clone(state), Arc::clone(state));
    routes::debug(
        move |query| Report::new(&reported, query, Clock::now()),
        move |query| StoryReport::new(&told, query, Clock::now()),
    )
}

fn is_enabled(address: &str) -> bool {
    address != "0"
}

pub(crate) async fn bind(
    address: &str,
    flag: &'static str,
) -> Result<Option<Listener>, ManagerError> {
    if !is_enabled(address) {
        return Ok(None);
    }
    let listener = Listener::bind(address, flag).await;
    listener.map(Some).map_err(|error| ManagerError::Setup(error.to_string()))
}

fn address(listener: Option<&Listener>) -> String {
    listener.map_or_else(|| "none".to_owned(), |listener| listener.address().to_string())
}

/// The certificate of the metrics. It is judged by the API server's clock.
pub(crate) async fn certificate(
    options: &Options,
    state: &Arc<State>,
) -> Result<Tls, ManagerError> {
    let tls = match &options.metrics_cert_path {
        Some(folder) => Tls::from_folder(folder).await,
        None => Tls::self_signed(),
    };
    let tls = tls.map_err(|error| ManagerError::Setup(error.to_string()))?;
    Ok(match state.server_clock().cloned() {
        Some(clock) => tls.clock(move || clock.now_or_own()),
        None => tls,
    })
}

pub(crate) fn spawn(
    group: &mut Group,
    name: &str,
    listener: Listener,
    router: Router,
    tls: Option<Tls>,
    stop: CancellationToken,
) {
    group.spawn(name, async move {
        listener.serve(router, tls, stop).await;
        Ok(())
    });
}
