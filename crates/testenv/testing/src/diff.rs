//! The difference between an object and what a test expects.
//!
//! The expectation is a part of the object: fields that it does not name are ignored. Only the
//! named fields are shown, as YAML, with `-` for expected and `+` for actual values.

use std::fmt::Write as _;

use serde_json::Value;

/// Returns the difference; `None` if the object matches.
///
/// - An object must have all expected fields; it may have others.
/// - A list must have as many items as are expected, each as expected, in the same order.
/// - `null` means that the field is absent.
/// - Everything else must be equal.
pub(crate) fn difference(expected: &Value, got: &Value) -> Option<String> {
    let mut diff = Diff::default();
    diff.compare("", 0, expected, got);
    diff.differs.then_some(diff.lines)
}

#[derive(Default)]
struct Diff {
    lines: String,
    differs: bool,
}

impl Diff {
    /// Compares a field. `label` is its name and a colon; empty for the whole object.
    fn compare(&mut self, label: &str, depth: usize, expected: &Value, got: &Value) {
        match (expected, got) {
            (Value::Object(expected), Value::Object(got)) => {
                let depth = self.open(label, depth);
                for (name, expected) in expected {
                    let got = got.get(name).unwrap_or(&Value::Null);
                    self.compare(&format!("{name}:"), depth, expected, got);
                }
            }
            (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
                let depth = self.open(label, depth);
                for (number, (expected, got)) in expected.iter().zip(got).enumerate() {
                    self.compare(&format!("[{number}]:"), depth, expected, got);
                }
            }
            _ if expected == got => self.line(' ', label, depth, expected),
            _ => {
                self.differs = true;
                self.line('-', label, depth, expected);
                self.line('+', label, depth, got);
            }
        }
    }

    /// Adds the line above the fields of an object. Returns their indentation.
    fn open(&mut self, label: &str, depth: usize) -> usize {
        if label.is_empty() {
            return depth;
        }
        let _ = writeln!(self.lines, "  {:depth$}{label}", "");
        depth + 2
    }

    /// Values are written as JSON, which is YAML and fits on a line.
    fn line(&mut self, sign: char, label: &str, depth: usize, value: &Value) {
        let space = if label.is_empty() { "" } else { " " };
        let value = match value {
            Value::Null => "(absent)".to_owned(),
            value => value.to_string(),
        };
        let _ = writeln!(self.lines, "{sign} {:depth$}{label}{space}{value}", "");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn part_of_an_object_is_enough() {
        let got = json!({"spec": {"replicas": 3, "paused": false}, "status": {"list": [{"a": 1, "b": 2}]}});
        for expected in [
            json!({}),
            json!({"spec": {"replicas": 3}}),
            json!({"spec": {"selector": null}, "status": {"list": [{"b": 2}]}}),
        ] {
            assert_eq!(difference(&expected, &got), None, "{expected}");
        }
    }

    #[test]
    fn difference_shows_the_named_fields_and_both_values() {
        let got =
            json!({"kind": "Foo", "spec": {"image": "a", "replicas": 2, "paused": true, "x": 1}});
        let expected = json!({"spec": {"image": "a", "replicas": 3, "paused": null, "tag": "t"}});
        let expected = difference(&expected, &got).expect("a difference");
        let lines = [
            "  spec:",
            "    image: \"a\"",
            "-   paused: (absent)",
            "+   paused: true",
            "-   replicas: 3",
            "+   replicas: 2",
            "-   tag: \"t\"",
            "+   tag: (absent)",
        ];
        let mut got: Vec<&str> = expected.lines().collect();
        let mut lines = lines.to_vec();
        // The order of fields depends on the map.
        got.sort_unstable();
        lines.sort_unstable();
        assert_eq!(got, lines);
    }

    #[test]
    fn lists_of_another_length_are_shown_whole() {
        let shown = difference(&json!({"items": [1, 2]}), &json!({"items": [1]}));
        assert_eq!(shown.as_deref(), Some("- items: [1,2]\n+ items: [1]\n"));
        let shown = difference(&json!({"items": [{"a": 1}]}), &json!({"items": [{"a": 2}]}));
        let lines = "  items:\n    [0]:\n-     a: 1\n+     a: 2\n";
        assert_eq!(shown.as_deref(), Some(lines));
    }
}
