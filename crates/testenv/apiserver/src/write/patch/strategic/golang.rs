//! Formats values as Go's `fmt` does.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// Formats a value from JSON as `%v` does.
pub(in crate::write::patch) fn shown(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, &|out, scalar| out.push_str(&plain(scalar)));
    out
}

/// Formats a map as `%v` does.
pub(in crate::write::patch) fn shown_map(map: &Map<String, Value>) -> String {
    let mut out = String::new();
    write_map(&mut out, map, &|out, scalar| out.push_str(&plain(scalar)));
    out
}

/// Formats a list of lists as `%v` does.
pub(super) fn shown_lists(lists: &[&[Value]]) -> String {
    let shown: Vec<String> = lists.iter().map(|list| shown_list(list)).collect();
    format!("[{}]", shown.join(" "))
}

pub(super) fn shown_list(list: &[Value]) -> String {
    let items: Vec<String> = list.iter().map(shown).collect();
    format!("[{}]", items.join(" "))
}

/// Formats a value as `%s` does, with Go's error markers for values that are not strings.
pub(super) fn as_text(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, &|out, scalar| match scalar {
        Value::String(text) => out.push_str(text),
        Value::Null => out.push_str("%!s(<nil>)"),
        other => {
            let _ = write!(out, "%!s({}={})", type_name(other), plain(other));
        }
    });
    out
}

/// Returns the Go type of a value, as `%s` shows it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Returns a key to compare scalars by: type and value. Returns `None` for maps and lists.
pub(super) fn identity(value: &Value) -> Option<String> {
    match value {
        Value::Array(_) | Value::Object(_) => None,
        Value::String(text) => Some(format!("s{text}")),
        other => Some(format!("{} {}", type_name(other), plain(other))),
    }
}

type Scalar<'a> = &'a dyn Fn(&mut String, &Value);

fn write_value(out: &mut String, value: &Value, scalar: Scalar<'_>) {
    match value {
        Value::Object(fields) => write_map(out, fields, scalar),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                write_value(out, item, scalar);
            }
            out.push(']');
        }
        other => scalar(out, other),
    }
}

fn write_map(out: &mut String, fields: &Map<String, Value>, scalar: Scalar<'_>) {
    out.push_str("map[");
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        let _ = write!(out, "{name}:");
        write_value(out, value, scalar);
    }
    out.push(']');
}

fn plain(scalar: &Value) -> String {
    match scalar {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => shown_number(number),
        other => other.to_string(),
    }
}

/// Formats an integer, or a float in the shortest form with the same value.
fn shown_number(number: &Number) -> String {
    if number.is_i64() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap_or(0.0);
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent = exponent.parse::<i32>().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_shown_as_go_shows_them() {
        let value = json!({"b": [1, "x", null], "a": {"t": true, "f": 0.5}});
        assert_eq!(shown(&value), "map[a:map[f:0.5 t:true] b:[1 x <nil>]]");
        assert_eq!(shown(&json!(1e21)), "1e+21");
        assert_eq!(shown(&json!(1.5e-7)), "1.5e-07");
        assert_eq!(shown(&json!(u64::MAX)), "1.8446744073709552e+19");
        assert_eq!(shown_lists(&[&[json!("a")], &[]]), "[[a] []]");
    }

    #[test]
    fn values_that_are_not_strings_get_the_error_marker_of_go() {
        assert_eq!(as_text(&json!("merge")), "merge");
        assert_eq!(as_text(&json!(1)), "%!s(int64=1)");
        assert_eq!(as_text(&json!(null)), "%!s(<nil>)");
        assert_eq!(as_text(&json!({"a": false})), "map[a:%!s(bool=false)]");
    }
}
