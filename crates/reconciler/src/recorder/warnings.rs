//! What is wrong when events cannot be written, said once.

use std::collections::BTreeSet;

use kube::core::Status;

/// So many different troubles are told apart; after that the log has heard enough.
const SAID_MAX: usize = 100;

/// Why an event was given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The account may not write events.
    Forbidden { message: String },
    /// The namespace is not there, or is going.
    NoNamespace,
    /// The server does not like the event.
    Refused { code: u16, reason: String },
    /// The server did not answer, or had trouble, however often it was tried.
    Unanswered,
    /// The request could not be made.
    NotSent,
}

/// What was said already.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    said: BTreeSet<(u8, String)>,
}

impl Warnings {
    /// Whether it is to be said: the first time for its kind and namespace.
    pub(super) fn is_news(&mut self, trouble: &Trouble, namespace: &str) -> bool {
        // A server that went away and came back may go away again, which the caller tells apart.
        *trouble == Trouble::Unanswered
            || self.said.len() < SAID_MAX
                && self.said.insert((trouble.number(), namespace.to_owned()))
    }
}

impl Trouble {
    /// Why the server refuses an event for good.
    pub(super) fn of(status: &Status) -> Self {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let is_ending =
            causes.map(|cause| &*cause.reason).any(|cause| cause == "NamespaceTerminating");
        match status.code {
            403 if !is_ending => Self::Forbidden { message: status.message.clone() },
            403 | 404 => Self::NoNamespace,
            code => Self::Refused { code, reason: status.reason.clone() },
        }
    }

    fn number(&self) -> u8 {
        match self {
            Self::Forbidden { .. } => 0,
            Self::NoNamespace => 1,
            Self::Refused { .. } => 2,
            Self::Unanswered => 3,
            Self::NotSent => 4,
        }
    }

    /// One line: what is wrong, and what to do.
    pub(super) fn warn(&self, controller: &str, namespace: &str) {
        match self {
            Self::Forbidden { message } => tracing::warn!(
                controller,
                namespace,
                "events cannot be recorded: {message}; give the controller's account the verbs create and patch on \
                 events in the API group events.k8s.io"
            ),
            Self::NoNamespace => tracing::warn!(
                controller,
                namespace,
                "events cannot be recorded: their namespace is not there, or is being deleted; if it should be there, \
                 create it"
            ),
            Self::Refused { code, reason } => tracing::warn!(
                controller,
                namespace,
                code,
                "an event was refused by the server ({reason}) and is lost; look at its reason and its object reference"
            ),
            Self::Unanswered => tracing::warn!(
                controller,
                namespace,
                "an event could not be written and is lost, as those that follow until the server answers again; look \
                 whether the API server is well and can be reached"
            ),
            Self::NotSent => tracing::warn!(
                controller,
                namespace,
                "an event could not be sent and is lost; look at the client's configuration"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> Trouble {
        Trouble::Forbidden { message: "no".to_owned() }
    }

    #[test]
    fn trouble_is_said_once_for_its_kind_and_namespace() {
        let mut warnings = Warnings::default();
        assert!(warnings.is_news(&forbidden(), "a"));
        assert!(!warnings.is_news(&forbidden(), "a"));
        assert!(warnings.is_news(&forbidden(), "b"));
        assert!(warnings.is_news(&Trouble::NoNamespace, "a"));
    }

    #[test]
    fn log_is_not_flooded_by_many_namespaces() {
        let mut warnings = Warnings::default();
        let said = (0..1000).filter(|n| warnings.is_news(&Trouble::NoNamespace, &n.to_string()));
        assert_eq!(said.count(), SAID_MAX);
    }
}
