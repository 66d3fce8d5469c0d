//! What can go wrong in the stack, in words that hold no secret.
//!
//! kube's own errors may: the output of a command that fetches credentials, a proxy's address with a password.

use std::error::Error;
use std::time::Duration;

use kube::client::AuthError;

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

impl ConnectError {
    pub(super) fn new(error: &kube::Error) -> Self {
        Self { message: message_of(error) }
    }

    /// The name that its certificate is to have is none.
    #[cfg(feature = "rustls")]
    pub(super) fn server_name(name: &str) -> Self {
        Self {
            message: format!("its tls-server-name {name:?} is neither a host name nor an address"),
        }
    }
}

/// An error and its causes in one line, without secrets.
pub(crate) fn message_of(error: &(dyn Error + 'static)) -> String {
    if let Some(message) = chain(error).find_map(replacement) {
        return message;
    }
    let mut message = error.to_string();
    for cause in chain(error).skip(1) {
        let text = cause.to_string();
        // Many errors repeat their cause.
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
    }
    message
}

/// An error and its causes.
pub(crate) fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// What is said instead, for errors whose own words may hold a secret, or are about features of kube.
fn replacement(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<AuthError>() {
        return Some(format!("no credentials: {}", credentials_problem(error)));
    }
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::ProxyProtocolUnsupported { .. } => {
            Some("the protocol of its proxy is unknown".to_owned())
        }
        kube::Error::ProxyProtocolDisabled { protocol_feature, .. } => {
            Some(format!("its proxy needs the feature {protocol_feature}"))
        }
        kube::Error::TlsRequired => {
            Some("https needs the feature `rustls` of windlass-informer".to_owned())
        }
        _ => None,
    }
}

fn credentials_problem(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            format!("the command that fetches them ended with {}", out.status)
        }
        AuthError::AuthExecParse(_) => {
            "the command that fetches them wrote something else".to_owned()
        }
        // These name a file, a program or a setting, and what the system says of it.
        AuthError::AuthExecStart(_)
        | AuthError::ExecMissingClusterInfo
        | AuthError::ExecPluginFailed
        | AuthError::InvalidBasicAuth(_)
        | AuthError::InvalidBearerToken(_)
        | AuthError::MissingCommand
        | AuthError::ReadTokenFile(..)
        | AuthError::UnrefreshableTokenResponse => error.to_string(),
        _ => "they are not what was expected".to_owned(),
    }
}
