//! Errors about fields, in the API server's words.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::convert::qualified;
use crate::review::{Status, StatusCause, StatusDetails};

/// The path of a field, as the API server writes it: `spec.ports[0].name`.
///
/// ```
/// use windlass_webhook::FieldPath;
///
/// let ports = FieldPath::new("spec").child("ports");
/// assert_eq!(ports.index(0).child("name").to_string(), "spec.ports[0].name");
/// let labels = FieldPath::new("metadata").child("labels");
/// assert_eq!(labels.key("app").to_string(), "metadata.labels[app]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(String);

/// One thing that is wrong with one field.
///
/// ```
/// use windlass_webhook::{FieldError, FieldPath};
///
/// let replicas = FieldPath::new("spec").child("replicas");
/// let error = FieldError::invalid(&replicas, 3, "must be even");
/// assert_eq!(error.to_string(), "spec.replicas: Invalid value: 3: must be even");
/// ```
#[derive(Clone, PartialEq)]
pub struct FieldError {
    kind: FieldErrorKind,
    path: FieldPath,
    value: Option<Value>,
    detail: String,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldErrorKind {
    /// It refers to something that is not there.
    NotFound,
    /// It is not there.
    Required,
    /// Another one has the same value.
    Duplicate,
    /// Its value is invalid.
    Invalid,
    /// Its value is not one of those that there are.
    NotSupported,
    /// It may not be set, or not be changed.
    Forbidden,
    /// It is too long.
    TooLong,
    /// It has too many elements.
    TooMany,
    /// It could not be checked.
    Internal,
    /// It has the wrong type.
    TypeInvalid,
}

impl FieldPath {
    /// A field of the object itself: `spec`.
    pub fn new(field: impl Into<String>) -> Self {
        Self(field.into())
    }

    /// A field of this one.
    #[must_use]
    pub fn child(&self, field: impl fmt::Display) -> Self {
        Self(format!("{}.{field}", self.0))
    }

    /// An element of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The value of a key of this map.
    #[must_use]
    pub fn key(&self, key: impl fmt::Display) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl FieldError {
    /// The field must be there.
    pub fn required(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, None, detail)
    }

    /// The value is invalid. The person who sent it sees it again in the message.
    pub fn invalid(path: &FieldPath, value: impl Serialize, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, Some(json(value)), detail)
    }

    /// The value has the wrong type.
    pub fn type_invalid(
        path: &FieldPath,
        value: impl Serialize,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, Some(json(value)), detail)
    }

    /// The field may not be set, or not be changed.
    pub fn forbidden(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, None, detail)
    }

    /// The value is not one of the supported ones, which the message lists in this order.
    pub fn not_supported(
        path: &FieldPath,
        value: impl Serialize,
        supported: impl IntoIterator<Item: fmt::Display>,
    ) -> Self {
        let supported: Vec<String> =
            supported.into_iter().map(|value| quoted(&value.to_string())).collect();
        let detail = if supported.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", supported.join(", "))
        };
        Self::new(FieldErrorKind::NotSupported, path, Some(json(value)), detail)
    }

    /// The value refers to something that is not there.
    pub fn not_found(path: &FieldPath, value: impl Serialize) -> Self {
        Self::new(FieldErrorKind::NotFound, path, Some(json(value)), "")
    }

    /// Another field or element has the same value.
    pub fn duplicate(path: &FieldPath, value: impl Serialize) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, Some(json(value)), "")
    }

    /// The value has more than `bytes_max` bytes.
    pub fn too_long(path: &FieldPath, bytes_max: usize) -> Self {
        let unit = if bytes_max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {bytes_max} {unit}");
        Self::new(FieldErrorKind::TooLong, path, None, detail)
    }

    /// The list has `count` elements, more than `count_max`.
    pub fn too_many(path: &FieldPath, count: usize, count_max: usize) -> Self {
        let unit = if count_max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {count_max} {unit}");
        Self::new(FieldErrorKind::TooMany, path, Some(Value::from(count)), detail)
    }

    /// The field could not be checked.
    pub fn internal(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Internal, path, None, detail)
    }

    /// What is wrong.
    pub fn kind(&self) -> FieldErrorKind {
        self.kind
    }

    /// Where.
    pub fn path(&self) -> &FieldPath {
        &self.path
    }

    fn new(
        kind: FieldErrorKind,
        path: &FieldPath,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, path: path.clone(), value, detail: detail.into() }
    }

    /// The message without the path.
    fn body(&self) -> String {
        let mut body = self.kind.words().to_owned();
        if let Some(value) = &self.value {
            body = format!("{body}: {}", shown(value));
        }
        if !self.detail.is_empty() {
            body = format!("{body}: {}", self.detail);
        }
        body
    }
}

impl FieldErrorKind {
    /// As it stands in messages.
    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// As it stands in the causes of a status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// Without the value, which is content of an object.
impl fmt::Debug for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldError")
            .field("kind", &self.kind)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The status with which the API server itself would refuse the object.
pub(crate) fn status(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Status {
    let mut messages: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let message = error.to_string();
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    let mut message = format!("{} {} is invalid", qualified(kind, group), quoted(name));
    match messages.as_slice() {
        [] => {}
        [one] => message = format!("{message}: {one}"),
        many => message = format!("{message}: [{}]", many.join(", ")),
    }
    let causes = errors.iter().map(|error| StatusCause {
        reason: error.kind.reason().to_owned(),
        message: error.body(),
        field: error.path.to_string(),
    });
    let details = StatusDetails {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        causes: causes.collect(),
    };
    Status { details: Some(details), ..Status::failure(422, message) }
}

/// A value that cannot be JSON is shown as null: it cannot come from an object.
fn json(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// A string in quotation marks, with the escapes of Go's `%q`.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        let escape = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{b}' => "\\v",
            other if !other.is_control() => {
                quoted.push(other);
                continue;
            }
            other => {
                let code = u32::from(other);
                let escape =
                    if code < 0x80 { format!("\\x{code:02x}") } else { format!("\\u{code:04x}") };
                quoted.push_str(&escape);
                continue;
            }
        };
        quoted.push_str(escape);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> FieldPath {
        FieldPath::new("spec").child("replicas")
    }

    #[test]
    fn messages_are_those_of_the_api_server() {
        let errors = [
            (FieldError::invalid(&path(), "a\n\"b\"", "no"), r#"Invalid value: "a\n\"b\"": no"#),
            (FieldError::invalid(&path(), (), "no"), "Invalid value: null: no"),
            (FieldError::required(&path(), ""), "Required value"),
            (FieldError::required(&path(), "give one"), "Required value: give one"),
            (FieldError::forbidden(&path(), "is immutable"), "Forbidden: is immutable"),
            (FieldError::duplicate(&path(), "a"), r#"Duplicate value: "a""#),
            (FieldError::not_found(&path(), "a"), r#"Not found: "a""#),
            (FieldError::too_many(&path(), 5, 1), "Too many: 5: must have at most 1 item"),
            (FieldError::too_long(&path(), 63), "Too long: may not be more than 63 bytes"),
            (
                FieldError::not_supported(&path(), "x", ["a", "b"]),
                r#"Unsupported value: "x": supported values: "a", "b""#,
            ),
        ];
        for (error, body) in errors {
            assert_eq!(error.to_string(), format!("spec.replicas: {body}"));
        }
    }

    #[test]
    fn several_errors_are_listed_once_each_in_brackets() {
        let error = FieldError::required(&path(), "");
        let other = FieldError::invalid(&path(), 3, "must be even");
        let status = status("example.com", "Website", "x", &[error.clone(), error, other]);
        assert_eq!(
            status.message,
            "Website.example.com \"x\" is invalid: [spec.replicas: Required value, \
             spec.replicas: Invalid value: 3: must be even]"
        );
        assert_eq!((status.code, &*status.reason), (422, "Invalid"));
        let causes = status.details.expect("a refused object must have details").causes;
        assert_eq!(causes.len(), 3);
        assert_eq!(causes[2].reason, "FieldValueInvalid");
        assert_eq!(causes[2].message, "Invalid value: 3: must be even");
        assert_eq!(causes[2].field, "spec.replicas");
    }

    #[test]
    fn debug_output_shows_no_value() {
        let error = FieldError::invalid(&path(), "hunter2", "hunter2 is weak");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}
