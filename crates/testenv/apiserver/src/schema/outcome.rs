//! What a look at a value found: the errors, and how much fitted.
//!
//! The real server's validator counts what fitted, and of several alternatives that all fail it
//! reports the errors of the one that fitted best; the count is kept the same way so that the same
//! alternative is chosen.

use serde_json::Value;

use crate::field_error::{FieldError, NO_FIELD, go_value};

/// The errors of a look at a value, and how much fitted.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    errors: Vec<Found>,
    pub(super) fitted: u64,
}

/// An error, with the text by which the validator tells errors apart.
#[derive(Debug)]
struct Found {
    text: String,
    error: FieldError,
}

/// The place of a value, as errors name it.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    /// What stands before the path in the field of an error, but not in its text; empty for
    /// nothing.
    pub(super) base: &'a str,
    pub(super) path: &'a str,
}

impl At<'_> {
    /// The field of an error at this place.
    fn field(&self) -> String {
        let path = self.path.strip_prefix('.').unwrap_or(self.path);
        match (self.base, path) {
            ("", "") => NO_FIELD.to_owned(),
            ("", path) => path.to_owned(),
            (base, "") => base.to_owned(),
            (base, path) => format!("{base}.{path}"),
        }
    }

    /// The field of an error that knows no path.
    fn base_field(&self) -> String {
        if self.base.is_empty() { NO_FIELD.to_owned() } else { self.base.to_owned() }
    }

    fn text(&self, said: &str) -> String {
        format!("{} in body {said}", self.path)
    }
}

impl Outcome {
    /// Nothing wrong, one thing fitted.
    pub(super) fn fits() -> Self {
        Self { errors: Vec::new(), fitted: 1 }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.errors.into_iter().map(|found| found.error).collect()
    }

    /// Forgets the errors: the value was there before and is not held against the update.
    pub(super) fn forgive(&mut self) {
        self.errors.clear();
    }

    /// Takes over what another look found; the same text is kept once.
    pub(super) fn merge(&mut self, other: Self) {
        self.fitted += other.fitted;
        for found in other.errors {
            self.push(found.text, found.error);
        }
    }

    /// `said` completes the sentence "… in body …".
    pub(super) fn invalid(&mut self, at: At<'_>, value: &Value, said: &str) {
        let text = at.text(said);
        let error = FieldError::invalid(at.field(), value, &text);
        self.push(text, error);
    }

    pub(super) fn wrong_type(&mut self, at: At<'_>, expected: &str, found: &str) {
        let found = Value::from(found);
        let text = at.text(&format!("must be of type {expected}: {}", go_value(&found)));
        let error = FieldError::type_invalid(at.field(), &found, &text);
        self.push(text, error);
    }

    /// An error whose text is not about the body, with a value that is not the one that was looked
    /// at.
    pub(super) fn invalid_text(&mut self, at: At<'_>, value: &Value, text: String) {
        let error = FieldError::invalid(at.field(), value, &text);
        self.push(text, error);
    }

    /// An error that knows its place only in its text.
    pub(super) fn without_field(&mut self, at: At<'_>, text: String) {
        let error = FieldError::invalid_str(at.base_field(), "", &text);
        self.push(text, error);
    }

    pub(super) fn required(&mut self, at: At<'_>) {
        self.push(at.text("is required"), FieldError::required(at.field(), ""));
    }

    pub(super) fn too_long(&mut self, at: At<'_>, max: i64) {
        let text = at.text(&format!("should be at most {max} chars long"));
        self.push(text, FieldError::too_long(at.field(), max));
    }

    /// `what` is "items" or "properties".
    pub(super) fn too_many(&mut self, at: At<'_>, actual: usize, max: i64, what: &str) {
        let text = at.text(&format!("should have at most {max} {what}"));
        self.push(text, FieldError::too_many(at.field(), actual, max));
    }

    pub(super) fn not_supported(&mut self, at: At<'_>, value: &Value, supported: &[String]) {
        let text = at.text(&format!("should be one of [{}]", supported.join(" ")));
        self.push(text, FieldError::not_supported(at.field(), value, supported));
    }

    fn push(&mut self, text: String, error: FieldError) {
        if self.errors.iter().all(|found| found.text != text) {
            self.errors.push(Found { text, error });
        }
    }
}
