//! What can go wrong in the stack.

use std::error::Error;
use std::time::Duration;

use tower::BoxError;

use super::credentials::CredentialsError;
use super::message::{error_chain, safe_message};
use super::request_info::RequestInfo;

/// A client could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no client can be made of this configuration: {message}")]
pub struct ConnectError {
    message: String,
}

/// The server did not answer in time, or paused for too long within an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server sent nothing for {} seconds", .timeout.as_secs_f64())]
pub struct RequestTimedOut {
    /// How long it was waited for.
    pub timeout: Duration,
}

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
#[error("{request}: {source}")]
pub struct RequestError {
    /// Which request it was.
    pub request: RequestInfo,
    /// What went wrong.
    pub source: BoxError,
}

impl ConnectError {
    pub(super) fn new(error: &kube::Error) -> Self {
        Self { message: safe_message(error) }
    }

    pub(super) fn proxy(problem: &str) -> Self {
        Self { message: format!("its proxy cannot be used: {problem}") }
    }
}

impl From<CredentialsError> for ConnectError {
    fn from(error: CredentialsError) -> Self {
        Self { message: error.to_string() }
    }
}

impl RequestError {
    /// Says which request an error belongs to.
    pub fn new(request: RequestInfo, source: BoxError) -> Self {
        Self { request, source }
    }
}

/// Whether the server did not answer in time, and how long it was waited for.
pub(crate) fn timed_out(error: &(dyn Error + 'static)) -> Option<Duration> {
    let found = error_chain(error).find_map(|error| error.downcast_ref::<RequestTimedOut>());
    found.map(|timed_out| timed_out.timeout)
}
