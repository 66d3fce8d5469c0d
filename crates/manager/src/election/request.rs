//! Requests for a Lease: how long they may take, and what their failures mean.

use std::fmt;

use tokio::time::{Instant, timeout_at};
use windlass_informer::client::safe_message;

use super::contest::Failure;

/// Why a request failed.
#[derive(Debug)]
pub(super) enum RequestFailure {
    Kube(kube::Error),
    TimedOut,
}

impl RequestFailure {
    /// A conflict if `is_conflict` accepts the status code of the server.
    pub(super) fn failure_if(&self, is_conflict: impl Fn(u16) -> bool) -> Failure {
        match self {
            Self::Kube(kube::Error::Api(status)) if is_conflict(status.code) => Failure::Conflict,
            Self::Kube(_) | Self::TimedOut => Failure::Other,
        }
    }

    /// What to do about it.
    pub(super) fn advice(&self, namespace: &str) -> String {
        match self {
            Self::Kube(kube::Error::Api(status)) if status.code == 403 => format!(
                "; grant the account get, create and update on leases (coordination.k8s.io) in the \
                 namespace {namespace}, with a Role and a RoleBinding"
            ),
            Self::Kube(kube::Error::Api(status)) if status.code == 404 => format!(
                "; is there a namespace {namespace}? Choose one with --leader-election-namespace"
            ),
            _ => String::new(),
        }
    }

    /// Whether the server will refuse this request until its configuration is changed.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if matches!(status.code, 403 | 404))
    }

    /// Whether the server has not done what was requested. After other failures, such as a 504, it
    /// may have done it.
    pub(super) fn is_rejection(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if (400..500).contains(&status.code))
    }
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kube(error) => f.write_str(&safe_message(error)),
            Self::TimedOut => f.write_str("no answer in time"),
        }
    }
}

/// Waits for an answer until the deadline.
pub(super) async fn bounded<T>(
    deadline: Instant,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, RequestFailure> {
    match timeout_at(deadline, request).await {
        Ok(answer) => answer.map_err(RequestFailure::Kube),
        Err(_) => Err(RequestFailure::TimedOut),
    }
}
