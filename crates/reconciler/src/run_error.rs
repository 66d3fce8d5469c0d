//! Why a controller does not run.

use std::time::Duration;

use windlass_informer::{InformerStatus, Resource, SourceError};

/// A controller could not begin.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A cache is not complete in time.
    #[error(
        "the cache of {resource} is not complete after {} s{}",
        .after.as_secs(),
        hint(.last_error.as_ref())
    )]
    NotSynced {
        /// What is watched.
        resource: Resource,
        /// How long was waited.
        after: Duration,
        /// What the server said last.
        last_error: Option<SourceError>,
    },
    /// An informer has stopped or broken.
    #[error("the informer of {resource} has stopped")]
    Stopped {
        /// What it watched.
        resource: Resource,
    },
}

impl RunError {
    pub(crate) fn not_synced(status: &InformerStatus, after: Duration) -> Self {
        let mut errors = status.feeds.iter().filter_map(|feed| feed.last_error.as_ref());
        let last_error = errors.next().map(|(error, _)| error.clone());
        Self::NotSynced { resource: status.resource.clone(), after, last_error }
    }

    pub(crate) fn stopped(status: &InformerStatus) -> Self {
        Self::Stopped { resource: status.resource.clone() }
    }
}

/// What is wrong, and what to do about it.
fn hint(error: Option<&SourceError>) -> String {
    let Some(error) = error else { return String::new() };
    let advice = if error.is_not_found() {
        "; is its CustomResourceDefinition installed?"
    } else if error.status().is_some_and(|status| status.code == 403) {
        "; give the controller's account the verbs list and watch on it"
    } else {
        ""
    };
    format!(": {error}{advice}")
}
