//! Why events are dropped or cannot be written, logged once.

use std::collections::{BTreeSet, HashMap};
use std::mem::{Discriminant, discriminant};

use kube::core::Status;

use super::spam::{BURST, REFILL};
use crate::guard::PANIC_ADVICE;

/// Events that wait to be written. As in client-go.
pub(super) const QUEUE_MAX: usize = 1000;

/// How many objects or namespaces are logged for each reason of a loss. Then the log has enough.
const LOGGED_MAX: usize = 100;

/// Why an event is lost. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum LossReason {
    #[error(
        "events about this object are dropped: it had {} new ones at once, and may have one more \
         every {} minutes; record fewer, or record what repeats with the same note, so that it \
         becomes a series",
        BURST, REFILL.as_secs() / 60
    )]
    TooManyOfObject,
    #[error(
        "events are dropped, the first one about this object: {} others wait to be \
         written; record fewer, or find out why the API server accepts them slowly",
        QUEUE_MAX
    )]
    QueueFull,
    #[error(
        "events cannot be recorded: {message}; give the controller's account the verbs create and \
         patch on events in the API group events.k8s.io"
    )]
    Forbidden { message: String },
    #[error(
        "events cannot be recorded: their namespace does not exist, or is being deleted; if it \
         should exist, create it"
    )]
    NoNamespace,
    #[error(
        "the server refused an event ({code} {reason}), which is lost; check its reason and its \
         object reference"
    )]
    Refused { code: u16, reason: String },
    #[error(
        "an event could not be written and is lost, and so are the next ones until the server \
         answers again; check whether the API server is healthy and can be reached"
    )]
    Unanswered,
    #[error("an event could not be sent and is lost; check the configuration of the client")]
    NotSent,
    #[error("the client panicked as an event was written, which is lost; {PANIC_ADVICE}")]
    Panicked,
}

/// Which losses were logged already.
#[derive(Default)]
pub(super) struct Warnings {
    /// By reason, the objects or namespaces.
    logged: HashMap<Discriminant<LossReason>, BTreeSet<String>>,
}

impl Warnings {
    /// Whether this loss, about an object or a namespace, is not in the log yet. It is from now on.
    pub(super) fn note(&mut self, loss: &LossReason, about: &str) -> bool {
        let about = match loss {
            // The server may recover and fail again. The writer notices that.
            LossReason::Unanswered => return true,
            // It concerns all objects alike.
            LossReason::QueueFull => "",
            _ => about,
        };
        let logged = self.logged.entry(discriminant(loss)).or_default();
        logged.len() < LOGGED_MAX && logged.insert(about.to_owned())
    }
}

impl LossReason {
    /// Why the server refuses an event for good.
    pub(super) fn of(status: &Status) -> Self {
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        let is_terminating = causes.any(|cause| cause.reason == "NamespaceTerminating");
        match status.code {
            403 if !is_terminating => Self::Forbidden { message: status.message.clone() },
            403 | 404 => Self::NoNamespace,
            code => Self::Refused { code, reason: status.reason.clone() },
        }
    }

    pub(super) fn log(&self, controller: &str, about: &str) {
        if matches!(self, Self::TooManyOfObject | Self::QueueFull) {
            tracing::warn!(controller, object = about, "{self}");
        } else {
            tracing::warn!(controller, namespace = about, "{self}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> LossReason {
        LossReason::Forbidden { message: "no".to_owned() }
    }

    #[test]
    fn loss_is_said_once_for_its_kind_and_namespace() {
        let mut warnings = Warnings::default();
        assert!(warnings.note(&forbidden(), "a"));
        assert!(!warnings.note(&forbidden(), "a"));
        assert!(warnings.note(&forbidden(), "b"));
        assert!(warnings.note(&LossReason::NoNamespace, "a"));
    }

    #[test]
    fn log_is_not_flooded_by_many_namespaces() {
        let mut warnings = Warnings::default();
        let said = (0..1000).filter(|n| warnings.note(&LossReason::NoNamespace, &n.to_string()));
        assert_eq!(said.count(), LOGGED_MAX);
    }
}
