//! The metrics of a process: everything that is scraped, on one registry.
//!
//! Each crate has its own metrics. They are registered here, together with those of the process:
//! leadership, resource usage and version. `docs/metrics.md` has the table.

#[cfg(target_os = "linux")]
mod process;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use windlass_informer::{InformerMetrics, RequestMetrics, ServerClock};
use windlass_reconciler::ControllerMetrics;
use windlass_serve::LogLimit;
use windlass_webhook::WebhookMetrics;
use windlass_workqueue::QueueMetrics;

use crate::election::Leadership;

/// The metrics of a process.
///
/// ```
/// use prometheus_client::metrics::counter::Counter;
/// use windlass_manager::Metrics;
///
/// let mut metrics = Metrics::new();
/// let sent: Counter = Counter::default();
/// metrics.registry_mut().register("acme_mails_sent", "Mails that were sent", sent.clone());
/// sent.inc();
/// assert!(metrics.encode().contains("acme_mails_sent_total 1\n"));
/// ```
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    controllers: ControllerMetrics,
    informers: InformerMetrics,
    requests: RequestMetrics,
    webhooks: WebhookMetrics,
    elections: Arc<Elections>,
    log: LogLimit,
    clock: Arc<Clock>,
}

/// The elections that this process takes part in, by the name of the Lease.
#[derive(Debug, Default)]
struct Elections(Mutex<BTreeMap<String, watch::Receiver<Leadership>>>);

/// This machine's clock, beside the API server's.
#[derive(Debug, Default)]
struct Clock(OnceLock<ServerClock>);

impl Metrics {
    /// All metrics of Windlass and of the process, on a registry of their own.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let controllers = ControllerMetrics::register(&mut registry);
        let informers = InformerMetrics::register(&mut registry);
        let requests = RequestMetrics::register(&mut registry);
        let webhooks = WebhookMetrics::register(&mut registry);
        let elections = Arc::new(Elections::default());
        registry.register_collector(Box::new(Arc::clone(&elections)));
        let clock = Arc::new(Clock::default());
        registry.register_collector(Box::new(Arc::clone(&clock)));
        #[cfg(target_os = "linux")]
        registry.register_collector(Box::new(process::Process));
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        // The encoder adds `_info`.
        registry.register("windlass_build", "The version of Windlass", version);
        let log = LogLimit::new();
        Self { registry, controllers, informers, requests, webhooks, elections, log, clock }
    }

    /// The registry, for metrics of your own. Their names must be unique.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// For [`ControllerBuilder::metrics`](windlass_reconciler::ControllerBuilder::metrics).
    pub fn controllers(&self) -> &ControllerMetrics {
        &self.controllers
    }

    /// For [`Webhooks::metrics`](windlass_webhook::Webhooks::metrics).
    pub fn webhooks(&self) -> &WebhookMetrics {
        &self.webhooks
    }

    /// For queues that belong to no controller.
    pub fn queues(&self) -> &QueueMetrics {
        self.controllers.queues()
    }

    /// For the informers of a factory.
    pub fn informers(&self) -> &InformerMetrics {
        &self.informers
    }

    /// For [`ClientStack::observer`](windlass_informer::ClientStack::observer).
    pub fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// Adds `leader_election_master_status` with the name of the Lease: whether this replica leads.
    pub fn watch_election(&self, lease: &str, leadership: watch::Receiver<Leadership>) {
        self.elections.lock().insert(lease.to_owned(), leadership);
    }

    /// Adds `windlass_clock_skew_seconds`: how wrong this machine's clock is. The first one counts.
    pub fn watch_clock(&self, clock: &ServerClock) {
        let _ = self.clock.0.set(clock.clone());
    }

    /// All metrics, in the text format of `OpenMetrics`.
    ///
    /// If a user's collector fails, the error is logged, and the text ends there, without `# EOF`.
    /// So Prometheus rejects the scrape, instead of storing a part of it.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut encoded = String::new();
        if text::encode(&mut encoded, &self.registry).is_err()
            && let Some(line) = self.log.line("collector")
        {
            tracing::error!(
                left_out = line.left_out,
                "a collector on the registry of the metrics returned an error, so this scrape is \
                 incomplete: check what was registered with Metrics::registry_mut"
            );
        }
        encoded
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Elections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, watch::Receiver<Leadership>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Elections {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let elections = self.lock();
        if elections.is_empty() {
            return Ok(());
        }
        let name = "leader_election_master_status";
        let help = "Whether this replica leads: 1 if it does, 0 if it stands by.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (lease, leadership) in &*elections {
            let is_leading = u64::from(leadership.borrow().is_leading());
            family.encode_family(&[("name", lease.as_str())])?.encode_gauge(&is_leading)?;
        }
        Ok(())
    }
}

impl Collector for Clock {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(skew) = self.0.get().and_then(ServerClock::skew) else { return Ok(()) };
        let name = "windlass_clock_skew_seconds";
        let help = "By how much the clock of this machine is ahead of the API server's; negative \
                    if it is behind.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        family.encode_gauge(&skew.as_secs_f64())
    }
}
