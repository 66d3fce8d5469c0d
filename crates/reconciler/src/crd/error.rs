//! Why a definition is not installed, and what to do about it.

use std::time::Duration;

use crate::Error;

/// A definition could not be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// It has no name.
    #[error(
        "the CustomResourceDefinition has no name: it has to be the plural, a dot, and the group"
    )]
    Unnamed,
    /// The account may not install definitions.
    #[error(
        "cannot {verb} the CustomResourceDefinition {definition}: {error}; give the account the verbs get, create and patch \
         on customresourcedefinitions in the API group apiextensions.k8s.io, or have somebody else install it"
    )]
    Forbidden {
        /// Its name.
        definition: String,
        /// What was refused.
        verb: &'static str,
        /// What the server said.
        error: Error,
    },
    /// The server does not take it like this.
    #[error(
        "cannot {verb} the CustomResourceDefinition {definition}: {error}; correct the definition"
    )]
    Refused {
        /// Its name.
        definition: String,
        /// What was refused.
        verb: &'static str,
        /// What the server said.
        error: Error,
    },
    /// It cannot be used in time.
    #[error(
        "the CustomResourceDefinition {definition} cannot be used after {} s: {obstacle}", .after.as_secs_f64()
    )]
    NotReady {
        /// Its name.
        definition: String,
        /// How long was waited.
        after: Duration,
        /// What was in the way last.
        #[source]
        obstacle: Obstacle,
    },
}

/// What is in the way of a definition. It may go away by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The server has not answered at all.
    #[error("the server does not answer; is its address right, and can it be reached from here?")]
    NoAnswer,
    /// A request failed.
    #[error("the last attempt to {verb} it failed: {error}")]
    Failed {
        /// What was tried.
        verb: &'static str,
        /// What went wrong.
        error: Error,
    },
    /// An older one of its name is going, and not yet gone.
    #[error(
        "an older one of its name is still being deleted; look for objects of it that have finalizers, and for the \
         controller that should remove them"
    )]
    Deleting,
    /// Another definition has one of its names.
    #[error(
        "its names are not accepted: {message}; delete the definition that has them, or choose others"
    )]
    NamesNotAccepted {
        /// What the server says about it.
        message: String,
    },
    /// The server is not done with it.
    #[error(
        "it is not established{}; look at its conditions, and whether the API server is well",
        after_colon(.message)
    )]
    NotEstablished {
        /// What the server says about it.
        message: String,
    },
    /// It is established, and discovery does not have it.
    #[error("{api_version} is not served yet; look whether the API server is well")]
    NotServed {
        /// The group and version.
        api_version: String,
    },
}

impl Obstacle {
    /// Whether a request that failed is worth another try.
    pub(super) fn of(
        error: kube::Error,
        verb: &'static str,
        name: &str,
    ) -> Result<Self, InstallError> {
        let code = match &error {
            kube::Error::Api(status) => status.code,
            kube::Error::HyperError(_) | kube::Error::Service(_) => 503,
            _ => 400,
        };
        let (definition, error) = (name.to_owned(), Error::from(error));
        match code {
            403 => Err(InstallError::Forbidden { definition, verb, error }),
            // Somebody else was faster to create, change or delete it, and the next look shows what there is; or a
            // token is about to be renewed; or the server is busy or has trouble.
            401 | 409 | 429 | 500.. => Ok(Self::Failed { verb, error }),
            404 if verb == "patch" => Ok(Self::Failed { verb, error }),
            _ => Err(InstallError::Refused { definition, verb, error }),
        }
    }
}

fn after_colon(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
