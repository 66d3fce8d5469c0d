//! The metrics of a client's requests on a `prometheus-client` registry, under client-go's names.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::transport::client::{FinishedRequest, RequestObserver, RequestOutcome};

/// Shows the requests of clients on a `prometheus_client` registry, as an observer of
/// [`ClientStack::observer`](crate::ClientStack::observer).
///
/// Names, labels, types and buckets are those of controller-runtime's adapter of client-go
/// (`pkg/metrics/client_go_adapter.go`), with its opt-in latencies:
///
/// | metric | type | labels |
/// |---|---|---|
/// | `rest_client_requests_total` | counter | `code`, `method`, `host` |
/// | `rest_client_request_duration_seconds` | histogram | `verb`, `host` |
/// | `rest_client_rate_limiter_duration_seconds` | histogram | `verb`, `host` |
///
/// As there, `verb` is the HTTP method and not the verb of RBAC, `code` is `<error>` if there was
/// no answer, and watches are counted but have no duration. Unlike there, a duration ends when the
/// answer begins, and the last histogram contains the time that a request was first in line under
/// the [rate](crate::ClientStack::rate), without the time that it queued behind others.
///
/// ```
/// use prometheus_client::registry::Registry;
/// use std::sync::Arc;
/// use windlass_informer::{ClientStack, ConnectError, RequestMetrics};
///
/// # fn example(config: kube::Config) -> Result<(), ConnectError> {
/// let mut registry = Registry::default();
/// let metrics = RequestMetrics::register(&mut registry);
/// let client = ClientStack::new().observer(Arc::new(metrics)).connect(config)?;
/// # Ok(())
/// # }
/// ```
///
/// Clones are the same metrics, so many clients can share them.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    results: Family<Result, Counter>,
    durations: Family<Request, Histogram, fn() -> Histogram>,
    delays: Family<Request, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Result {
    code: String,
    method: &'static str,
    host: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    verb: &'static str,
    host: Arc<str>,
}

/// Upper bounds of the buckets, in seconds: those of Kubernetes' own components.
const BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

impl RequestMetrics {
    /// Registers the metrics with a registry, once for all clients.
    #[must_use = "clients are shown that have it as their observer"]
    pub fn register(registry: &mut Registry) -> Self {
        let histograms = || Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> _);
        let metrics =
            Self { results: Family::default(), durations: histograms(), delays: histograms() };
        // The registry adds `_total`, the unit, and a full stop.
        registry.register(
            "rest_client_requests",
            "Requests to the API server, by the code of the answer",
            metrics.results.clone(),
        );
        registry.register_with_unit(
            "rest_client_request_duration",
            "How long requests took until the answer began, without watches",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        registry.register_with_unit(
            "rest_client_rate_limiter_duration",
            "How long the client's rate limit held requests back",
            Unit::Seconds,
            metrics.delays.clone(),
        );
        metrics
    }
}

/// Each method is a lookup of a family, and an atomic addition or a histogram's lock.
impl RequestObserver for RequestMetrics {
    fn finished(&self, request: &FinishedRequest) {
        let method = name_of(&request.method);
        let host = &request.host;
        let code = match &request.outcome {
            RequestOutcome::Answered(status) => status.as_str(),
            RequestOutcome::TimedOut | RequestOutcome::Failed | RequestOutcome::Dropped => {
                "<error>"
            }
        };
        let labels = Result { code: code.to_owned(), method, host: Arc::clone(host) };
        self.results.get_or_create(&labels).inc();
        if request.verb != "watch" {
            let labels = Request { verb: method, host: Arc::clone(host) };
            self.durations.get_or_create(&labels).observe(request.duration.as_secs_f64());
        }
    }

    fn held_back(&self, method: &Method, host: &Arc<str>, delay: Duration) {
        let labels = Request { verb: name_of(method), host: Arc::clone(host) };
        self.delays.get_or_create(&labels).observe(delay.as_secs_f64());
    }
}

/// The label of a method. Methods that are not HTTP's must not become series of their own.
fn name_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
