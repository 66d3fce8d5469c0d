//! Why a manager ends with an error.

use std::fmt;

use tower::BoxError;
use windlass_informer::InformerFailure;
use windlass_informer::client::safe_message;
use windlass_reconciler::{BuildError, DryRunIgnored, InstallError, RunError};

use crate::election::InvalidElection;

/// A manager cannot start, or cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// Two parts of the manager have one name.
    #[error("two {what}s are called {name:?}: give one of them another name")]
    DuplicateName {
        /// `controller`, `task`, `check` or `liveness check`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No client of a cluster can be made.
    #[error(transparent)]
    NoCluster(#[from] NoCluster),
    /// The API server did not answer when the manager started.
    #[error(
        "cannot reach the API server at {server}: {cause}; check that the cluster runs and that \
         this process can reach it; outside of a pod, --kubeconfig and --context choose it"
    )]
    Unreachable {
        /// The URL of the server.
        server: String,
        /// Why the last attempt failed.
        cause: String,
    },
    /// The API server was reached when the manager started, but its certificate is not accepted.
    #[error(
        "the certificate of the API server at {server} is not accepted: {cause}; check \
         certificate-authority, tls-server-name and the URL of the server in the kubeconfig"
    )]
    Untrusted {
        /// The URL of the server.
        server: String,
        /// What is wrong with the certificate.
        cause: String,
    },
    /// The logs, the signals or the HTTP endpoints cannot be set up.
    #[error("{0}")]
    Setup(String),
    /// A definition cannot be installed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// A controller cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The settings of the election are invalid.
    #[error(transparent)]
    Election(#[from] InvalidElection),
    /// A controller cannot start, or cannot continue.
    #[error("controller {name:?}: {error}")]
    Controller {
        /// Its name.
        name: String,
        /// Why.
        error: RunError,
    },
    /// A task returned an error.
    #[error("task {name:?}: {message}")]
    Task {
        /// Its name.
        name: String,
        /// The error, without secrets.
        message: String,
    },
    /// A part of the manager panicked.
    #[error("{name} panicked, which is a bug in it: {message}")]
    Panicked {
        /// What panicked.
        name: String,
        /// The message of the panic.
        message: String,
    },
    /// An informer failed.
    #[error(transparent)]
    Informer(#[from] InformerFailure),
    /// Another replica may lead now.
    #[error(
        "this replica no longer leads: it could not renew its Lease in time, or another replica \
         holds it; restart the process, and it contends for the Lease again"
    )]
    LostLeadership,
    /// A server has made a write of a plan.
    #[error(transparent)]
    DryRunIgnored(#[from] DryRunIgnored),
    /// Some runs of a plan failed.
    #[error(
        "{failed} runs of the plan failed, so the operator might do more than it shows: the lines \
         that begin with ! say why"
    )]
    PlanIncomplete {
        /// How many.
        failed: usize,
    },
    /// A task or the handler of an informer did not end after it was cancelled.
    #[error(
        "not ended after it was cancelled: {what}; it blocks its thread: use \
         tokio::task::spawn_blocking"
    )]
    NotCancelled {
        /// The names of the tasks, separated by commas.
        what: String,
    },
    /// The manager stopped because of a failure, and there were more while it stopped.
    #[error("{first}{}", while_stopping(later))]
    Several {
        /// Why the manager stopped.
        first: Box<ManagerError>,
        /// What happened while it stopped.
        later: Vec<ManagerError>,
    },
}

/// No client of a cluster can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCluster {
    message: String,
}

impl NoCluster {
    pub(crate) fn new(error: &BoxError) -> Self {
        Self::because(safe_message(&**error))
    }

    /// `message` must have no secrets.
    pub(crate) fn because(message: String) -> Self {
        Self { message }
    }
}

impl fmt::Display for NoCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot connect to a cluster: {}; choose a kubeconfig file with --kubeconfig and a \
             context in it with --context",
            self.message
        )
    }
}

impl std::error::Error for NoCluster {}

impl ManagerError {
    /// Whether a task still runs that cannot be cancelled, so that the runtime cannot shut down.
    pub(crate) fn is_stuck(&self) -> bool {
        match self {
            Self::NotCancelled { .. }
            | Self::Controller { error: RunError::NotCancelled { .. }, .. } => true,
            Self::Several { first, later } => first.is_stuck() || later.iter().any(Self::is_stuck),
            _ => false,
        }
    }

    /// Combines all errors into one. `Ok` if there are none.
    pub(crate) fn all(errors: Vec<Self>) -> Result<(), Self> {
        let mut errors = errors.into_iter();
        let Some(first) = errors.next() else { return Ok(()) };
        let later: Vec<_> = errors.collect();
        Err(if later.is_empty() { first } else { Self::Several { first: Box::new(first), later } })
    }
}

fn while_stopping(errors: &[ManagerError]) -> String {
    errors
        .iter()
        .fold(String::new(), |text, error| text + "; while stopping: " + &error.to_string())
}
