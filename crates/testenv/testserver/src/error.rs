//! Errors of the test clusters: a variant names the step that failed.
//!
//! Nothing here is retried: a test without a cluster should fail and say so. [`Error::Unavailable`]
//! distinguishes a machine without a real control plane from a broken one.

use std::io;
use std::time::Duration;

/// Why a cluster could not be started, reached or manipulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program of the real control plane is not on this machine; the message says how to get it.
    #[error(
        "no {program} on this machine (looked in {looked_in}): run `cargo xtask kube`, which needs Go, \
         or set KUBEBUILDER_ASSETS"
    )]
    Unavailable {
        /// The program's name.
        program: &'static str,
        /// The searched folders.
        looked_in: String,
    },
    /// A Go program of the tests is not on this machine; the message says how to get it.
    #[error(
        "the Go program {program} was not found: run `cargo xtask test --real`, which builds it"
    )]
    NoGoProgram {
        /// The program's name.
        program: String,
    },
    /// An operation on a file, folder or process failed.
    #[error("could not {step}")]
    System {
        /// The attempted operation.
        step: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The certificates could not be created.
    #[error("could not make the certificates")]
    Certificates(#[from] rcgen::Error),
    /// A server ended unexpectedly.
    #[error("{server} ended with {status}; the end of its log:\n{log}")]
    Ended {
        /// The server's name.
        server: &'static str,
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// A server runs, but does not become ready.
    #[error("{server} was not ready within {waited:?}: {answer}; the end of its log:\n{log}")]
    NotReady {
        /// The server's name.
        server: &'static str,
        /// How long we waited.
        waited: Duration,
        /// Its last answer.
        answer: String,
        /// The last lines of its log.
        log: String,
    },
    /// The server does not apply the rights that a user was granted.
    #[error("{user} did not get its rights within {waited:?}")]
    NoRights {
        /// The user's name.
        user: String,
        /// How long we waited.
        waited: Duration,
    },
    /// The server is not running.
    #[error("{server} is not running")]
    NotRunning {
        /// The server's name.
        server: &'static str,
    },
    /// The server is already running.
    #[error("{server} is running already")]
    AlreadyRunning {
        /// The server's name.
        server: &'static str,
    },
    /// A client could not be created, or its request failed.
    #[error("the API server could not be asked")]
    Client(#[source] Box<kube::Error>),
    /// etcd did not answer, or not as expected.
    #[error("etcd did not answer {path}: {reason}")]
    Etcd {
        /// The path of the request.
        path: &'static str,
        /// What happened instead.
        reason: String,
    },
}

impl Error {
    /// Converts an error of the operating system, and adds the attempted operation.
    pub(crate) fn system(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| Self::System { step, source }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Client(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_a_missing_program_is_one_line_with_the_remedy() {
        let error = Error::Unavailable { program: "etcd", looked_in: "/a, /b".to_owned() };
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("no etcd on this machine (looked in /a, /b)"), "{text}");
        assert!(text.contains("`cargo xtask kube`"), "{text}");
    }
}
