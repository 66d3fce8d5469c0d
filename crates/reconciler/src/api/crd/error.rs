//! Why a definition cannot be installed, and what to do about it.

use std::time::Duration;

use crate::error::{Class, Error};

/// A definition could not be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// It has no name.
    #[error("the CustomResourceDefinition has no name: it must be <plural>.<group>")]
    Unnamed,
    /// The account may not install definitions.
    #[error(
        "cannot {verb} the CustomResourceDefinition {definition}: {error}; give the account the \
         verbs get, create and patch on customresourcedefinitions in the API group \
         apiextensions.k8s.io, or have somebody else install it"
    )]
    Forbidden {
        /// Its name.
        definition: String,
        /// What was refused.
        verb: &'static str,
        /// What the server said.
        error: Error,
    },
    /// The server does not accept it.
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
    /// It is not installed, and a plan installs nothing.
    #[error(
        "the CustomResourceDefinition {definition} is not installed, so there are no objects to \
         plan for: install it first"
    )]
    NotInstalled {
        /// Its name.
        definition: String,
    },
    /// It cannot be used in time.
    #[error(
        "the CustomResourceDefinition {definition} cannot be used after {} s: {obstacle}",
        .after.as_secs_f64()
    )]
    NotReady {
        /// Its name.
        definition: String,
        /// How long was waited.
        after: Duration,
        /// The last obstacle. Not the source of this error, which has its text.
        obstacle: Obstacle,
    },
}

/// Why a definition cannot be used yet. The obstacle may go away by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The server has not answered.
    #[error("the server does not answer; check its address, and whether it can be reached")]
    NoAnswer,
    /// A request failed.
    #[error("the last attempt to {verb} it failed: {error}")]
    Failed {
        /// What was tried.
        verb: &'static str,
        /// What went wrong.
        error: Error,
    },
    /// An older definition of its name is still being deleted.
    #[error(
        "an older one of its name is still being deleted; look for objects of it that have \
         finalizers, and for the controller that should remove them"
    )]
    Deleting,
    /// Another definition has one of its names.
    #[error(
        "its names are not accepted: {message}; delete the definition that has them, or choose \
         others"
    )]
    NamesNotAccepted {
        /// What the server says about it.
        message: String,
    },
    /// The server has not established it yet.
    #[error(
        "it is not established: {message}; check its conditions, and whether the API server is \
         healthy"
    )]
    NotEstablished {
        /// What the server says about it.
        message: String,
    },
    /// It is established, but discovery does not have it.
    #[error("{api_version} is not served yet; check whether the API server is healthy")]
    NotServed {
        /// The group and version.
        api_version: String,
    },
}

impl Obstacle {
    /// Whether the server does not answer, or refuses. If others install the same definition at the
    /// same time, that is no trouble.
    pub(super) fn is_trouble(&self) -> bool {
        match self {
            Self::NoAnswer => true,
            Self::Failed { error, .. } => {
                matches!(error.class(), Class::Transient | Class::Throttled | Class::Forbidden)
            }
            _ => false,
        }
    }
}
