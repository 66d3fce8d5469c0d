//! What a handler decides.

use std::collections::BTreeMap;
use std::fmt;

use crate::field::{self, FieldError};
use crate::review::Status;
use crate::warnings;
use windlass_serve::LogLimit;

/// Whether a request may go on, and what is said about it.
///
/// ```
/// use windlass_webhook::{FieldError, FieldPath, Verdict};
///
/// let spec = FieldPath::new("spec");
/// let _ = Verdict::allow().warn("spec.theme is deprecated: use spec.style");
/// let _ = Verdict::deny("websites are closed on Sundays").audit("day", "Sunday");
/// let _ = Verdict::invalid([FieldError::required(&spec.child("host"), "")]);
/// // An empty list of errors allows.
/// let errors: Vec<FieldError> = Vec::new();
/// assert!(Verdict::from(errors).is_allowed());
/// ```
#[derive(Clone, PartialEq)]
#[must_use = "it decides nothing unless the handler returns it"]
pub struct Verdict {
    decision: Decision,
    warnings: Vec<String>,
    audit: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq)]
enum Decision {
    Allow,
    Deny(Status),
    Invalid(Vec<FieldError>),
    Undecided(String),
}

impl Verdict {
    /// The request may go on.
    pub fn allow() -> Self {
        Self::new(Decision::Allow)
    }

    /// The request is refused with 403 `Forbidden` and a message.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::deny_with(403, message)
    }

    /// The request is refused with a code, the reason that belongs to it (409 is `Conflict`), and a
    /// message. The API server replaces codes below 400 by 400.
    pub fn deny_with(code: u16, message: impl Into<String>) -> Self {
        Self::new(Decision::Deny(Status::failure(code, message)))
    }

    /// The request is refused with a status of your own.
    pub fn deny_as(status: Status) -> Self {
        Self::new(Decision::Deny(status))
    }

    /// The object is invalid: 422, with the message and the causes that the API server itself would
    /// give. It is refused even if the list is empty; `Verdict::from(errors)` allows then.
    pub fn invalid(errors: impl IntoIterator<Item = FieldError>) -> Self {
        Self::new(Decision::Invalid(errors.into_iter().collect()))
    }

    /// The handler could not decide, because something that it needs did not work. The webhook's
    /// [failure policy](crate::Hook::failure_policy) decides: the request is refused with 500 and
    /// the message, or goes on with a warning.
    pub fn undecided(message: impl Into<String>) -> Self {
        Self::new(Decision::Undecided(message.into()))
    }

    /// Adds a warning, which kubectl prints. It is sent with denials too.
    ///
    /// Warnings have the API server's bounds: beyond 4,096 characters in total, each is cut to 256,
    /// and the rest is dropped. Control characters, for which the server would drop the warning,
    /// become spaces.
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Adds an annotation to the event in the audit log. The server puts the webhook's name before
    /// the key. A key has at most 63 letters, digits, `-`, `_` and `.`; others are dropped and
    /// logged, because the server would not take them.
    pub fn audit(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.audit.insert(key.into(), value.into());
        self
    }

    /// Whether the request may go on.
    pub fn is_allowed(&self) -> bool {
        matches!(self.decision, Decision::Allow)
    }

    fn new(decision: Decision) -> Self {
        Self { decision, warnings: Vec::new(), audit: BTreeMap::new() }
    }

    /// Why the handler could not decide; `None` if it did.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.decision {
            Decision::Undecided(message) => Some(message),
            Decision::Allow | Decision::Deny(_) | Decision::Invalid(_) => None,
        }
    }

    /// Why the request is refused, about an object; `None` if it is not.
    pub(crate) fn refusal(&self, group: &str, kind: &str, name: &str) -> Option<Status> {
        match &self.decision {
            Decision::Allow | Decision::Undecided(_) => None,
            Decision::Deny(status) => Some(status.clone()),
            Decision::Invalid(errors) => Some(field::status(group, kind, name, errors)),
        }
    }

    /// The warnings and audit annotations that the server would take.
    pub(crate) fn into_remarks(self, log: &LogLimit) -> (Vec<String>, BTreeMap<String, String>) {
        let mut audit = self.audit;
        audit.retain(|key, _| {
            let is_valid = is_audit_key(key);
            if !is_valid && let Some(line) = log.line("audit annotation") {
                let left_out = line.left_out;
                tracing::warn!(key, left_out, "an audit annotation is dropped: its key is invalid");
            }
            is_valid
        });
        (warnings::bounded(self.warnings), audit)
    }
}

/// An empty list allows.
impl From<Vec<FieldError>> for Verdict {
    fn from(errors: Vec<FieldError>) -> Self {
        if errors.is_empty() { Self::allow() } else { Self::invalid(errors) }
    }
}

/// No error at all allows.
impl FromIterator<FieldError> for Verdict {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        Self::from(errors.into_iter().collect::<Vec<_>>())
    }
}

/// Shows the decision, but no message: it may have content of an object.
impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = match &self.decision {
            Decision::Allow => "allow".to_owned(),
            Decision::Deny(status) => format!("deny with {}", status.code),
            Decision::Invalid(errors) => format!("invalid: {errors:?}"),
            Decision::Undecided(_) => "undecided".to_owned(),
        };
        f.debug_struct("Verdict")
            .field("decision", &decision)
            .field("warnings", &self.warnings.len())
            .finish_non_exhaustive()
    }
}

/// Whether a key is what may stand after the `/` of a qualified name.
fn is_audit_key(key: &str) -> bool {
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    key.len() <= 63
        && is_edge(key.bytes().next())
        && is_edge(key.bytes().next_back())
        && key.bytes().all(is_inner)
}
