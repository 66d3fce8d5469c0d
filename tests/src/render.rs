//! Formats JSON for people: sorted keys, and values on one line where they fit.
//!
//! Recordings are read in reviews and compared line by line, so the format is stable, and compact
//! enough that a changed field is one changed line.

use std::fmt::Write as _;

use serde_json::Value;

/// The maximum length of a line with a whole value.
const WIDTH: usize = 110;

/// Formats `value` over as many lines as needed, without a final line break.
pub(crate) fn render(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, 0, 0);
    out
}

/// Appends `value`. Its first line starts at `column`, and the others are indented by `indent`.
fn write_value(out: &mut String, value: &Value, indent: usize, column: usize) {
    let flat = flat(value);
    if column + flat.chars().count() <= WIDTH {
        out.push_str(&flat);
        return;
    }
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push_str("[\n");
            for (index, item) in items.iter().enumerate() {
                start_line(out, indent + 2, index);
                write_value(out, item, indent + 2, indent + 2);
            }
            let _ = write!(out, "\n{:indent$}]", "");
        }
        Value::Object(_) => {
            out.push_str("{\n");
            for (index, (key, item)) in sorted(value).into_iter().enumerate() {
                start_line(out, indent + 2, index);
                let key = format!("{}: ", Value::from(key));
                out.push_str(&key);
                write_value(out, item, indent + 2, indent + 2 + key.chars().count());
            }
            let _ = write!(out, "\n{:indent$}}}", "");
        }
        _ => out.push_str(&flat),
    }
}

fn start_line(out: &mut String, indent: usize, index: usize) {
    if index > 0 {
        out.push_str(",\n");
    }
    let _ = write!(out, "{:indent$}", "");
}

/// Returns the value on one line, with a space after each comma and colon.
fn flat(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flat).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(_) => {
            let fields = sorted(value)
                .into_iter()
                .map(|(key, item)| format!("{}: {}", Value::from(key), flat(item)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}

/// Returns the fields sorted by key, whatever the order of the map.
fn sorted(value: &Value) -> Vec<(&str, &Value)> {
    let mut fields: Vec<_> =
        value.as_object().into_iter().flatten().map(|(key, item)| (key.as_str(), item)).collect();
    fields.sort_by_key(|(key, _)| *key);
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_values_stay_on_one_line_with_sorted_keys() {
        assert_eq!(render(&json!({"b": [1, 2], "a": {}})), r#"{ "a": {}, "b": [1, 2] }"#);
    }

    #[test]
    fn long_values_are_broken_at_the_outermost_level_that_does_not_fit() {
        let long = "x".repeat(100);
        let shown = render(&json!({"long": long, "short": {"a": 1}}));
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 4, "{shown}");
        assert_eq!(lines[2], r#"  "short": { "a": 1 }"#);
    }

    #[test]
    fn what_is_rendered_parses_to_the_same_value() {
        let value = json!({"a": ["x".repeat(90), {"b": "y".repeat(90), "c": null}], "d": true});
        assert_eq!(serde_json::from_str::<Value>(&render(&value)).ok(), Some(value));
    }
}
