//! Errors that end an evaluation.

/// Why an evaluation returned no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvalError {
    /// The evaluation failed with this error.
    Error(String),
    /// The cost limit is exceeded.
    Cost,
}

impl EvalError {
    pub(super) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// Returns the error for arguments of types that no overload accepts.
    pub(super) fn no_overload() -> Self {
        Self::error("no such overload")
    }
}
