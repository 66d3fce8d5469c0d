//! The answers of a real server in the files `observed.json` of the embedded server, whose unit
//! tests compare with them.
//!
//! Each file has its inputs beside the answers: a path, and for most of them the object that is
//! sent. A new case is written there without an answer; recording sends all inputs again, and
//! writes the answers. They have sorted keys, and placeholders for uids and times.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_testserver::TestServer;

use crate::answer::Answer;
use crate::fixtures::CRDS;
use crate::normalise::is_time;
use crate::request::Request;
use crate::script::exchange;

/// Replaces the uid of an answer.
const UID: &str = "00000000-0000-0000-0000-000000000001";

/// Replaces the times that the server sets.
const TIME: &str = "2026-01-01T00:00:00Z";

/// Selects aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// How long a real server may take until discovery has new definitions.
const PATIENCE: Duration = Duration::from_secs(30);

const POLL_PERIOD: Duration = Duration::from_millis(100);

/// An object that is sent, as it is in the file: with its order and its form of numbers.
#[derive(Deserialize)]
struct Input {
    case: Option<String>,
    path: String,
    sent: Box<RawValue>,
}

/// One cause of a rejection, in the order of the file.
#[derive(Deserialize, Serialize)]
struct Cause {
    reason: String,
    message: String,
    field: String,
}

/// Records all files.
///
/// # Errors
/// If a file cannot be read or written, or if the server answers with an unexpected status.
pub async fn record(real: Client) -> Result<()> {
    record_objects(&real, "kinds/shape", &[200, 201, 400, 422], decoding).await?;
    record_objects(&real, "kinds/validate", &[201, 422], causes).await?;
    record_objects(&real, "kinds/defaults", &[201], created).await?;
    record_discovery(&real, &TestServer::embedded().client()?).await
}

/// Sends each object of a file again, without storing it, and writes what `observe` returns: the
/// name of a field, and its value in [JSON](text).
async fn record_objects(
    real: &Client,
    folder: &str,
    expected: &[u16],
    observe: fn(&Input, &Answer) -> Result<(&'static str, String)>,
) -> Result<()> {
    let inputs: Vec<Input> = serde_json::from_str(&read(folder)?)?;
    let mut lines = Vec::new();
    for input in &inputs {
        let request = Request::new(Method::POST, format!("{}?dryRun=All", input.path));
        let request = request.text(input.sent.get()).content_type("application/json");
        let answer = exchange(real, &request).await;
        let Input { case, path, sent } = input;
        ensure!(expected.contains(&answer.status), "{path} of {sent}: {answer:?}");
        let case = case.as_ref().map(|case| format!("\"case\": {}, ", text(case)));
        let (case, path) = (case.unwrap_or_default(), text(path));
        let (field, value) = observe(input, &answer)?;
        lines.push(format!("{{{case}\"path\": {path}, \"sent\": {sent}, \"{field}\": {value}}}"));
    }
    write(folder, &format!("[\n{}\n]\n", lines.join(",\n")))
}

/// Whether an object could be decoded: the error, or the unknown fields in the warnings.
fn decoding(_: &Input, answer: &Answer) -> Result<(&'static str, String)> {
    let message = answer.at("/message");
    let refused = message.as_str().and_then(|it| it.split_once(" cannot be handled as a "));
    if let Some((_, error)) = refused.and_then(|(_, rest)| rest.split_once(": ")) {
        return Ok(("refused", text(error)));
    }
    let warnings = answer.headers.get_all("warning").iter();
    let unknown = warnings.filter_map(|warning| unknown_field(warning.as_bytes()).transpose());
    Ok(("unknown", text(&unknown.collect::<Result<Vec<_>>>()?)))
}

/// Returns the path in the warning `299 - "unknown field \"spec.a\""`; `None` for other warnings.
fn unknown_field(warning: &[u8]) -> Result<Option<String>> {
    let warning = std::str::from_utf8(warning)?;
    let quoted = warning.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"'));
    let mut message = String::new();
    let mut characters = quoted.context("a warning must be quoted")?.chars();
    while let Some(character) = characters.next() {
        message.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    // Go quotes the path, in the same way as JSON.
    let path = message.strip_prefix("unknown field ").map(serde_json::from_str);
    path.transpose().with_context(|| format!("the path in {message:?} must be a JSON string"))
}

/// Why an object was rejected.
fn causes(_: &Input, answer: &Answer) -> Result<(&'static str, String)> {
    let causes = answer.at("/details/causes");
    let causes: Option<Vec<Cause>> = serde_json::from_value(causes)?;
    Ok(("causes", text(&causes.unwrap_or_default())))
}

/// The created object.
fn created(input: &Input, answer: &Answer) -> Result<(&'static str, String)> {
    let mut object = answer.body.clone();
    let metadata = object["metadata"].as_object_mut().context("an object must have metadata")?;
    metadata.remove("managedFields");
    hide(&mut object, &answer.uid(), input.sent.get());
    Ok(("answer", text(&object)))
}

/// Replaces the uid, and the times that were not sent.
fn hide(value: &mut Value, uid: &str, sent: &str) {
    match value {
        Value::String(text) if text == uid => UID.clone_into(text),
        Value::String(text) if is_time(text) && !sent.contains(text.as_str()) => {
            TIME.clone_into(text);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, uid, sent)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide(field, uid, sent)),
        _ => {}
    }
}

/// Reads each document of the file again, with two definitions of custom resources in place. Keeps
/// only what the embedded server has, too.
async fn record_discovery(real: &Client, embedded: &Client) -> Result<()> {
    let folder = "discovery";
    let before: Map<String, Value> = serde_json::from_str(&read(folder)?)?;
    for definition in definitions() {
        for client in [real, embedded] {
            let answer = exchange(client, &Request::post(CRDS, definition.clone())).await;
            ensure!(answer.is_success(), "a definition must be accepted: {}", answer.body);
        }
    }
    let mut lines = Vec::new();
    for path in before.keys() {
        let request = match path.strip_suffix(" aggregated") {
            Some(path) => Request::get(path).accept(AGGREGATED),
            None => Request::get(path),
        };
        let ours = exchange(embedded, &request).await;
        ensure!(ours.is_success(), "the embedded server must have {path}: {}", ours.body);
        let document = common(real, &request, &ours.body).await?;
        lines.push(format!("{}: {}", text(path), text(&document)));
    }
    write(folder, &format!("{{\n{}\n}}\n", lines.join(",\n")))
}

/// Waits until a real server has everything that `ours` has, and returns its document without the
/// rest.
async fn common(real: &Client, request: &Request, ours: &Value) -> Result<Value> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let mut document = exchange(real, request).await.body;
        if keep_known(&mut document, ours) {
            return Ok(document);
        }
        let is_late = tokio::time::Instant::now() > deadline;
        ensure!(
            !is_late,
            "{} lacks something of {}: {}",
            request.path,
            text(ours),
            text(&document)
        );
        tokio::time::sleep(POLL_PERIOD).await;
    }
}

/// Removes the groups, versions and resources that `ours` does not have. Returns whether the others
/// are complete; if not, the document is not usable.
fn keep_known(document: &mut Value, ours: &Value) -> bool {
    match (document, ours) {
        (Value::Array(items), Value::Array(known)) if known.iter().all(Value::is_object) => {
            items.retain(|item| known.iter().any(|ours| name(ours) == name(item)));
            let with = |item: &Value| known.iter().find(|ours| name(ours) == name(item)).cloned();
            items.len() == known.len()
                && items.iter_mut().all(|item| with(item).is_some_and(|it| keep_known(item, &it)))
        }
        (Value::Object(fields), Value::Object(known)) => known.iter().all(|(field, ours)| {
            fields.get_mut(field).is_some_and(|value| keep_known(value, ours))
        }),
        _ => true,
    }
}

/// Returns the name of an entry in discovery; `None` for the core group.
fn name(entry: &Value) -> Option<&str> {
    let fields = ["/name", "/resource", "/subresource", "/version", "/metadata/name"];
    fields.into_iter().find_map(|field| entry.pointer(field)?.as_str())
}

/// The definitions of the custom resources in the file. The test of discovery has the same.
fn definitions() -> [Value; 2] {
    let definition = |names: Value, scope: &str, versions: Vec<Value>| {
        let plural = names["plural"].as_str().unwrap_or_default();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.zed.example.com")},
            "spec": {
                "group": "zed.example.com", "names": names, "scope": scope, "versions": versions,
            },
        })
    };
    let version = |name: &str, served: bool, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"openAPIV3Schema": schema});
        json!({"name": name, "served": served, "storage": storage, "schema": schema})
    };
    let mut stored = version("v1", true, true);
    let scale =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    stored["subresources"] = json!({"status": {}, "scale": scale});
    let widgets = json!({
        "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
        "shortNames": ["wd", "w"], "categories": ["all", "mine"],
    });
    let gadgets = json!({
        "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList",
    });
    let widget_versions = vec![
        stored,
        version("v1beta1", true, false),
        version("v2alpha1", true, false),
        version("v3", false, false),
    ];
    let gadget_versions = vec![version("v10", true, true), version("v1alpha1", true, false)];
    [
        definition(widgets, "Namespaced", widget_versions),
        definition(gadgets, "Cluster", gadget_versions),
    ]
}

fn path(folder: &str) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/testenv/apiserver/src");
    PathBuf::from(source).join(folder).join("observed.json")
}

fn read(folder: &str) -> Result<String> {
    let path = path(folder);
    fs::read_to_string(&path).with_context(|| format!("{} must be readable", path.display()))
}

fn write(folder: &str, text: &str) -> Result<()> {
    let path = path(folder);
    println!("{}", path.display());
    fs::write(&path, text).with_context(|| format!("{} must be writable", path.display()))
}

/// Formats JSON on one line, with a space after each comma and colon: a case is a line.
fn text(value: &(impl Serialize + ?Sized)) -> String {
    struct Spaced;

    impl Formatter for Spaced {
        fn begin_array_value<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { writer.write_all(b", ") }
        }

        fn begin_object_key<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            self.begin_array_value(writer, first)
        }

        fn begin_object_value<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
        ) -> std::io::Result<()> {
            writer.write_all(b": ")
        }
    }

    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Spaced);
    value.serialize(&mut serializer).expect("the value must be JSON");
    String::from_utf8(out).expect("JSON must be UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_an_unknown_field_is_unquoted_twice() {
        let unknown = |warning: &str| unknown_field(warning.as_bytes()).expect("a warning");
        let field = r#"299 - "unknown field \"spec.a\"""#;
        assert_eq!(unknown(field).as_deref(), Some("spec.a"));
        let field = r#"299 - "unknown field \"q\\\"r\\né\"""#;
        assert_eq!(unknown(field).as_deref(), Some("q\"r\né"));
        assert_eq!(unknown(r#"299 - "v1 Endpoints is deprecated""#), None);
    }

    #[test]
    fn uid_and_times_are_hidden_except_sent_ones() {
        let sent = "2026-02-03T00:00:00.000000Z";
        let mut object = json!({"uid": "u", "made": "2026-11-19T20:00:00Z", "renewed": sent});
        hide(&mut object, "u", &text(sent));
        assert_eq!(object, json!({"uid": UID, "made": TIME, "renewed": sent}));
    }

    #[test]
    fn discovery_is_reduced_to_what_both_have() {
        let entry = |name: &str| json!({"name": name, "verbs": ["get"]});
        let ours = json!({"resources": [entry("pods"), entry("pods/status")]});
        let mut document =
            json!({"resources": [entry("bindings"), entry("pods"), entry("pods/status")]});
        assert!(keep_known(&mut document, &ours));
        assert_eq!(document, ours);
        let mut incomplete = json!({"resources": [entry("pods")]});
        assert!(!keep_known(&mut incomplete, &ours));
    }

    #[test]
    fn case_is_a_line_with_spaces() {
        assert_eq!(text(&json!({"b": [1, {}], "a": "x,:"})), r#"{"a": "x,:", "b": [1, {}]}"#);
    }
}
