//! Helpers that the cells of several kinds share: strings, numbers, labels, selectors, containers.
//!
//! All of them read JSON that was validated when it was stored. Missing values count as Go's zero
//! values, as in the structs of the real server.

use serde_json::Value;

/// The cell for an empty string.
pub(super) const NONE: &str = "<none>";

/// The cell for an option that is not set.
pub(super) const UNSET: &str = "<unset>";

/// Returns a string, or an empty one.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a string, or `otherwise` if it is empty.
pub(super) fn text_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    Some(text(value)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

/// Returns a string, which may be empty, or `otherwise` if it is missing.
pub(super) fn given_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    value.as_str().unwrap_or(otherwise)
}

/// Returns a number, or zero.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Returns a quantity as it is stored. A missing one is zero.
pub(super) fn quantity(value: &Value) -> String {
    match value {
        Value::Null => "0".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the items of a list, or an empty slice.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the number of entries of a map.
pub(super) fn entries(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

/// Returns the name of the object.
pub(super) fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns the status of the first condition of a type.
pub(super) fn condition<'a>(object: &'a Value, condition_type: &str) -> Option<&'a str> {
    let conditions = list(&object["status"]["conditions"]).iter();
    let mut of_type = conditions.filter(|condition| condition["type"] == condition_type);
    of_type.next().map(|condition| text(&condition["status"]))
}

/// Returns the names and the images of containers.
pub(super) fn containers(containers: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| join(list(containers).iter().map(|one| text(&one[field]))).into())
}

/// Joins strings with commas.
pub(super) fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

/// Appends how many more items there are.
pub(super) fn with_more(shown: &str, more: usize) -> String {
    format!("{shown} + {more} more...")
}

/// Formats labels as `a=1,b=2`, sorted by key.
pub(super) fn labels(labels: &Value) -> String {
    let mut pairs: Vec<String> = pairs(labels).collect();
    pairs.sort_unstable();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

fn pairs(labels: &Value) -> impl Iterator<Item = String> {
    let labels = labels.as_object().into_iter().flatten();
    labels.map(|(key, value)| format!("{key}={}", text(value)))
}

/// Formats a label selector on one line. Returns `None` if it is invalid.
pub(super) fn selector(selector: &Value) -> Option<String> {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), format!("{key}={}", text(value))));
    let expressions = list(&selector["matchExpressions"]).iter().map(|expression| {
        let key = text(&expression["key"]);
        requirement(key, text(&expression["operator"]), &expression["values"])
            .map(|requirement| (key, requirement))
    });
    let mut requirements: Vec<(&str, String)> =
        labels.map(Some).chain(expressions).collect::<Option<_>>()?;
    requirements.sort_by_key(|(key, _)| *key);
    Some(join(requirements.iter().map(|(_, requirement)| requirement.as_str())))
}

/// Formats a label selector, with `<none>` for an empty one and `<error>` for an invalid one.
pub(super) fn selector_or_none(given: &Value) -> String {
    match selector(given) {
        None => "<error>".to_owned(),
        Some(empty) if empty.is_empty() => NONE.to_owned(),
        Some(text) => text,
    }
}

fn requirement(key: &str, operator: &str, values: &Value) -> Option<String> {
    let mut values: Vec<&str> = list(values).iter().map(text).collect();
    values.sort_unstable();
    let values = values.join(",");
    Some(match operator {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_written_in_the_order_of_their_keys() {
        let given = json!({
            "matchLabels": {"b": "1", "d": ""},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["y", "x"]},
                {"key": "a", "operator": "DoesNotExist"},
                {"key": "e", "operator": "Exists"},
                {"key": "f", "operator": "NotIn", "values": ["z"]},
            ],
        });
        assert_eq!(selector(&given).as_deref(), Some("!a,b=1,c in (x,y),d=,e,f notin (z)"));
        assert_eq!(selector_or_none(&json!({})), NONE);
        assert_eq!(selector_or_none(&Value::Null), NONE);
        let odd = json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]});
        assert_eq!(selector_or_none(&odd), "<error>");
    }

    #[test]
    fn labels_are_pairs_in_order() {
        assert_eq!(labels(&json!({"b": "2", "a": "1"})), "a=1,b=2");
        assert_eq!(labels(&json!({})), NONE);
    }
}
