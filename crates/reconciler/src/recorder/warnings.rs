//! What is wrong when events are dropped or cannot be written, said once.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::Status;

use super::correlation::{Excess, QUEUE_MAX};
use super::spam::{BURST, REFILL};

/// So many troubles of one kind are told apart; after that the log has heard enough of it.
const SAID_MAX: usize = 100;

/// Why an event was dropped or given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There are too many.
    Excess(Excess),
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
    /// By kind of trouble, what it was about.
    said: BTreeMap<u8, BTreeSet<String>>,
}

impl Warnings {
    /// Whether it is to be said: the first time for its kind, and for what it is about, which is a
    /// namespace or an object.
    pub(super) fn is_news(&mut self, trouble: &Trouble, about: &str) -> bool {
        // A server that went away and came back may go away again, which the caller tells apart.
        if *trouble == Trouble::Unanswered {
            return true;
        }
        // What waits is about all objects.
        let about = if *trouble == Trouble::Excess(Excess::Queued) { "" } else { about };
        let said = self.said.entry(trouble.number()).or_default();
        said.len() < SAID_MAX && said.insert(about.to_owned())
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
            Self::Excess(Excess::OfObject) => 5,
            Self::Excess(Excess::Queued) => 6,
        }
    }

    /// One line: what is wrong, and what to do. It is about an object if there are too many events,
    /// and else about a namespace.
    pub(super) fn warn(&self, controller: &str, about: &str) {
        let namespace = about;
        match self {
            Self::Excess(Excess::OfObject) => tracing::warn!(
                controller,
                object = about,
                "events about this object are dropped: it had {BURST} new ones at once, and may \
                 have one more every {} minutes; record fewer, or record what repeats with the \
                 same note, so that it becomes a series",
                REFILL.as_secs() / 60
            ),
            Self::Excess(Excess::Queued) => tracing::warn!(
                controller,
                object = about,
                "events are dropped, the first one about this object: {QUEUE_MAX} others wait to \
                 be written; record fewer, or look why the API server takes them slowly"
            ),
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
