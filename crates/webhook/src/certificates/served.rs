//! The certificate that a server presents, and what clients need to trust it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use windlass_serve::server_config;

use super::authority::Certificate;
use super::clock::Clock;
use super::error::CertificatesError;

/// What a server presents in handshakes. It is replaced in place by
/// [`Certificates`](super::Certificates). Clones share it.
#[derive(Clone)]
pub struct Served {
    shared: Arc<Shared>,
    clock: Clock,
}

/// Whether the certificate in use is valid now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateState {
    /// There is none yet.
    Missing,
    /// It is valid.
    Valid {
        /// Until this time. It is replaced long before.
        until: Timestamp,
    },
    /// It is not valid yet, by the clock that [`Certificates`](super::Certificates) decides by.
    NotYetValid {
        /// When it will be.
        from: Timestamp,
    },
    /// It was valid.
    Expired {
        /// When that was over.
        since: Timestamp,
    },
}

/// The lock is held only to read or to replace it.
#[derive(Default)]
struct Shared(Mutex<Content>);

#[derive(Default)]
struct Content {
    leaf: Option<Leaf>,
    bundle: Option<Arc<str>>,
}

struct Leaf {
    certified: Arc<CertifiedKey>,
    /// The leaf is valid as long as the authority that signed it.
    issuer: Certificate,
}

impl Served {
    pub(super) fn new(clock: Clock) -> Self {
        Self { shared: Arc::default(), clock }
    }

    /// Chooses the certificate in each handshake. Before there is one, handshakes fail.
    pub fn resolver(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::clone(&self.shared) as Arc<dyn ResolvesServerCert>
    }

    /// For a server of HTTP/1.1 that presents the certificate, and asks clients for none.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::new(server_config(self.resolver(), None))
    }

    /// Whether the certificate in use is valid now.
    pub fn state(&self) -> CertificateState {
        let now = self.clock.now();
        let content = self.shared.lock();
        let Some(Leaf { issuer, .. }) = &content.leaf else {
            return CertificateState::Missing;
        };
        if now < issuer.not_before {
            CertificateState::NotYetValid { from: issuer.not_before }
        } else if now >= issuer.not_after {
            CertificateState::Expired { since: issuer.not_after }
        } else {
            CertificateState::Valid { until: issuer.not_after }
        }
    }

    /// Fails if the certificate in use is not valid now. For a readiness check.
    ///
    /// # Errors
    /// Returns an error that says what to do.
    pub fn check(&self) -> Result<(), CertificatesError> {
        match self.state() {
            CertificateState::Valid { .. } => Ok(()),
            CertificateState::Missing => Err(CertificatesError::Missing),
            CertificateState::NotYetValid { from } => Err(CertificatesError::NotYetValid { from }),
            CertificateState::Expired { since } => Err(CertificatesError::Expired { since }),
        }
    }

    /// The certificates that clients have to trust, in PEM format: what `caBundle` contains.
    /// `None` before there are any.
    pub fn bundle(&self) -> Option<Arc<str>> {
        self.shared.lock().bundle.clone()
    }

    /// Whether the certificate in use was signed by this authority.
    pub(super) fn is_signed_by(&self, issuer: &Certificate) -> bool {
        self.shared.lock().leaf.as_ref().is_some_and(|leaf| leaf.issuer == *issuer)
    }

    pub(super) fn set_bundle(&self, bundle: &str) {
        self.shared.lock().bundle = Some(bundle.into());
    }

    pub(super) fn set_leaf(&self, certified: CertifiedKey, issuer: Certificate) {
        self.shared.lock().leaf = Some(Leaf { certified: Arc::new(certified), issuer });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Shared {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.lock().leaf.as_ref().map(|leaf| Arc::clone(&leaf.certified))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("state", &self.state()).finish_non_exhaustive()
    }
}
