//! Errors of the client stack.

use std::time::Duration;

use tower::BoxError;

use super::message::safe_message;
use super::request_info::RequestInfo;

/// There is no way to the server: [`ClientStack::connect`](super::ClientStack::connect) fails
/// with it, and requests fail with it once their credentials have expired and cannot be renewed.
/// No request was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There are no valid credentials.
    #[error("no credentials: {0}")]
    Credentials(String),
    /// The configuration cannot be used.
    #[error("the configuration cannot be used: {0}")]
    Config(String),
}

/// A write was refused because this replica does not lead.
///
/// It is found in the chain of sources of a `kube::Error`. Do not retry it: whoever leads now does
/// the work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{request} was not sent: this replica does not lead, or could not renew its Lease in time")]
pub struct NotLeader {
    /// Which request it was.
    pub request: String,
}

/// The server did not answer in time, or paused for too long within an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server sent nothing for {} seconds", .timeout.as_secs_f64())]
pub struct RequestTimedOut {
    /// How long the client waited.
    pub timeout: Duration,
}

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
#[error("{request}: {source}")]
pub struct RequestError {
    /// Which request it was.
    pub request: RequestInfo,
    /// Why it failed.
    pub source: BoxError,
}

impl From<kube::Error> for ConnectError {
    fn from(error: kube::Error) -> Self {
        Self::Config(safe_message(&error))
    }
}
