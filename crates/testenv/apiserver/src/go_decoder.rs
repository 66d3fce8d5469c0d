//! Error texts of Go's JSON decoder and scheme, which the real server quotes for bodies, patches
//! and answers of webhooks.

use serde_json::Value;

use crate::json;

/// Returns the error of Go's scheme for an unknown kind.
pub(crate) fn not_registered(kind: &str, version: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )
}

/// Returns the name that Go's decoder has for the JSON type of a value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the text of Go's decoder for a syntax error, as far as the error of `serde_json`
/// identifies it.
pub(crate) fn go_syntax(error: &serde_json::Error, body: &[u8]) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    if error.to_string().starts_with("recursion limit") {
        return json::too_deep(json::depth_max());
    }
    let line = body.split(|&byte| byte == b'\n').nth(error.line().saturating_sub(1));
    let Some(line) = line else { return error.to_string() };
    let column = error.column().saturating_sub(1);
    let Some(&byte) = line.get(column) else { return error.to_string() };
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        0x20..=0x7e => char::from(byte).to_string(),
        _ => format!("\\u{:04x}", u32::from(char::from(byte))),
    };
    let context = error.to_string();
    let place = if context.starts_with("trailing characters") {
        "after top-level value".to_owned()
    } else if context.starts_with("key must be a string") {
        "looking for beginning of object key string".to_owned()
    } else if context.starts_with("expected `,` or `}`") {
        "after object key:value pair".to_owned()
    } else if context.starts_with("expected `,` or `]`") {
        "after array element".to_owned()
    } else if context.starts_with("expected `:`") {
        "after object key".to_owned()
    } else {
        literal(line, column).unwrap_or_else(|| "looking for beginning of value".to_owned())
    };
    format!("invalid character '{shown}' {place}")
}

/// Returns the text for a literal such as `null` that is misspelt at this column.
fn literal(line: &[u8], column: usize) -> Option<String> {
    ["null", "true", "false"].into_iter().find_map(|literal| {
        let known = (1..literal.len()).rev().find(|&known| {
            column >= known
                && line.get(column - known..column) == Some(&literal.as_bytes()[..known])
        })?;
        let expected = char::from(literal.as_bytes()[known]);
        Some(format!("in literal {literal} (expecting '{expected}')"))
    })
}
