//! The webhooks' metrics on a `prometheus-client` registry, under controller-runtime's names.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use http::StatusCode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

/// Shows webhooks on a `prometheus_client` registry. Those of controller-runtime, with its names,
/// labels and buckets, after `controller_runtime_`:
///
/// | metric | type | of |
/// |---|---|---|
/// | `webhook_latency_seconds` | histogram | each path (`webhook`): how long answers took |
/// | `webhook_requests_total` | counter | each path: answers, by HTTP status (`code`) |
/// | `webhook_requests_in_flight` | gauge | each path: requests under way |
/// | `webhook_panics_total` | counter | handlers that panicked |
/// | `conversion_webhook_panics_total` | counter | conversions that panicked |
///
/// And one of Windlass: `windlass_webhook_answers_total`, by `webhook` and `answer`, because a
/// denial is a 200 too.
///
/// | `answer` | a request that |
/// |---|---|
/// | `allowed`, `denied` | the handler decided |
/// | `converted`, `failed` | was a conversion |
/// | `refused` | is no valid review, or one of another resource |
/// | `panic`, `timeout`, `error` | the failure policy decided; `error` is all but the first two |
/// | `cancelled` | the client gave up |
///
/// The registry is the caller's, and so are its prefix and labels. Clones are the same metrics.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    latency: Family<OfPath, Histogram, fn() -> Histogram>,
    requests: Family<OfCode, Counter>,
    in_flight: Family<OfPath, Gauge>,
    answers: Family<OfAnswer, Counter>,
    pub(crate) panics: Counter,
    pub(crate) conversion_panics: Counter,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
    Converted,
    Failed,
    Refused,
    Panic,
    Timeout,
    Error,
    Cancelled,
}

/// A request under way. If it is dropped before it is finished, the client gave up.
pub(crate) struct InFlight {
    metrics: WebhookMetrics,
    path: Arc<str>,
    started: Instant,
    is_finished: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPath {
    webhook: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCode {
    webhook: Arc<str>,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfAnswer {
    webhook: Arc<str>,
    answer: Outcome,
}

/// Upper bounds of the buckets, in seconds. They are controller-runtime's.
const BUCKETS: [f64; 12] =
    [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

impl WebhookMetrics {
    /// Registers the metrics with a registry, once for all webhooks.
    #[must_use = "only webhooks that have it are shown"]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::unregistered();
        // The registry adds `_total`, the unit, and a full stop.
        registry.register_with_unit(
            "controller_runtime_webhook_latency",
            "How long answers of webhooks took",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        registry.register(
            "controller_runtime_webhook_requests",
            "Answers of webhooks, by HTTP status code",
            metrics.requests.clone(),
        );
        registry.register(
            "controller_runtime_webhook_requests_in_flight",
            "Requests of webhooks that are under way",
            metrics.in_flight.clone(),
        );
        registry.register(
            "controller_runtime_webhook_panics",
            "Handlers of admission webhooks that panicked",
            metrics.panics.clone(),
        );
        registry.register(
            "controller_runtime_conversion_webhook_panics",
            "Conversions that panicked",
            metrics.conversion_panics.clone(),
        );
        registry.register(
            "windlass_webhook_answers",
            "Answers of webhooks, by what became of the request",
            metrics.answers.clone(),
        );
        metrics
    }

    /// Metrics that are on no registry.
    pub(crate) fn unregistered() -> Self {
        Self {
            latency: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            requests: Family::default(),
            in_flight: Family::default(),
            answers: Family::default(),
            panics: Counter::default(),
            conversion_panics: Counter::default(),
        }
    }

    /// Shows a path before its first request, with the codes that are likely.
    pub(crate) fn show(&self, path: &Arc<str>) {
        let webhook = || Arc::clone(path);
        drop(self.in_flight.get_or_create(&OfPath { webhook: webhook() }));
        for code in [200, 500] {
            drop(self.requests.get_or_create(&OfCode { webhook: webhook(), code }));
        }
    }

    pub(crate) fn begin(&self, path: &Arc<str>) -> InFlight {
        let path = Arc::clone(path);
        self.in_flight.get_or_create(&OfPath { webhook: Arc::clone(&path) }).inc();
        InFlight { metrics: self.clone(), path, started: Instant::now(), is_finished: false }
    }
}

impl InFlight {
    pub(crate) fn finish(mut self, code: StatusCode, outcome: Outcome) {
        self.is_finished = true;
        let code = OfCode { webhook: Arc::clone(&self.path), code: code.as_u16() };
        self.metrics.requests.get_or_create(&code).inc();
        self.count(outcome);
        let took = self.started.elapsed().as_secs_f64();
        let path = OfPath { webhook: Arc::clone(&self.path) };
        self.metrics.latency.get_or_create(&path).observe(took);
    }

    fn count(&self, answer: Outcome) {
        let answer = OfAnswer { webhook: Arc::clone(&self.path), answer };
        self.metrics.answers.get_or_create(&answer).inc();
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.in_flight.get_or_create(&OfPath { webhook: Arc::clone(&self.path) }).dec();
        if !self.is_finished {
            self.count(Outcome::Cancelled);
        }
    }
}

impl Outcome {
    /// The value of its label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Converted => "converted",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.as_str())
    }
}
