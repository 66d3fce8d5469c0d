//! The export of spans by OTLP: protobuf over plain HTTP.
//!
//! The SDK collects spans, and sends them in batches from a thread of its own. The requests are
//! made on a small runtime of the exporter. So the last batch is sent whatever state the program's
//! runtime is in: blocked, single-threaded, on a paused clock, or ended.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::TaskTracker;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

use super::{ENDPOINT_VARIABLES, LoggingError, is_set, non_empty};

/// How long a request to the collector may take. The default of the specification.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the last batch may take. Shorter than the grace period of a pod, which is 30 s.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The exporter's own targets. Their spans are not exported: each export would cause another.
const OWN_TARGETS: [&str; 4] = ["h2", "hyper", "opentelemetry", "tonic"];

/// Exports spans until it is dropped.
#[derive(Debug)]
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
}

/// Sends requests on the runtime of the exporter.
#[derive(Debug)]
struct Sender {
    client: HyperClient,
    runtime: Handle,
    requests: TaskTracker,
}

impl Exporter {
    /// An exporter to this endpoint, or else to that of the environment; `None` if there is none.
    pub(super) fn from_environment(endpoint: Option<&str>) -> Result<Option<Self>, LoggingError> {
        if let Some(endpoint) = endpoint {
            return Self::start(Some(endpoint)).map(Some);
        }
        let is_disabled =
            non_empty("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let Some(variable) = ENDPOINT_VARIABLES.into_iter().find(|name| is_set(name)) else {
            return Ok(None);
        };
        if is_disabled {
            return Ok(None);
        }
        let endpoint = non_empty(variable).unwrap_or_default();
        if endpoint.starts_with("https:") {
            let reason = format!(
                "{variable} is {endpoint:?}, but Windlass supports only plain HTTP: send traces to \
                 a collector in the cluster, and let the collector use TLS"
            );
            return Err(LoggingError::Traces { reason });
        }
        // The exporter reads the variables itself, because they differ in their paths.
        Self::start(None).map(Some)
    }

    fn start(endpoint: Option<&str>) -> Result<Self, LoggingError> {
        let failed = |reason: String| LoggingError::Traces { reason };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("windlass-otlp")
            .enable_all()
            .build()
            .map_err(|error| failed(format!("no thread can be started: {error}")))?;
        let sender = Sender {
            client: HyperClient::with_default_connector(REQUEST_TIMEOUT, None),
            runtime: runtime.handle().clone(),
            requests: TaskTracker::new(),
        };
        let mut exporter = SpanExporter::builder().with_http().with_http_client(sender);
        if let Some(endpoint) = endpoint {
            exporter = exporter.with_endpoint(endpoint);
        }
        let exporter = exporter.build().map_err(|error| failed(error.to_string()))?;
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
        Ok(Self { provider, runtime: Some(runtime) })
    }

    /// The layer that collects spans.
    pub(super) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        let is_own = |target: &str| OWN_TARGETS.iter().any(|own| target.starts_with(own));
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("windlass"))
            .with_filter(filter_fn(move |metadata| !is_own(metadata.target())))
    }

    pub(super) fn flush(&self) {
        if let Err(error) = self.provider.force_flush() {
            tracing::warn!(%error, "spans were not exported: check the address of the collector");
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT) {
            tracing::warn!(
                %error, "the last spans were not exported: check the address of the collector"
            );
        }
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime in an async context panics.
            runtime.shutdown_background();
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = async move { client.send_bytes(request).await };
        self.requests.spawn_on(sent, &self.runtime).await?
    }
}
