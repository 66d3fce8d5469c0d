//! How an evaluation ends without a value.

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The expression is wrong for these values.
    Error(String),
    /// It costs too much.
    Cost,
}

impl Stop {
    pub(super) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// Nothing is declared for values of these types.
    pub(super) fn no_overload() -> Self {
        Self::error("no such overload")
    }
}
