//! Reading the values of an object, and what several kinds check of them.

use serde_json::Value;

use crate::field_error::FieldError;

/// A field that is a text and not empty.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// A number that must not be negative, if it is there.
pub(super) fn not_negative(value: &Value, field: &str, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = value.get(field)
        && number.as_i64().is_some_and(|number| number < 0)
    {
        errors.push(FieldError::invalid(
            format!("{path}.{field}"),
            number,
            "must be greater than or equal to 0",
        ));
    }
}
