//! Why something does not decode, without its content.

/// What serde says, without the values that it found: they are content of an object, and whoever
/// reads the message may not be allowed to read the object.
pub(crate) fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let expected = text.rsplit_once(", expected ").map(|(_, expected)| expected);
    // Names of fields come from the type, not from the object.
    if text.starts_with("missing field `") {
        return text;
    }
    let Some(problem) = ["invalid type", "invalid value", "invalid length", "unknown variant"]
        .into_iter()
        .find(|problem| text.starts_with(problem))
    else {
        return "it has another form".to_owned();
    };
    match expected {
        Some(expected) => format!("{problem}, expected {expected}"),
        None => problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::problem;

    #[derive(Debug, Deserialize)]
    struct Typed {
        #[serde(rename = "count")]
        _count: u8,
    }

    fn of(value: Value) -> String {
        problem(&serde_json::from_value::<Typed>(value).unwrap_err())
    }

    #[test]
    fn values_are_not_shown() {
        assert_eq!(of(json!({"count": "hunter2"})), "invalid type, expected u8");
        assert_eq!(of(json!({"count": 4711})), "invalid value, expected u8");
        assert_eq!(of(json!({"count": "a, expected hunter2"})), "invalid type, expected u8");
        assert_eq!(of(json!({})), "missing field `count`");
    }
}
