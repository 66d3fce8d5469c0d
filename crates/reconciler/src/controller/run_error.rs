//! Why a controller stops with an error.

use std::time::Duration;

use windlass_informer::{InformerFailure, InformerPhase, InformerStatus, Resource, SourceError};

use crate::plan::DryRunIgnored;

/// A controller cannot start, or cannot continue.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A cache did not sync in time.
    #[error(
        "the cache of {resource} is not complete after {} s{}",
        .after.as_secs(),
        .last_error.as_ref().map(explained).unwrap_or_default()
    )]
    NotSynced {
        /// What is watched.
        resource: Resource,
        /// How long the controller waited.
        after: Duration,
        /// The last error of the server.
        last_error: Option<SourceError>,
    },
    /// An informer has stopped, because its factory was shut down or it was stopped by hand.
    #[error("the informer of {resource} has stopped")]
    Stopped {
        /// What it watched.
        resource: Resource,
    },
    /// An informer broke, because a transform or an index panicked, or by a bug.
    #[error(transparent)]
    Broke(InformerFailure),
    /// The controller runs already, or its last run was dropped before it ended.
    #[error(
        "the controller runs already, or its last run was dropped before it ended: build another \
         one"
    )]
    AlreadyRuns,
    /// Runs were cancelled when the grace period was over, and go on nevertheless.
    #[error(
        "the runs of {keys} cannot be cancelled: each blocks its thread (by std::thread::sleep, a \
         blocking lock or call, a long computation); use tokio::task::spawn_blocking"
    )]
    NotCancelled {
        /// The keys, separated by commas.
        keys: String,
    },
    /// The controller has not said what it does in plan mode.
    #[error(
        "the controller has not said whether it changes something elsewhere than through its \
         context, which a plan could not keep it from: add .in_plan(InPlan::Run) to its builder if \
         it does not, or if it asks RunContext::is_plan before; or .in_plan(InPlan::Skip), to \
         leave it out"
    )]
    NotInPlan,
    /// A server has made a write of a plan.
    #[error(transparent)]
    DryRunIgnored(DryRunIgnored),
    /// A stream of keys panicked.
    #[error("a stream of keys panicked")]
    StreamPanicked,
}

impl RunError {
    pub(crate) fn not_synced(status: &InformerStatus, after: Duration) -> Self {
        let last_error = last_error(status).cloned();
        Self::NotSynced { resource: status.resource.clone(), after, last_error }
    }

    /// An informer has ended.
    pub(crate) fn ended(status: InformerStatus) -> Self {
        let resource = status.resource;
        match status.phase {
            InformerPhase::Failed(message) => Self::Broke(InformerFailure { resource, message }),
            _ => Self::Stopped { resource },
        }
    }

    /// Why a cache cannot sync; `None` if it only needs more time.
    pub(crate) fn trouble(status: &InformerStatus) -> Option<String> {
        let error = last_error(status)?;
        Some(format!("{} is complete{}", status.resource, explained(error)))
    }

    /// Why a cache is not complete, or how far it is.
    pub(crate) fn incomplete(status: &InformerStatus) -> String {
        let resource = &status.resource;
        match (&status.phase, last_error(status)) {
            (InformerPhase::Failed(message), _) => {
                format!("the informer of {resource} broke: {message}")
            }
            (InformerPhase::Stopped, _) => format!("the informer of {resource} has stopped"),
            (_, Some(error)) => {
                format!("the cache of {resource} is not complete{}", explained(error))
            }
            (_, None) => {
                let objects: u64 = status.feeds.iter().map(|feed| feed.list.objects).sum();
                format!("the cache of {resource} is being filled, {objects} objects so far")
            }
        }
    }
}

fn last_error(status: &InformerStatus) -> Option<&SourceError> {
    status.feeds.iter().find_map(|feed| feed.last_error.as_ref()).map(|(error, _)| error)
}

/// Whether the server was asked, and did not answer.
fn is_unreachable(error: &SourceError) -> bool {
    // The messages of `ConnectError`, with which no request is sent.
    let not_sent = ["no credentials", "the configuration cannot be used"];
    match error {
        SourceError::Transport(message) => !not_sent.iter().any(|text| message.contains(text)),
        error => matches!(error, SourceError::Silent(_)),
    }
}

/// The error, and what to do about it.
fn explained(error: &SourceError) -> String {
    let advice = if error.is_not_found() {
        "; is its CustomResourceDefinition installed?"
    } else if error.status().is_some_and(|status| status.code == 403) {
        "; give the controller's account the verbs list and watch on it"
    } else if error.status().is_some_and(|status| status.code == 401) {
        "; the credentials are not valid, or no longer: renew the user of the kubeconfig, or the \
         token or certificate that it names"
    } else if error.is_untrusted() {
        "; check certificate-authority, tls-server-name and the URL of the server in the kubeconfig"
    } else if is_unreachable(error) {
        "; check that the API server runs and can be reached from here"
    } else {
        ""
    };
    format!(": {error}{advice}")
}
