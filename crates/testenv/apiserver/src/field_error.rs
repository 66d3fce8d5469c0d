//! One error about one field, with the texts of the real server.
//!
//! Every 422 answer is a list of these: `details.causes` lists them one by one, and `message` joins
//! them. Clients and people compare the texts, so values are written as Go writes them
//! ([`go_value`]).

use std::fmt;

use serde_json::Value;

/// The reason for a value that is malformed or out of bounds.
pub(crate) const INVALID: &str = "FieldValueInvalid";
/// The reason for a value of the wrong JSON type.
pub(crate) const TYPE_INVALID: &str = "FieldValueTypeInvalid";
/// The reason for a required value that is missing.
pub(crate) const REQUIRED: &str = "FieldValueRequired";
/// The reason for a value that is not one of a closed set.
pub(crate) const NOT_SUPPORTED: &str = "FieldValueNotSupported";
/// The reason for a value that is not permitted here.
pub(crate) const FORBIDDEN: &str = "FieldValueForbidden";
/// The reason for a text that is too long.
pub(crate) const TOO_LONG: &str = "FieldValueTooLong";
/// The reason for a list or map with too many entries.
pub(crate) const TOO_MANY: &str = "FieldValueTooMany";
/// The reason for a value that must be unique and is not.
pub(crate) const DUPLICATE: &str = "FieldValueDuplicate";

/// The reason for an error that the request did not cause.
pub(crate) const INTERNAL: &str = "InternalError";

/// The path of an error that belongs to no field, as Go prints a nil path.
pub(crate) const NO_FIELD: &str = "<nil>";

/// One error about one field: a cause of a 422 answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// `FieldValueInvalid` and the like.
    pub(crate) reason: &'static str,
    /// The error without the field.
    pub(crate) message: String,
    /// The path of the field, as in `spec.list[0].size`.
    pub(crate) field: String,
}

impl FieldError {
    /// A malformed value.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::with(INVALID, field, &format!("Invalid value: {}", go_value(value)), detail)
    }

    /// A malformed value that the caller has rendered, for the few values that Go does not print as
    /// plain JSON.
    pub(crate) fn invalid_as(field: impl Into<String>, rendered: &str, detail: &str) -> Self {
        Self::with(INVALID, field, &format!("Invalid value: {rendered}"), detail)
    }

    /// A malformed text.
    pub(crate) fn invalid_str(field: impl Into<String>, value: &str, detail: &str) -> Self {
        Self::invalid_as(field, &go_quote(value), detail)
    }

    /// A value of the wrong JSON type.
    pub(crate) fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::with(TYPE_INVALID, field, &format!("Invalid value: {}", go_value(value)), detail)
    }

    /// A value that is missing.
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::with(REQUIRED, field, "Required value", detail)
    }

    /// A value outside of a closed set.
    pub(crate) fn not_supported<S: AsRef<str>>(
        field: impl Into<String>,
        value: &Value,
        supported: &[S],
    ) -> Self {
        let listed: Vec<_> = supported.iter().map(|one| go_quote(one.as_ref())).collect();
        let detail = if listed.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", listed.join(", "))
        };
        Self::with(
            NOT_SUPPORTED,
            field,
            &format!("Unsupported value: {}", go_value(value)),
            &detail,
        )
    }

    /// A value that is not permitted here.
    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::with(FORBIDDEN, field, "Forbidden", detail)
    }

    /// A malformed value that is too long to be shown.
    pub(crate) fn invalid_unshown(field: impl Into<String>, detail: &str) -> Self {
        Self::with(INVALID, field, "Invalid value", detail)
    }

    /// A value that occurs twice and is not shown.
    pub(crate) fn duplicate_unshown(field: impl Into<String>) -> Self {
        Self::with(DUPLICATE, field, "Duplicate value", "")
    }

    /// An error that the request did not cause.
    pub(crate) fn internal(field: impl Into<String>, detail: &str) -> Self {
        Self::with(INTERNAL, field, "Internal error", detail)
    }

    /// A text of more than `max` bytes. The message does not contain the text, nor a negative
    /// `max`.
    pub(crate) fn too_long(field: impl Into<String>, max: i64) -> Self {
        let detail = match max {
            ..=-1 => "value is too long".to_owned(),
            1 => "may not be more than 1 byte".to_owned(),
            _ => format!("may not be more than {max} bytes"),
        };
        Self::with(TOO_LONG, field, "Too long", &detail)
    }

    /// A list or map of `actual` entries where `max` are allowed.
    pub(crate) fn too_many(field: impl Into<String>, actual: usize, max: i64) -> Self {
        let detail = match max {
            ..=-1 => "has too many items".to_owned(),
            1 => "must have at most 1 item".to_owned(),
            _ => format!("must have at most {max} items"),
        };
        Self::with(TOO_MANY, field, &format!("Too many: {actual}"), &detail)
    }

    /// A value that occurs twice.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::with(DUPLICATE, field, &format!("Duplicate value: {}", go_value(value)), "")
    }

    fn with(reason: &'static str, field: impl Into<String>, head: &str, detail: &str) -> Self {
        let message = if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") };
        Self { reason, message, field: field.into() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Joins all errors into the `message` of a 422: one error as it is, several in brackets, each text
/// once.
pub(crate) fn join(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) }
}

/// Renders a value as Go's field errors print it: texts quoted, numbers bare, everything else as
/// Go's JSON.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Number(number) => match integer(number) {
            Some(whole) => whole.to_string(),
            None => go_float(number.as_f64().unwrap_or_default()),
        },
        _ => go_json(value),
    }
}

/// Returns the number if Go would hold it as an integer: beyond an `int64` it would be a float.
pub(crate) fn integer(number: &serde_json::Number) -> Option<i64> {
    number.as_i64()
}

/// Quotes a text as Go's `%q` does.
pub(crate) fn go_quote(text: &str) -> String {
    use fmt::Write as _;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            c if c.is_ascii_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Renders a float as Go's `%v` does: the shortest digits, with an exponent if it is very large or
/// very small.
pub(crate) fn go_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let power: i32 = exponent.parse().unwrap_or_default();
    if float == 0.0 || (-4..21).contains(&power) {
        return float.to_string();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

/// Renders a value as Go's `json.Marshal` does: sorted keys, and `<`, `>` and `&` escaped.
pub(crate) fn go_json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match (integer(number), number.as_u64()) {
            (Some(whole), _) => out.push_str(&whole.to_string()),
            (None, Some(large)) => out.push_str(&large.to_string()),
            (None, None) => out.push_str(&json_float(number.as_f64().unwrap_or_default())),
        },
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (index, (key, field)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(field, out);
            }
            out.push('}');
        }
    }
}

/// Renders a float as Go's JSON does. It uses an exponent later than `%v`, and without a leading
/// zero.
fn json_float(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        return if size < 1.0 { text } else { text.replace('e', "e+") };
    }
    float.to_string()
}

fn write_json_string(text: &str, out: &mut String) {
    use fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_read_as_the_real_server_writes_them() {
        let cases = [
            (
                FieldError::invalid(
                    "metadata.resourceVersion",
                    &json!(0),
                    "must be specified for an update",
                ),
                "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
            ),
            (
                FieldError::not_supported("spec.color", &json!("pink"), &["red", "green", "blue"]),
                r#"spec.color: Unsupported value: "pink": supported values: "red", "green", "blue""#,
            ),
            (
                FieldError::not_supported("dryRun", &json!(["Some"]), &["All"]),
                r#"dryRun: Unsupported value: ["Some"]: supported values: "All""#,
            ),
            (
                FieldError::too_long("fieldManager", 128),
                "fieldManager: Too long: may not be more than 128 bytes",
            ),
            (
                FieldError::required("fieldManager", "is required for apply patch"),
                "fieldManager: Required value: is required for apply patch",
            ),
            (FieldError::required("spec.size", ""), "spec.size: Required value"),
            (
                FieldError::forbidden(
                    "sendInitialEvents",
                    "sendInitialEvents is forbidden for list",
                ),
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                FieldError::type_invalid(
                    "spec.size",
                    &json!("string"),
                    r#"spec.size in body must be of type integer: "string""#,
                ),
                r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
            ),
            (
                FieldError::invalid(
                    "spec.template.metadata.labels",
                    &Value::Null,
                    "`selector` does not match template `labels`",
                ),
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
            ),
            (
                FieldError::too_many("spec.list", 3, 2),
                "spec.list: Too many: 3: must have at most 2 items",
            ),
            (
                FieldError::duplicate("spec.list[1]", &json!({"name": "a"})),
                r#"spec.list[1]: Duplicate value: {"name":"a"}"#,
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn several_errors_are_in_brackets_and_deduplicated() {
        let one = FieldError::required("a", "");
        let two = FieldError::required("b", "");
        assert_eq!(join(std::slice::from_ref(&one)), "a: Required value");
        assert_eq!(join(&[one.clone(), two, one]), "[a: Required value, b: Required value]");
    }

    #[test]
    fn values_are_written_as_go_writes_them() {
        for (value, text) in [
            (json!(1.5), "1.5"),
            (json!(1.0), "1"),
            (json!(1e21), "1e+21"),
            (json!(0.00001), "1e-05"),
            (json!(0.0), "0"),
            (json!(true), "true"),
            (json!("a\"b\\c\n\u{1}ü"), "\"a\\\"b\\\\c\\n\\x01ü\""),
            (
                json!({"b": "<x>", "a": [1, 2.5, null, 1e22]}),
                r#"{"a":[1,2.5,null,1e+22],"b":"\u003cx\u003e"}"#,
            ),
        ] {
            assert_eq!(go_value(&value), text);
        }
    }
}
