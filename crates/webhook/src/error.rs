//! What can be wrong with a set of webhooks, before any of them is served.

/// Why webhooks cannot be served, or their configuration not be made. None of them is retried: the
/// code must change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two webhooks have the same path.
    #[error(
        "two webhooks are served at {path}: give one of them another path with `Hook::at`, or do \
         the work of both in one handler"
    )]
    DuplicatePath {
        /// The path.
        path: String,
    },
    /// The path is not one.
    #[error(
        "the path {path:?} is invalid: it begins with `/` and has letters, digits, `-`, `_`, `.` \
         and `/`"
    )]
    InvalidPath {
        /// The path.
        path: String,
    },
    /// Two conversions are for the same kind.
    #[error("there are two conversions of {kind}.{group}: add all versions to one")]
    DuplicateConversion {
        /// The group of the kind.
        group: String,
        /// The kind.
        kind: String,
    },
    /// The server would refuse the configuration.
    #[error("the configuration of the webhook {webhook} is invalid: {reason}")]
    InvalidConfiguration {
        /// The webhook's name.
        webhook: String,
        /// What is wrong.
        reason: String,
    },
    /// The server would accept the configuration, and the cluster would suffer.
    #[error("the configuration of the webhook {webhook} is dangerous: {reason}")]
    Dangerous {
        /// The webhook's name.
        webhook: String,
        /// What would happen, and what to do.
        reason: String,
    },
}
