//! Makes transcripts of two servers comparable: replaces uids, times and versions.
//!
//! - A uid becomes `<uid 1>`, a resource version of an object `<rv 1>`, numbered by first
//!   appearance, so that "unchanged" and "changed" remain visible.
//! - Versions of lists and bookmarks, in queries and in messages become `<rv>`: they depend on
//!   other writers to the same server.
//! - Times become `<time>`; the random end of a generated name becomes `<suffix 1>`.
//! - In a Table, cells with ages become `<age>`: durations such as `5m10s` in the columns of
//!   [`AGE_COLUMNS`] and in those of type `date`. In the column `Restarts`, only the duration in
//!   `(5m10s ago)` is replaced. Words such as `<unknown>` are kept, and so is the duration of a
//!   job. A Table without columns uses those of the last one with columns.
//! - The descriptions of a Table's columns are dropped: no client prints them, and the embedded
//!   server has none for built-in kinds.
//! - The port of a webhook in a URL or a loopback address becomes `<port>`.
//! - Continue tokens are decoded, and their version replaced.
//! - Service account tokens are decoded, and their times become offsets from the first of them.
//!   Algorithm, key and signature depend on the server, and are omitted.
//! - `metadata.managedFields` is dropped: the embedded server keeps it only for applied objects.
//!
//! Values that a case makes wrong on purpose are kept: the versions 0, 1 and from a thousand
//! million on, uids that start with eight zeros, and times in the year 2001.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

/// The lengths of the five parts of a uid.
const UID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// The characters at the random end of a generated name.
const SUFFIX_ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";

/// The length of the random end.
const SUFFIX_LENGTH: usize = 5;

/// The texts in front of a version; the first two are for queries, the others for messages.
const VERSION_ANCHORS: [&str; 6] = [
    "resourceVersion=",
    "resourceVersion%3D",
    "resource version: ",
    ", current: ",
    "ResourceVersion in the precondition (",
    "ResourceVersion in record (",
];

/// Columns of tables with ages in their cells.
const AGE_COLUMNS: [&str; 4] = ["Age", "First Seen", "Last Seen", "Last Schedule"];

/// The contents of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cells {
    Ages,
    Restarts,
    Others,
}

/// Remembers values, so that the same value gets the same name throughout a transcript.
#[derive(Debug, Default)]
pub(crate) struct Normaliser {
    uids: Vec<String>,
    versions: Vec<String>,
    /// Generated names, and their replacements.
    generated: Vec<(String, String)>,
    /// The columns of the last table with columns.
    columns: Vec<Cells>,
}

impl Normaliser {
    /// Normalises a JSON value. Fields are visited in the order of their names, so that the numbers
    /// do not depend on the order in which a server writes them.
    pub(crate) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) => self.object(map),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    /// Normalises an event of a watch: a bookmark's version is not that of an object.
    pub(crate) fn event(&mut self, event: &Value) -> Value {
        let mut event = event.clone();
        let is_bookmark = event["type"] == "BOOKMARK";
        for holder in ["/object", "/object/rows/0/object"].into_iter().filter(|_| is_bookmark) {
            let version = event.pointer_mut(&format!("{holder}/metadata/resourceVersion"));
            if let Some(version) = version {
                *version = json!("<rv>");
            }
        }
        self.value(&event)
    }

    /// Normalises a text: a message, or path and query of a request.
    pub(crate) fn text(&mut self, text: &str) -> String {
        if is_time(text) {
            return "<time>".to_owned();
        }
        if let Some(claims) = claims(text) {
            let claims = self.value(&claims);
            return format!("<token {}>", crate::render::render(&claims));
        }
        let text = self.without_uids(text);
        let text = without_tokens(&text);
        let text = without_versions(&text);
        let text = without_ports(&text);
        self.generated.iter().fold(text, |text, (name, shown)| text.replace(name, shown))
    }

    fn object(&mut self, map: &Map<String, Value>) -> Value {
        let is_table = map.get("kind").is_some_and(|kind| kind == "Table");
        let without_ages = is_table.then(|| self.without_ages(map));
        let map = without_ages.as_ref().unwrap_or(map);
        let is_list = is_table
            || map.contains_key("items")
            || map.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
        self.remember_generated(map);
        let mut keys: Vec<_> = map.keys().collect();
        keys.sort();
        let mut out = Map::new();
        for key in keys {
            // A picked part is named by its JSON pointer, which ends with the name of the field.
            let field = key.rsplit('/').next().unwrap_or(key);
            let value = match (field, &map[key]) {
                ("managedFields", _) => continue,
                ("metadata", Value::Object(metadata)) if is_list => self.list_metadata(metadata),
                ("resourceVersion", Value::String(version)) => self.version(version),
                ("continue", Value::String(token)) => json!(opened(token)),
                ("columnDefinitions", Value::Array(columns)) => {
                    columns.iter().map(|column| self.column(column)).collect()
                }
                (_, other) => self.value(other),
            };
            out.insert(key.clone(), value);
        }
        Value::Object(out)
    }

    /// Returns a table without the cells that depend on the time of the request.
    fn without_ages(&mut self, table: &Map<String, Value>) -> Map<String, Value> {
        let mut table = table.clone();
        if let Some(Value::Array(columns)) = table.get("columnDefinitions") {
            self.columns = columns.iter().map(Cells::of).collect();
        }
        let rows = table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten();
        for cells in rows.filter_map(|row| row["cells"].as_array_mut()) {
            for (cell, column) in cells.iter_mut().zip(&self.columns) {
                column.hide_age(cell);
            }
        }
        table
    }

    /// Normalises a column of a table.
    fn column(&mut self, column: &Value) -> Value {
        let mut column = column.clone();
        if let Value::Object(column) = &mut column {
            column.remove("description");
        }
        self.value(&column)
    }

    fn list_metadata(&mut self, metadata: &Map<String, Value>) -> Value {
        let mut metadata = metadata.clone();
        if let Some(Value::String(version)) = metadata.get_mut("resourceVersion") {
            *version = shown_version(version);
        }
        self.object(&metadata)
    }

    /// Returns the version of an object, numbered.
    fn version(&mut self, version: &str) -> Value {
        if shown_version(version) != "<rv>" || version == "<rv>" {
            return json!(version);
        }
        json!(format!("<rv {}>", number(&mut self.versions, version)))
    }

    /// If an object's metadata has a generated name, replaces that name from here on.
    fn remember_generated(&mut self, metadata: &Map<String, Value>) {
        let field = |name| metadata.get(name).and_then(Value::as_str);
        let (Some(prefix), Some(name)) = (field("generateName"), field("name")) else { return };
        let Some(suffix) = name.strip_prefix(prefix) else { return };
        let drawn = suffix.len() == SUFFIX_LENGTH
            && suffix.chars().all(|character| SUFFIX_ALPHABET.contains(character));
        if drawn && self.generated.iter().all(|(known, _)| known != name) {
            let shown = format!("{prefix}<suffix {}>", self.generated.len() + 1);
            self.generated.push((name.to_owned(), shown));
        }
    }

    fn without_uids(&mut self, text: &str) -> String {
        let length = UID_PARTS.iter().sum::<usize>() + UID_PARTS.len() - 1;
        let (mut out, mut rest) = (String::new(), text);
        while let Some(first) = rest.chars().next() {
            match rest.get(..length) {
                Some(window) if is_uid(window) => {
                    if window.starts_with("00000000-") {
                        out.push_str(window);
                    } else {
                        let _ = write!(out, "<uid {}>", number(&mut self.uids, window));
                    }
                    rest = &rest[length..];
                }
                _ => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }
}

impl Cells {
    fn of(column: &Value) -> Self {
        match column["name"].as_str() {
            Some(name) if AGE_COLUMNS.contains(&name) => Self::Ages,
            Some("Restarts") => Self::Restarts,
            _ if column["type"] == "date" => Self::Ages,
            _ => Self::Others,
        }
    }

    fn hide_age(self, cell: &mut Value) {
        let Some(text) = cell.as_str() else { return };
        let shown = match self {
            Self::Ages if is_duration(text) => "<age>".to_owned(),
            Self::Restarts => match text.split_once(" (") {
                Some((count, rest)) if rest.strip_suffix(" ago)").is_some_and(is_duration) => {
                    format!("{count} (<age> ago)")
                }
                _ => return,
            },
            Self::Ages | Self::Others => return,
        };
        *cell = Value::String(shown);
    }
}

/// Whether the whole text is a duration of one or two units, such as `5m10s`.
fn is_duration(text: &str) -> bool {
    let mut units = text.split_inclusive(|c: char| "smhdy".contains(c));
    let is_unit = |unit: &str| {
        let number = unit.strip_suffix(|c| "smhdy".contains(c)).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    !text.is_empty() && units.by_ref().take(2).all(is_unit) && units.next().is_none()
}

/// Returns the position of `value` among the known ones, from one; an unknown value is appended.
fn number(known: &mut Vec<String>, value: &str) -> usize {
    let place = known.iter().position(|other| other == value).unwrap_or_else(|| {
        known.push(value.to_owned());
        known.len() - 1
    });
    place + 1
}

/// Returns `<rv>` for a version that a server assigned, and the text itself for one that a case
/// made up.
fn shown_version(version: &str) -> String {
    match version.parse::<u64>() {
        Ok(2..1_000_000_000) => "<rv>".to_owned(),
        _ => version.to_owned(),
    }
}

fn is_uid(text: &str) -> bool {
    let mut parts = text.split('-');
    UID_PARTS.iter().all(|&length| {
        parts.next().is_some_and(|part| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }) && parts.next().is_none()
}

/// Whether the whole text is a time in UTC, such as `2026-11-15T00:44:37Z`, with or without a
/// fraction.
pub(crate) fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { 'd' } else { c }).collect();
    let fraction = |rest: &str| rest.strip_prefix('.').is_some_and(|f| f.trim_matches('d') == "Z");
    !text.starts_with("2001-")
        && shape
            .strip_prefix("dddd-dd-ddTdd:dd:dd")
            .is_some_and(|rest| rest == "Z" || fraction(rest))
}

/// Replaces the ports of loopback addresses, which differ each time.
fn without_ports(text: &str) -> String {
    const ANCHOR: &str = "127.0.0.1:";
    let mut parts = text.split(ANCHOR);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        // Port 1 means an address without a server.
        let port = &part[..part.len() - rest.len()];
        out.push_str(ANCHOR);
        out.push_str(if port == "1" { port } else { "<port>" });
        out.push_str(rest);
    }
    out
}

/// Replaces the numbers after one of the anchors, and a number in parentheses after that.
fn without_versions(text: &str) -> String {
    VERSION_ANCHORS.iter().fold(text.to_owned(), |text, anchor| {
        let mut parts = text.split(anchor);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (version, rest) = leading_number(part);
            out.push_str(anchor);
            out.push_str(&shown_version(version));
            match rest.strip_prefix(" (").map(leading_number) {
                Some((current, rest)) if !current.is_empty() && rest.starts_with(')') => {
                    let _ = write!(out, " ({}{rest}", shown_version(current));
                }
                _ => out.push_str(rest),
            }
        }
        out
    })
}

fn leading_number(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Decodes the continue token in a query.
fn without_tokens(text: &str) -> String {
    let Some((before, rest)) = text.split_once("continue=") else { return text.to_owned() };
    let (token, after) = rest.split_at(rest.find('&').unwrap_or(rest.len()));
    format!("{before}continue={}{after}", opened(token))
}

/// Returns the claims of a service account token; `None` if it is not one.
fn claims(token: &str) -> Option<Value> {
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, _] = parts.as_slice() else { return None };
    let read = |part: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok()
    };
    read(header)?.get("alg")?;
    let mut claims = read(payload)?;
    let issued = claims.get("iat")?.as_i64()?;
    let pointers = ["/exp", "/nbf", "/iat", "/kubernetes.io/warnafter"];
    for pointer in pointers {
        if let Some(time) = claims.pointer_mut(pointer) {
            *time = json!(format!("<issued + {}>", time.as_i64()? - issued));
        }
    }
    Some(claims)
}

/// Returns the content of a continue token, without its version; the token itself if it is not one.
fn opened(token: &str) -> String {
    let bytes = URL_SAFE_NO_PAD.decode(token).or_else(|_| STANDARD_NO_PAD.decode(token));
    let Some(mut inside) = bytes.ok().and_then(|b| serde_json::from_slice::<Value>(&b).ok()) else {
        return token.to_owned();
    };
    if let Some(version) = inside.get_mut("rv")
        && version.as_i64().is_some_and(|version| version > 1)
    {
        *version = json!("<rv>");
    }
    format!("<token {}>", crate::render::render(&inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "f6d5d612-cdb4-4a0c-b5b7-ebbe131cee33";
    const OTHER: &str = "571dd88e-f67a-4b17-8d85-d93ed0585629";

    #[test]
    fn uids_are_numbered_by_first_appearance_also_inside_texts() {
        let mut normaliser = Normaliser::default();
        let value = normaliser.value(&json!({"a": OTHER, "b": UID, "c": OTHER}));
        assert_eq!(value, json!({"a": "<uid 1>", "b": "<uid 2>", "c": "<uid 1>"}));
        assert_eq!(normaliser.text(&format!("record ({UID}).")), "record (<uid 2>).");
    }

    #[test]
    fn versions_of_objects_show_whether_something_changed() {
        let mut normaliser = Normaliser::default();
        let mut see = |version: &str| {
            let object = json!({"metadata": {"resourceVersion": version}});
            normaliser.value(&object)["metadata"]["resourceVersion"].clone()
        };
        assert_eq!([see("70"), see("70"), see("71")], ["<rv 1>", "<rv 1>", "<rv 2>"]);
    }

    #[test]
    fn picked_version_is_treated_like_the_field_it_was_picked_from() {
        let picked = json!({"/metadata/resourceVersion": "70"});
        let shown = json!({"/metadata/resourceVersion": "<rv 1>"});
        assert_eq!(Normaliser::default().value(&picked), shown);
    }

    #[test]
    fn versions_of_lists_and_bookmarks_are_not_told_apart() {
        let mut normaliser = Normaliser::default();
        let list = json!({"kind": "XList", "items": [], "metadata": {"resourceVersion": "7"}});
        assert_eq!(normaliser.value(&list)["metadata"]["resourceVersion"], "<rv>");
        let bookmark =
            json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}});
        assert_eq!(normaliser.event(&bookmark)["object"]["metadata"]["resourceVersion"], "<rv>");
    }

    #[test]
    fn versions_in_messages_and_queries_are_hidden_but_not_other_numbers() {
        let mut normaliser = Normaliser::default();
        for (text, shown) in [
            ("too old resource version: 1 (100693)", "too old resource version: 1 (<rv>)"),
            (
                "Too large resource version: 99999999999, current: 101257",
                "Too large resource version: 99999999999, current: <rv>",
            ),
            ("/a?limit=2&resourceVersion=55&watch=1", "/a?limit=2&resourceVersion=<rv>&watch=1"),
            ("should be less than or equal to 10", "should be less than or equal to 10"),
        ] {
            assert_eq!(normaliser.text(text), shown);
        }
    }

    #[test]
    fn times_are_hidden_except_the_one_that_cases_send() {
        let mut normaliser = Normaliser::default();
        assert_eq!(normaliser.text("2026-11-15T00:44:37Z"), "<time>");
        assert_eq!(normaliser.text("2026-11-15T00:44:37.123456Z"), "<time>");
        assert_eq!(normaliser.text("2001-01-01T00:00:00Z"), "2001-01-01T00:00:00Z");
        assert_eq!(normaliser.text("at 2026-11-15"), "at 2026-11-15");
    }

    #[test]
    fn ages_are_hidden_in_their_columns_and_nowhere_else() {
        let mut normaliser = Normaliser::default();
        let columns = ["Name", "Age", "Restarts", "Duration", "Since"].map(
            |name| json!({"name": name, "type": if name == "Since" { "date" } else { "string" }}),
        );
        let table = |columns: Value, cells: Value| {
            let rows = json!([{ "cells": cells }]);
            json!({"kind": "Table", "columnDefinitions": columns, "rows": rows})
        };
        let seen = normaliser
            .value(&table(json!(columns), json!(["5m", "5m10s", "2 (3h ago)", "42s", "3y2d"])));
        let hidden = json!(["5m", "<age>", "2 (<age> ago)", "42s", "<age>"]);
        assert_eq!(seen["rows"][0]["cells"], hidden);
        // The next event of a watch has the same columns, but does not repeat them.
        let seen = normaliser
            .value(&table(Value::Null, json!(["5m", "<unknown>", "2 (ago)", "", "1d2h3m"])));
        let same = json!(["5m", "<unknown>", "2 (ago)", "", "1d2h3m"]);
        assert_eq!(seen["rows"][0]["cells"], same);
        assert_eq!(normaliser.value(&json!({"age": "5m"})), json!({"age": "5m"}));
    }

    #[test]
    fn description_of_a_column_is_dropped_unless_it_was_picked() {
        let column = json!({"name": "Age", "type": "date", "description": "When it was made"});
        let seen = Normaliser::default().value(&json!({ "/columnDefinitions": [column] }));
        assert_eq!(seen, json!({"/columnDefinitions": [{"name": "Age", "type": "date"}]}));
        let picked = json!({"/columnDefinitions/0/description": "When it was made"});
        assert_eq!(Normaliser::default().value(&picked), picked);
    }

    #[test]
    fn generated_name_is_hidden_wherever_it_appears_later() {
        let mut normaliser = Normaliser::default();
        let object = json!({"metadata": {"generateName": "g-", "name": "g-vdwjk"}});
        assert_eq!(normaliser.value(&object)["metadata"]["name"], "g-<suffix 1>");
        assert_eq!(normaliser.text("/things/g-vdwjk"), "/things/g-<suffix 1>");
    }

    #[test]
    fn name_that_was_not_drawn_as_the_real_server_does_stays_visible() {
        let object = json!({"metadata": {"generateName": "g-", "name": "g-123"}});
        assert_eq!(Normaliser::default().value(&object)["metadata"]["name"], "g-123");
    }

    #[test]
    fn continue_tokens_are_opened() {
        let token = URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":55,"start":"b"}"#);
        let shown = r#"<token { "rv": "<rv>", "start": "b", "v": "meta.k8s.io/v1" }>"#;
        let mut normaliser = Normaliser::default();
        let path = normaliser.text(&format!("/a?continue={token}&limit=2"));
        assert_eq!(path, format!("/a?continue={shown}&limit=2"));
        let list = json!({"items": [], "metadata": {"continue": token}});
        assert_eq!(normaliser.value(&list)["metadata"]["continue"], shown);
    }

    #[test]
    fn tokens_of_service_accounts_are_opened() {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({"iat": 100, "exp": 700, "jti": UID});
        let token = format!("{}.{}.xyz", part(json!({"alg": "none"})), part(claims));
        let shown =
            r#"<token { "exp": "<issued + 600>", "iat": "<issued + 0>", "jti": "<uid 1>" }>"#;
        assert_eq!(Normaliser::default().text(&token), shown);
        assert_eq!(Normaliser::default().text("a.b.c"), "a.b.c");
    }

    #[test]
    fn managed_fields_are_dropped() {
        let object = json!({"metadata": {"managedFields": [{}], "name": "a"}});
        assert_eq!(Normaliser::default().value(&object), json!({"metadata": {"name": "a"}}));
    }
}
