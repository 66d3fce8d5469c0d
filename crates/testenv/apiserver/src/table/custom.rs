//! The tables of custom kinds: the definition declares the columns with paths.

use std::sync::Arc;

use serde_json::{Value, json};

use super::age::Now;
use super::cells::{name, number, text, text_or};
use super::column::{AGE_AS_DATE, Column, NAME, integer};
use super::jsonpath::JsonPath;
use crate::field_error::{go_float, go_json};

/// 2^63: the first float that is too large for an integer.
const I64_BOUND: f64 = 9_223_372_036_854_775_808.0;

/// The columns of one version of a custom kind, after the name.
#[derive(Debug, Clone)]
pub(crate) struct CustomColumns(Arc<[CustomColumn]>);

#[derive(Debug)]
struct CustomColumn {
    /// The column in the form of `columnDefinitions`.
    definition: Value,
    path: JsonPath,
}

impl CustomColumns {
    /// Returns the columns that a version declares, or the age if it declares none.
    ///
    /// A definition is only validated for the first character of a path. A column with a path that
    /// cannot be parsed is left out, with all columns after it, as on the real server.
    pub(crate) fn of(version: &Value) -> Self {
        let declared = version["additionalPrinterColumns"].as_array();
        let Some(declared) = declared.filter(|declared| !declared.is_empty()) else {
            return Self([age()].into());
        };
        Self(declared.iter().map_while(CustomColumn::declared).collect())
    }

    /// Returns the columns of a custom kind's scale.
    pub(super) fn of_scale() -> Self {
        let desired = integer("Desired");
        let actual = integer("Available");
        let desired = CustomColumn::fixed(desired, ".spec.replicas");
        let actual = CustomColumn::fixed(actual, ".status.replicas");
        Self([desired, actual, age()].into())
    }

    pub(super) fn definitions(&self) -> Vec<Value> {
        let columns = self.0.iter().map(|column| column.definition.clone());
        std::iter::once(NAME.definition()).chain(columns).collect()
    }

    pub(super) fn cells(&self, object: &Value, now: Now) -> Value {
        let cells = self.0.iter().map(|column| {
            let found = column.path.first(object);
            let column_type = text(&column.definition["type"]);
            found.map_or(Value::Null, |value| cell(column_type, &value, now))
        });
        std::iter::once(name(object).into()).chain(cells).collect()
    }
}

impl CustomColumn {
    fn fixed(column: Column, path: &str) -> Self {
        let path = JsonPath::parse(path).expect("a path of our own must be valid");
        Self { definition: column.definition(), path }
    }

    /// Returns a declared column, with a default description if it has none. Returns `None` if its
    /// path cannot be parsed.
    fn declared(declared: &Value) -> Option<Self> {
        let path = text(&declared["jsonPath"]);
        let default = format!("Custom resource definition column (in JSONPath format): {path}");
        let definition = json!({
            "name": text(&declared["name"]),
            "type": text(&declared["type"]),
            "format": text(&declared["format"]),
            "description": text_or(&declared["description"], &default),
            "priority": number(&declared["priority"]),
        });
        Some(Self { definition, path: JsonPath::parse(path)? })
    }
}

fn age() -> CustomColumn {
    CustomColumn::fixed(AGE_AS_DATE, ".metadata.creationTimestamp")
}

/// Returns a value as a column of that type shows it, or null if it has another type.
fn cell(column_type: &str, value: &Value, now: Now) -> Value {
    match (column_type, value) {
        ("string", value) => printed(value).into(),
        ("integer", Value::Number(number)) => go_integer(number).into(),
        ("number", Value::Number(number)) => go_number(number),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(time)) => match time.parse() {
            _ if time.is_empty() => "<unknown>".into(),
            Ok(time) => now.since_moment(time).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// Truncates a number to an integer. A number that is too large becomes the result of Go's
/// conversion on common processors.
#[expect(clippy::cast_possible_truncation, reason = "it was found to be in range")]
fn go_integer(number: &serde_json::Number) -> i64 {
    let float = number.as_f64().unwrap_or_default();
    let in_range = (-I64_BOUND..I64_BOUND).contains(&float);
    number.as_i64().unwrap_or(if in_range { float as i64 } else { i64::MIN })
}

/// Writes a number as Go writes a float: an integer has no fraction.
#[expect(clippy::cast_possible_truncation, reason = "it was found to be in range")]
fn go_number(number: &serde_json::Number) -> Value {
    let float = number.as_f64().unwrap_or_default();
    let is_whole = float.fract() == 0.0 && float.abs() < I64_BOUND;
    if is_whole { (float as i64).into() } else { float.into() }
}

/// Formats a value as Go prints it.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => go_float(number.as_f64().unwrap_or_default()),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => go_json(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(column_type: &str, value: &Value) -> Value {
        let now = Now("2026-01-01T00:01:00Z".parse().expect("a time"));
        cell(column_type, value, now)
    }

    #[test]
    fn values_of_the_type_of_the_column_are_shown() {
        for (column_type, value, cell) in [
            ("string", json!("a"), json!("a")),
            ("string", json!(1.5), json!("1.5")),
            ("string", json!(7), json!("7")),
            ("string", json!(true), json!("true")),
            ("string", json!(null), json!("<no value>")),
            ("string", json!({"b": 1, "a": ["<"]}), json!(r#"{"a":["\u003c"],"b":1}"#)),
            ("integer", json!(7), json!(7)),
            ("integer", json!(7.9), json!(7)),
            ("integer", json!(1e21), json!(i64::MIN)),
            ("integer", json!("7"), json!(null)),
            ("number", json!(7.5), json!(7.5)),
            ("number", json!(7.0), json!(7)),
            ("number", json!(true), json!(null)),
            ("boolean", json!(true), json!(true)),
            ("boolean", json!("true"), json!(null)),
            ("date", json!("2026-01-01T00:00:00Z"), json!("60s")),
            ("date", json!("yesterday"), json!("<invalid>")),
            ("date", json!(""), json!("<unknown>")),
            ("date", json!(7), json!(null)),
        ] {
            assert_eq!(shown(column_type, &value), cell, "{value} as {column_type}");
        }
    }

    #[test]
    fn columns_end_before_the_first_invalid_path() {
        let column =
            |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
        let columns = json!([column("A", ".a"), column("B", ".b["), column("C", ".c")]);
        let columns = CustomColumns::of(&json!({ "additionalPrinterColumns": columns }));
        let names: Vec<Value> =
            columns.definitions().iter().map(|column| column["name"].clone()).collect();
        assert_eq!(names, ["Name", "A"]);
    }
}
