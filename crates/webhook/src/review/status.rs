//! The `Status` of an answer.

use serde::{Deserialize, Serialize};

/// `meta/v1.Status`, as far as webhooks answer with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs: `Forbidden`, `Invalid` and so on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What is wrong, field by field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP code that the client of the API server gets.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// Which object a [`Status`] is about, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The object's kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// One for each field that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
}

/// One field that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCause {
    /// `FieldValueInvalid` and so on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people, without the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(code: &u16) -> bool {
    *code == 0
}

impl Status {
    /// A failure with a code, the reason that belongs to it, and a message.
    pub fn failure(code: u16, message: impl Into<String>) -> Self {
        Self {
            status: "Failure".to_owned(),
            message: message.into(),
            reason: reason_of(code).to_owned(),
            details: None,
            code,
        }
    }

    pub(crate) fn success() -> Self {
        Self { status: "Success".to_owned(), ..Self::default() }
    }
}

/// The reason that the API server itself gives with a code.
fn reason_of(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}
