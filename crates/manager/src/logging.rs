//! Log lines on standard error, as text or JSON, and traces.
//!
//! [`init`] installs a subscriber of `tracing` for the process. If the program has installed one
//! already, that one stays.
//!
//! Every line that is logged during a run has the controller, the key and the `reconcile_id` of the
//! run. With the feature `otel`, the spans of runs are exported if one of the variables
//! `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set.

mod json;
#[cfg(feature = "otel")]
mod otlp;

use std::env;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt as text, layer::SubscriberExt as _};
use windlass_reconciler::SPAN_TARGET;

pub use crate::options::LogFormat;
use json::JsonLines;

/// Where log lines and traces go.
#[derive(Clone, Debug)]
#[must_use = "nothing is installed before `init` is called"]
pub struct Logging {
    format: LogFormat,
    filter: String,
    #[cfg(feature = "otel")]
    traces: Option<String>,
}

/// Exports traces until it is dropped. Then the pending spans are exported, which takes a few
/// seconds if the collector does not answer; so drop it last.
#[derive(Debug)]
#[must_use = "traces are exported until it is dropped"]
pub struct Guard {
    is_installed: bool,
    #[cfg(feature = "otel")]
    exporter: Option<otlp::Exporter>,
}

/// The log cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoggingError {
    /// The filter is invalid.
    #[error(
        "the log filter {filter:?} of {origin} is invalid ({source}): write a level such as \
         \"info\", or levels of targets such as \"info,kube=warn\""
    )]
    Filter {
        /// Where the filter is from.
        origin: &'static str,
        /// The filter.
        filter: String,
        /// What is wrong.
        source: ParseError,
    },
    /// Traces cannot be exported.
    #[error("traces cannot be exported: {reason}")]
    Traces {
        /// What is wrong, and what to do.
        reason: String,
    },
}

/// The variable whose filter overrides all others.
const FILTER_VARIABLE: &str = "RUST_LOG";

/// The variables with the address of the collector of traces.
const ENDPOINT_VARIABLES: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Installs the log of the process: [`Logging::new`] and [`Logging::init`].
///
/// # Errors
/// Returns an error if the filter is invalid, or if traces cannot be exported.
pub fn init(format: LogFormat, filter: impl Into<String>) -> Result<Guard, LoggingError> {
    Logging::new(format, filter).init()
}

impl Logging {
    /// Lines of this format that pass the filter: a level such as `info`, or levels of targets such
    /// as `info,kube=warn`. The variable `RUST_LOG` overrides the filter.
    pub fn new(format: LogFormat, filter: impl Into<String>) -> Self {
        Self {
            format,
            filter: filter.into(),
            #[cfg(feature = "otel")]
            traces: None,
        }
    }

    /// Exports traces to this collector, and ignores the environment. Protobuf over plain HTTP,
    /// with the whole address, as in `http://collector:4318/v1/traces`.
    #[cfg(feature = "otel")]
    pub fn traces_to(mut self, endpoint: impl Into<String>) -> Self {
        self.traces = Some(endpoint.into());
        self
    }

    /// Installs the log. If a subscriber was installed before, it stays, and
    /// [`Guard::is_installed`] returns false.
    ///
    /// # Errors
    /// Returns an error if the filter is invalid, or if traces cannot be exported.
    pub fn init(self) -> Result<Guard, LoggingError> {
        let filter = filter_of(&self.filter, non_empty(FILTER_VARIABLE).as_deref())?;
        if tracing::dispatcher::has_been_set() {
            return Ok(Guard::nothing());
        }
        let lines = lines(self.format, std::io::stderr);
        #[cfg(feature = "otel")]
        {
            let exporter = otlp::Exporter::from_environment(self.traces.as_deref())?;
            let layer = exporter.as_ref().map(otlp::Exporter::layer);
            let subscriber = Registry::default().with(layer).with(lines).with(filter);
            let is_installed = set_global_default(subscriber).is_ok();
            Ok(Guard { is_installed, exporter: exporter.filter(|_| is_installed) })
        }
        #[cfg(not(feature = "otel"))]
        {
            let subscriber = Registry::default().with(lines).with(filter);
            let is_installed = set_global_default(subscriber).is_ok();
            if let Some(variable) = ENDPOINT_VARIABLES.into_iter().find(|name| is_set(name)) {
                tracing::warn!(
                    variable,
                    "no traces are exported, because the program was built without the feature \
                     \"otel\" of windlass: add the feature, or unset the variable"
                );
            }
            Ok(Guard { is_installed })
        }
    }
}

impl Guard {
    /// Whether the log was installed. It is not if the program had installed a subscriber before.
    pub fn is_installed(&self) -> bool {
        self.is_installed
    }

    /// Exports the pending spans, and waits until that is done. Blocks the thread, for a few
    /// seconds if the collector does not answer.
    pub fn flush(&self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = &self.exporter {
            exporter.flush();
        }
    }

    fn nothing() -> Self {
        Self {
            is_installed: false,
            #[cfg(feature = "otel")]
            exporter: None,
        }
    }
}

/// The filter of the variable, or else of the option.
///
/// The spans of runs always pass. Otherwise, with a filter such as `my_operator=info`, the lines of
/// the reconciler would lack the fields of their run. No line is logged for a span.
fn filter_of(option: &str, variable: Option<&str>) -> Result<EnvFilter, LoggingError> {
    let (origin, text) = match variable {
        Some(text) => (FILTER_VARIABLE, text),
        None => ("the options", option),
    };
    let parse = |text: &str| {
        let invalid = |source| LoggingError::Filter { origin, filter: text.to_owned(), source };
        EnvFilter::builder().parse(text).map_err(invalid)
    };
    let filter = parse(text)?;
    if filter.max_level_hint() == Some(LevelFilter::OFF) {
        return Ok(filter);
    }
    parse(&format!("{text},{SPAN_TARGET}=error"))
}

/// The layer that writes lines.
fn lines<S, W>(format: LogFormat, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = text::layer().with_ansi(false).with_writer(writer);
    match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.fmt_fields(JsonFields::new()).event_format(JsonLines).boxed(),
    }
}

fn non_empty(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

fn is_set(variable: &str) -> bool {
    non_empty(variable).is_some()
}

#[cfg(test)]
mod tests;
