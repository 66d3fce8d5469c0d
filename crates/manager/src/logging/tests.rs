use std::io;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tracing::subscriber::with_default;

use super::*;

/// What was written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that `log` logs.
fn logged(format: LogFormat, filter: &str, log: impl FnOnce()) -> Vec<String> {
    let written = Written::default();
    let writer = written.clone();
    let lines = lines(format, move || writer.clone());
    let filter = filter_of(filter, None).expect("a filter");
    with_default(Registry::default().with(lines).with(filter), log);
    let bytes = written.0.lock().expect("not poisoned").clone();
    String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect()
}

fn objects(filter: &str, log: impl FnOnce()) -> Vec<Value> {
    let lines = logged(LogFormat::Json, filter, log);
    lines.iter().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

#[test]
fn json_line_has_the_fields_of_its_spans_and_its_own() {
    let lines = objects("info", || {
        let run = tracing::info_span!("reconcile", controller = "web", key = "shop/a", attempt = 2);
        let _run = run.enter();
        let _step = tracing::info_span!("step", step = "create").entered();
        tracing::warn!(replicas = 3, ready = false, "two\nlines and a \"quote\"");
    });
    let [line] = &*lines else { panic!("one line: {lines:?}") };
    let expected = [
        ("level", Value::from("WARN")),
        ("target", "windlass_manager::logging::tests".into()),
        ("message", "two\nlines and a \"quote\"".into()),
        ("controller", "web".into()),
        ("key", "shop/a".into()),
        ("attempt", 2.into()),
        ("step", "create".into()),
        ("replicas", 3.into()),
        ("ready", false.into()),
    ];
    for (name, value) in expected {
        assert_eq!(line[name], value, "{name} in {line}");
    }
    let timestamp = line["timestamp"].as_str().expect("a text");
    assert!(timestamp.parse::<jiff::Timestamp>().is_ok(), "{timestamp}");
}

#[test]
fn json_line_has_each_name_once() {
    let lines = logged(LogFormat::Json, "info", || {
        let _outer = tracing::info_span!("outer", key = "outer", level = 7).entered();
        let _inner = tracing::info_span!("inner", key = "inner").entered();
        tracing::info!(key = "line", "of the line");
        tracing::info!("of the inner span");
    });
    let [of_line, of_span] = &*lines else { panic!("two lines: {lines:?}") };
    assert_eq!(of_line.matches("\"key\"").count(), 1, "{of_line}");
    assert!(of_line.contains(r#""key":"line""#), "{of_line}");
    assert!(of_span.contains(r#""key":"inner""#), "{of_span}");
    assert!(of_line.contains(r#""level":"INFO""#), "{of_line}");
    assert!(of_line.contains(r#""level_":7"#), "{of_line}");
}

#[test]
fn fields_that_a_span_gets_later_are_in_the_lines_after_it() {
    let lines = objects("info", || {
        let span = tracing::info_span!("run", found = tracing::field::Empty);
        let _entered = span.enter();
        tracing::info!("before");
        span.record("found", 4);
        tracing::info!("after");
    });
    assert_eq!((&lines[0]["found"], &lines[1]["found"]), (&Value::Null, &4.into()));
}

#[test]
fn span_of_a_run_passes_every_filter_but_off() {
    let log = || {
        let span = tracing::error_span!(target: SPAN_TARGET, "reconcile", key = "shop/a");
        span.in_scope(|| tracing::error!(target: "my_operator::web", "broken"));
    };
    for filter in ["info", "error", "my_operator=warn", "windlass=off,my_operator=error"] {
        let lines = logged(LogFormat::Text, filter, log);
        assert_eq!(lines.len(), 1, "{filter}: {lines:?}");
        assert!(lines[0].contains("key=\"shop/a\""), "{filter}: {lines:?}");
    }
    assert_eq!(logged(LogFormat::Text, "off", log), [""; 0]);
}

#[test]
fn variable_wins_over_the_option() {
    let filter = |option, variable| filter_of(option, variable).map(|filter| filter.to_string());
    assert!(filter("debug", Some("warn")).expect("a filter").contains("warn"));
    assert!(filter("debug", None).expect("a filter").contains("debug"));
    assert!(filter("no=such=filter", Some("warn")).is_ok(), "the option does not matter then");
}

#[test]
fn invalid_filter_is_named_with_its_origin() {
    let error = filter_of("info", Some("web=loud")).expect_err("no such level").to_string();
    for part in ["RUST_LOG", "web=loud", "info,kube=warn"] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
}

#[cfg(feature = "otel")]
#[test]
fn json_line_has_the_ids_of_its_trace() {
    use opentelemetry::trace::TracerProvider as _;

    let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
    let traces = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let written = Written::default();
    let writer = written.clone();
    let lines = lines(LogFormat::Json, move || writer.clone());
    with_default(Registry::default().with(traces).with(lines), || {
        tracing::info_span!("reconcile").in_scope(|| tracing::info!("during the run"));
        tracing::info!("outside");
    });
    let text = String::from_utf8(written.0.lock().expect("not poisoned").clone()).expect("text");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let length = |name: &str| lines[0][name].as_str().map(str::len);
    assert_eq!((length("trace_id"), length("span_id")), (Some(32), Some(16)), "{text}");
    assert_eq!(lines[1].get("trace_id"), None, "{text}");
}
