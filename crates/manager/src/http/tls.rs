//! The certificate of a listener.
//!
//! It comes from files, as cert-manager and others write them into a Secret. They are read again
//! every ten seconds, so a renewed certificate is used without a restart. If new files cannot be
//! used, the certificate in use is kept. Without files, a self-signed certificate is generated: the
//! connection is encrypted, but clients cannot verify the server.
//!
//! Files are compared by content. The kubelet replaces a symlink in their path, which file watches
//! miss.

pub(crate) mod clients;
mod pair;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_util::sync::CancellationToken;
use windlass_serve::server_config;

use self::clients::ClientCa;
pub use self::pair::TlsError;
use self::pair::{Files, Pair};

/// How often the files are read. As in controller-runtime.
const RELOAD_PERIOD: Duration = Duration::from_secs(10);

/// The names of the files in a Secret of the type `kubernetes.io/tls`.
const CERTIFICATE_FILE: &str = "tls.crt";
const KEY_FILE: &str = "tls.key";

/// The certificate and the key of a [`Listener`](super::Listener). Clones share them.
#[derive(Clone)]
pub struct Tls {
    /// `None` if the certificate was generated.
    files: Option<Arc<Files>>,
    current: Arc<Current>,
    clients: Option<ClientCa>,
    clock: Clock,
    reload_period: Duration,
}

/// Whether a certificate is valid now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateState {
    /// It is valid.
    Valid {
        /// Until this time.
        until: Timestamp,
    },
    /// It is not valid yet, or the clock of this machine is wrong.
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

/// The certificate in use is not valid now, so clients refuse the connection. The message says what
/// to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCertificate(String);

/// By which the certificates of the other side are judged.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

/// The certificate that handshakes present. The lock is held only to read or to replace it.
struct Current(Mutex<Pair>);

impl Tls {
    /// Reads `tls.crt` and `tls.key` of a folder, as a mounted Secret has them. The listener reads
    /// them again when they change.
    ///
    /// An expired certificate is accepted, because a new one may follow; [`check`](Self::check)
    /// reports it.
    ///
    /// # Errors
    /// Returns an error if a file is missing or cannot be used.
    pub async fn from_folder(folder: impl AsRef<Path>) -> Result<Self, TlsError> {
        let folder = folder.as_ref();
        Self::from_files(folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE)).await
    }

    /// As [`from_folder`](Self::from_folder), with other names of the files.
    ///
    /// # Errors
    /// Returns an error if a file is missing or cannot be used.
    pub async fn from_files(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let files = Files { certificate: certificate.into(), key: key.into() };
        let pair = files.parse(&files.read().await?)?;
        Ok(Self::new(Some(files), pair))
    }

    /// Generates a certificate for `localhost`, and logs a warning.
    ///
    /// # Errors
    /// Returns an error if no certificate can be generated.
    pub fn self_signed() -> Result<Self, TlsError> {
        let pair = Pair::self_signed()?;
        tracing::warn!(
            "no certificate was provided, so a self-signed one is used: clients cannot verify it, \
             and must be configured to accept it (Prometheus: insecure_skip_verify)"
        );
        Ok(Self::new(None, pair))
    }

    fn new(files: Option<Files>, pair: Pair) -> Self {
        let (files, current) = (files.map(Arc::new), Arc::new(Current(pair.into())));
        let clock = Clock::new(Timestamp::now);
        Self { files, current, clients: None, clock, reload_period: RELOAD_PERIOD }
    }

    /// How often the files are read. Default: every 10 s.
    #[must_use]
    pub fn reload_period(mut self, period: Duration) -> Self {
        // An interval of zero would panic.
        self.reload_period = period.max(Duration::from_millis(1));
        self
    }

    /// The clock for the validity of the certificate, and of those of clients. Default: the system
    /// clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Clock::new(clock);
        self
    }

    /// Verifies the certificates of clients that have one. Whoever serves the listener refuses the
    /// others, and [reloads](ClientCa::reload_until) the authorities.
    pub(crate) fn clients(self, clients: Option<ClientCa>) -> Self {
        Self { clients, ..self }
    }

    /// Whether the certificate in use is valid now.
    pub fn state(&self) -> CertificateState {
        let now = (self.clock.0)();
        let pair = self.current.lock();
        if now < pair.not_before {
            CertificateState::NotYetValid { from: pair.not_before }
        } else if now > pair.not_after {
            CertificateState::Expired { since: pair.not_after }
        } else {
            CertificateState::Valid { until: pair.not_after }
        }
    }

    /// Fails if the certificate in use is not valid now. For a readiness check.
    ///
    /// # Errors
    /// Returns an error that says what to do.
    pub fn check(&self) -> Result<(), InvalidCertificate> {
        let name = match &self.files {
            Some(files) => files.certificate.display().to_string(),
            None => "that was generated".to_owned(),
        };
        Err(InvalidCertificate(match self.state() {
            CertificateState::Valid { .. } => return Ok(()),
            CertificateState::NotYetValid { from } => format!(
                "the certificate {name} is not valid before {from}: set the clock of this \
                 machine, or issue another certificate"
            ),
            CertificateState::Expired { since } => format!(
                "the certificate {name} expired at {since}: renew it and replace the file, which \
                 is read again without a restart"
            ),
        }))
    }

    /// The acceptor for the handshakes of a listener.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let resolver = Arc::clone(&self.current) as Arc<dyn ResolvesServerCert>;
        acceptor(resolver, self.clients.as_ref(), self.clock.clone())
    }

    /// Reloads the files periodically, and logs problems of the certificate. Each problem is logged
    /// once.
    pub(super) async fn reload_until(&self, stop: &CancellationToken) {
        let (mut failure, mut invalid) = (None, None);
        let mut ticks = interval(self.reload_period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let failed = self.reload().await.err().map(|error| error.to_string());
            if let Some(error) = changed(&mut failure, failed) {
                tracing::error!("the certificate in use is kept, because {error}");
            }
            if let Some(error) = changed(&mut invalid, self.check().err()) {
                tracing::error!("clients refuse connections, because {error}");
            }
        }
    }

    async fn reload(&self) -> Result<(), TlsError> {
        let Some(files) = &self.files else {
            return Ok(());
        };
        let contents = files.read().await?;
        if self.current.lock().digest == Some(contents.digest()) {
            return Ok(());
        }
        let pair = files.parse(&contents)?;
        let (path, until) = (files.certificate.display(), pair.not_after);
        tracing::info!("the certificate {path} was replaced by one that is valid until {until}");
        *self.current.lock() = pair;
        Ok(())
    }
}

/// Does handshakes, and verifies the certificates of clients that have one, if `clients` are given,
/// by this clock.
pub(crate) fn acceptor(
    resolver: Arc<dyn ResolvesServerCert>,
    clients: Option<&ClientCa>,
    clock: Clock,
) -> TlsAcceptor {
    let mut config = server_config(resolver, clients.map(ClientCa::verifier));
    config.time_provider = Arc::new(clock);
    TlsAcceptor::from(Arc::new(config))
}

/// Stores a value, and returns it if it has changed.
fn changed<T: PartialEq>(stored: &mut Option<T>, value: Option<T>) -> Option<&T> {
    let is_new = *stored != value;
    *stored = value;
    stored.as_ref().filter(|_| is_new)
}

impl Clock {
    pub(crate) fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from((self.0)().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Current {
    fn lock(&self) -> MutexGuard<'_, Pair> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.lock().certified))
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}
