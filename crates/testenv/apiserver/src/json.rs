//! Parses JSON as the real server does: if a member occurs twice, the last one wins and the
//! duplicate is reported; a number without a fraction is an integer, however it was written.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use windlass_nesting::has_large_stack;

use crate::kind::Kind;

/// The maximum depth of an object of a built-in kind: what `serde_json` parses by default. Real
/// servers accept more.
pub(crate) const DEPTH_MAX: usize = 127;

/// The maximum depth of a custom resource, as on a real server. Such a value is handled on a large
/// stack.
const CUSTOM_DEPTH_MAX: usize = 10_000;

/// Returns the maximum depth of a body for this kind.
pub(crate) fn depth_max_of(kind: &Kind) -> usize {
    if kind.is_builtin() { DEPTH_MAX } else { CUSTOM_DEPTH_MAX }
}

/// Returns the maximum depth of a value that the server itself creates, for instance by a patch.
pub(crate) fn depth_max() -> usize {
    if has_large_stack() { CUSTOM_DEPTH_MAX } else { DEPTH_MAX }
}

/// Returns the error for a body that is nested too deeply.
pub(crate) fn too_deep(depth_max: usize) -> String {
    format!(
        "the body is nested deeper than {depth_max} levels, which this embedded API server does \
         not read"
    )
}

/// Returns the depth of a value. A scalar has depth 0.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// A value, and the paths of its duplicate members.
#[derive(Debug, PartialEq)]
pub(crate) struct ParsedJson {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

pub(crate) fn read(text: &[u8]) -> Result<ParsedJson, serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    // A review is a little deeper than the object in it.
    if has_large_stack() && windlass_nesting::depth(text) <= windlass_nesting::DEPTH_MAX {
        deserializer.disable_recursion_limit();
    }
    let value =
        Seed { path: String::new(), duplicates: &mut duplicates }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(ParsedJson { value, duplicates })
}

/// Converts floats without a fraction to integers, in a value that another parser has read.
pub(crate) fn integers_from_floats(value: &mut Value) {
    match value {
        Value::Number(found) if found.is_f64() => *value = number(found.as_f64().unwrap_or(0.0)),
        Value::Array(list) => list.iter_mut().for_each(integers_from_floats),
        Value::Object(fields) => fields.values_mut().for_each(integers_from_floats),
        _ => {}
    }
}

/// Converts a number without a fraction to an integer, as Go writes it.
pub(crate) fn number(float: f64) -> Value {
    /// Integers up to here are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
        return Value::Number(Number::from(float as i64));
    }
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}

/// Reads one value at a path.
struct Seed<'a> {
    path: String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, list.len());
            match elements.next_element_seed(Seed { path, duplicates: self.duplicates })? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let path =
                if self.path.is_empty() { name.clone() } else { format!("{}.{name}", self.path) };
            if map.contains_key(&name) {
                self.duplicates.push(path.clone());
            }
            let value = members.next_value_seed(Seed { path, duplicates: self.duplicates })?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn last_duplicate_member_wins_and_is_reported() {
        let text = br#"{"spec": {"a": 1, "a": 2, "l": [{"b": 1, "b": 1}]}}"#;
        let read = read(text).expect("it is JSON");
        assert_eq!(read.value, json!({"spec": {"a": 2, "l": [{"b": 1}]}}));
        assert_eq!(read.duplicates, ["spec.a", "spec.l[0].b"]);
    }

    #[test]
    fn numbers_without_a_fraction_are_integers() {
        let value = read(b"[2.0, 0.25, -1e2, 9007199254740993, 18446744073709551615]")
            .expect("it is JSON")
            .value;
        assert_eq!(value, json!([2, 0.25, -100, 9_007_199_254_740_993_i64, u64::MAX]));
    }

    #[test]
    fn trailing_text_is_an_error() {
        assert!(read(b"{} x").is_err());
        assert!(read(b"{\"a\":").is_err());
    }
}
