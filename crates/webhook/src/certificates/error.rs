//! Why certificates are not as they should be.

use std::time::Duration;

use jiff::Timestamp;

/// What [`Certificates`](super::Certificates) could not do. No message shows a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificatesError {
    /// There is no name that the server is called by.
    #[error("the server has no name: give the DNS name of its Service, or an IP address")]
    NoNames,
    /// A name is neither a DNS name nor an IP address.
    #[error("`{name}` is neither a DNS name nor an IP address that a certificate can have")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// The Secret is somebody else's, and is left alone.
    #[error(
        "the Secret {namespace}/{secret} has the type `{found}` instead of `{expected}`, so \
         somebody else made it: choose another name, or delete it if nobody needs it"
    )]
    ForeignSecret {
        /// The namespace of the Secret.
        namespace: String,
        /// The name of the Secret.
        secret: String,
        /// Its type.
        found: String,
        /// The type that it should have.
        expected: &'static str,
    },
    /// The API server does not allow a request. It is retried.
    #[error(
        "this program is not allowed to {verb} {object} ({message}): give its service account a \
         role with the rule {{apiGroups: [\"{group}\"], resources: [{plural}], verbs: [{verb}]}}"
    )]
    Forbidden {
        /// Such as `patch`.
        verb: &'static str,
        /// What was requested, such as `customresourcedefinitions/websites.example.com`.
        object: String,
        /// Its API group.
        group: &'static str,
        /// Its resource.
        plural: &'static str,
        /// The answer.
        message: String,
    },
    /// A request failed for another reason. It is retried.
    #[error("could not {verb} {object}: {message}")]
    Failed {
        /// Such as `patch`.
        verb: &'static str,
        /// What was requested, such as `secrets/webhook-certificates`.
        object: String,
        /// The answer, or what became of the connection.
        message: String,
    },
    /// The API server did not answer. It is retried.
    #[error("could not {verb} {object}: no answer within {timeout:?}")]
    TookTooLong {
        /// Such as `patch`.
        verb: &'static str,
        /// What was requested.
        object: String,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// Others write the same objects all the time. It is retried.
    #[error("{object} was changed by somebody else during each of {attempts} attempts")]
    Contended {
        /// What could not be written last.
        object: String,
        /// How often it was tried.
        attempts: usize,
    },
    /// No certificate could be made.
    #[error("no certificate could be made: {reason}")]
    NotMade {
        /// Why.
        reason: String,
    },
    /// There is no certificate yet, because [`ensure`](super::Certificates::ensure) has not
    /// succeeded.
    #[error("there is no certificate yet")]
    Missing,
    /// The certificate in use is not valid yet.
    #[error(
        "the certificate in use is not valid before {from}: the clock of the API server, or of \
         this machine if that is not known, was set back"
    )]
    NotYetValid {
        /// When it will be.
        from: Timestamp,
    },
    /// The certificate in use has expired.
    #[error(
        "the certificate in use expired at {since}: the log has the reason why it was not replaced"
    )]
    Expired {
        /// When that was.
        since: Timestamp,
    },
}
