//! The result of validating a value: the errors, and a count of what matched.
//!
//! If all alternatives of a schema fail, the real server's validator reports the errors of the one
//! that matched best. The matches are counted in the same way, so that the same alternative is
//! chosen.

use serde_json::Value;

use crate::field_error::{FieldError, NO_FIELD, go_value};

/// The errors of validating a value, and how much matched.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    errors: Vec<Found>,
    pub(super) match_count: u64,
}

/// An error, with the text that the validator compares errors by.
#[derive(Debug)]
struct Found {
    text: String,
    error: FieldError,
}

/// The position of a value, for errors.
#[derive(Clone, Copy)]
pub(super) struct Position<'a> {
    /// The prefix of the path in the field of an error, but not in its text. May be empty.
    pub(super) base: &'a str,
    pub(super) path: &'a str,
}

impl Position<'_> {
    /// Returns the field of an error at this position.
    fn field(&self) -> String {
        let path = self.path.strip_prefix('.').unwrap_or(self.path);
        match (self.base, path) {
            ("", "") => NO_FIELD.to_owned(),
            ("", path) => path.to_owned(),
            (base, "") => base.to_owned(),
            (base, path) => format!("{base}.{path}"),
        }
    }

    /// Returns the field of an error that has no path.
    fn base_field(&self) -> String {
        if self.base.is_empty() { NO_FIELD.to_owned() } else { self.base.to_owned() }
    }

    fn text(&self, message: &str) -> String {
        format!("{} in body {message}", self.path)
    }
}

impl Outcome {
    /// Returns a valid outcome with one match.
    pub(super) fn one_match() -> Self {
        Self { errors: Vec::new(), match_count: 1 }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.errors.into_iter().map(|found| found.error).collect()
    }

    /// Drops the errors, because the value has not changed.
    pub(super) fn clear_errors(&mut self) {
        self.errors.clear();
    }

    /// Merges another outcome. Errors with the same text are kept once.
    pub(super) fn merge(&mut self, other: Self) {
        self.match_count += other.match_count;
        for found in other.errors {
            self.push(found.text, found.error);
        }
    }

    /// Adds an error with the text "PATH in body MESSAGE".
    pub(super) fn invalid(&mut self, at: Position<'_>, value: &Value, message: &str) {
        let text = at.text(message);
        let error = FieldError::invalid(at.field(), value, &text);
        self.push(text, error);
    }

    pub(super) fn wrong_type(&mut self, at: Position<'_>, expected: &str, found: &str) {
        let found = Value::from(found);
        let text = at.text(&format!("must be of type {expected}: {}", go_value(&found)));
        let error = FieldError::type_invalid(at.field(), &found, &text);
        self.push(text, error);
    }

    /// Adds an error with a text of its own, and with a value that may not be the validated one.
    pub(super) fn invalid_text(&mut self, at: Position<'_>, value: &Value, text: String) {
        let error = FieldError::invalid(at.field(), value, &text);
        self.push(text, error);
    }

    /// Adds an error that only names its position in the text.
    pub(super) fn without_field(&mut self, at: Position<'_>, text: String) {
        let error = FieldError::invalid_str(at.base_field(), "", &text);
        self.push(text, error);
    }

    pub(super) fn required(&mut self, at: Position<'_>) {
        self.push(at.text("is required"), FieldError::required(at.field(), ""));
    }

    pub(super) fn too_long(&mut self, at: Position<'_>, max: i64) {
        let text = at.text(&format!("should be at most {max} chars long"));
        self.push(text, FieldError::too_long(at.field(), max));
    }

    /// Adds an error. `what` is "items" or "properties".
    pub(super) fn too_many(&mut self, at: Position<'_>, actual: usize, max: i64, what: &str) {
        let text = at.text(&format!("should have at most {max} {what}"));
        self.push(text, FieldError::too_many(at.field(), actual, max));
    }

    pub(super) fn not_supported(&mut self, at: Position<'_>, value: &Value, supported: &[String]) {
        let text = at.text(&format!("should be one of [{}]", supported.join(" ")));
        self.push(text, FieldError::not_supported(at.field(), value, supported));
    }

    fn push(&mut self, text: String, error: FieldError) {
        if self.errors.iter().all(|found| found.text != text) {
            self.errors.push(Found { text, error });
        }
    }
}
