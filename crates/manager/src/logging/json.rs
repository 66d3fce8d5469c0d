//! Log lines as JSON objects.
//!
//! The fields of the spans and of the line are at the top level, so that `reconcile_id` is found in
//! one place, whether the line was logged during a run or is about it. A name appears once: the
//! line overrides its spans, and an inner span an outer one. A field with a reserved name, such as
//! `level`, gets an underscore at its end.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Formats a line as a JSON object.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonLines;

#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'a str,
    target: &'a str,
    message: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// The names of a line that are not fields.
const RESERVED: [&str; 5] = ["timestamp", "level", "target", "trace_id", "span_id"];

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        cx: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Map::new();
        for span in cx.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(formatted) = span.extensions().get::<FormattedFields<JsonFields>>() {
                fields.extend(parse(formatted));
            }
        }
        fields.extend(fields_of(event)?);
        for name in RESERVED {
            if let Some(value) = fields.remove(name) {
                fields.insert(format!("{name}_"), value);
            }
        }
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let (trace_id, span_id) = current_trace().unzip();
        let line = Line {
            timestamp,
            level: event.metadata().level().as_str(),
            target: event.metadata().target(),
            message: fields.remove("message"),
            trace_id,
            span_id,
            fields,
        };
        let line = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

/// The fields of a line, formatted as those of spans are.
fn fields_of(fields: impl RecordFields) -> Result<Map<String, Value>, fmt::Error> {
    let mut text = String::new();
    JsonFields::new().format_fields(Writer::new(&mut text), fields)?;
    Ok(parse(&text))
}

fn parse(fields: &str) -> Map<String, Value> {
    serde_json::from_str(fields).unwrap_or_default()
}

/// The ids of the trace and of the span that the line belongs to, if traces are exported.
#[cfg(feature = "otel")]
fn current_trace() -> Option<(String, String)> {
    use opentelemetry::trace::TraceContextExt as _;

    let context = opentelemetry::Context::current();
    let span = context.span().span_context().clone();
    span.is_valid().then(|| (span.trace_id().to_string(), span.span_id().to_string()))
}

#[cfg(not(feature = "otel"))]
fn current_trace() -> Option<(String, String)> {
    None
}
