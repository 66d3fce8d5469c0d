//! Reading the values of an object, and the checks that several kinds share.

use serde_json::Value;

use crate::field_error::FieldError;

/// Returns a string field that is not empty.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Checks that a number is not negative, if it is present.
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
