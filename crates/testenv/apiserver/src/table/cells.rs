//! What cells of several kinds have in common: texts, numbers, labels, selectors, containers.
//!
//! All of them read JSON that was checked when it was stored; what is missing counts as Go's zero
//! value, as it does in the structs of the real server.

use serde_json::Value;

/// What stands in a cell for a text that is empty.
pub(super) const NONE: &str = "<none>";

/// What stands in a cell for a choice that was not made.
pub(super) const UNSET: &str = "<unset>";

/// A text, empty where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text, or what stands for an empty one.
pub(super) fn text_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    Some(text(value)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

/// A text that may be there and empty, or what stands for one that is not there.
pub(super) fn given_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    value.as_str().unwrap_or(otherwise)
}

/// A number, zero where there is none.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// A quantity as it is stored; nothing counts as zero.
pub(super) fn quantity(value: &Value) -> String {
    match value {
        Value::Null => "0".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The items of a list, none where there is no list.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// How many entries a map has.
pub(super) fn entries(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

/// The name of the object.
pub(super) fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The status of the first condition of a type.
pub(super) fn condition<'a>(object: &'a Value, condition_type: &str) -> Option<&'a str> {
    let conditions = list(&object["status"]["conditions"]).iter();
    let mut of_type = conditions.filter(|condition| condition["type"] == condition_type);
    of_type.next().map(|condition| text(&condition["status"]))
}

/// The names and the images of containers.
pub(super) fn containers(containers: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| join(list(containers).iter().map(|one| text(&one[field]))).into())
}

/// Texts with commas between them.
pub(super) fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

/// The first of many, and how many more there are.
pub(super) fn with_more(shown: &str, more: usize) -> String {
    format!("{shown} + {more} more...")
}

/// `a=1,b=2`, in the order of the keys.
pub(super) fn labels(labels: &Value) -> String {
    let mut pairs: Vec<String> = pairs(labels).collect();
    pairs.sort_unstable();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

fn pairs(labels: &Value) -> impl Iterator<Item = String> {
    let labels = labels.as_object().into_iter().flatten();
    labels.map(|(key, value)| format!("{key}={}", text(value)))
}

/// A label selector in one line; none if it is not valid.
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

/// The same, with words for one that selects nothing in particular or is not valid.
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
