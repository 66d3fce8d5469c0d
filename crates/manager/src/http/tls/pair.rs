//! A certificate and its key, in files and in use.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, CertificateError, InconsistentKeys, RootCertStore};

/// How often both files are read until two reads agree. They are read one after the other, so they
/// may be replaced in between.
const READS_MAX: usize = 3;

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error(
        "{} cannot be read ({source}): mount the Secret of the certificate there, or choose \
         another folder", path.display()
    )]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not contain what it should. The error does not show what it contains instead.
    #[error("{} contains no {wanted} in PEM format: write one into it", path.display())]
    NotPem {
        /// Which file.
        path: PathBuf,
        /// What it should contain.
        wanted: &'static str,
    },
    /// The key belongs to another certificate.
    #[error(
        "{} and {} do not belong together: write a certificate and the key that it was issued for",
        certificate.display(), key.display()
    )]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// TLS does not support the certificate or the key.
    #[error(
        "{} and {} cannot be used ({source}): issue an X.509 certificate of version 3 with an \
         RSA, ECDSA or Ed25519 key", certificate.display(), key.display()
    )]
    Unsupported {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// No self-signed certificate could be generated.
    #[error("no self-signed certificate could be generated ({reason}): provide one in files")]
    SelfSigned {
        /// Why.
        reason: String,
    },
}

/// Where a certificate and its key are.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// What the files contain.
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// A certificate and its key, ready for use.
pub(super) struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    /// The digest of the files; `None` if it was generated.
    pub(super) digest: Option<[u8; 32]>,
}

impl Files {
    /// Reads both files.
    pub(super) async fn read(&self) -> Result<Contents, TlsError> {
        let mut contents = self.read_once().await?;
        for _ in 1..READS_MAX {
            let again = self.read_once().await?;
            if again.digest() == contents.digest() {
                break;
            }
            contents = again;
        }
        Ok(contents)
    }

    async fn read_once(&self) -> Result<Contents, TlsError> {
        let read = async |path: &PathBuf| {
            let unreadable = |source| TlsError::Unreadable { path: path.clone(), source };
            tokio::fs::read(path).await.map_err(unreadable)
        };
        Ok(Contents { certificate: read(&self.certificate).await?, key: read(&self.key).await? })
    }

    pub(super) fn parse(&self, contents: &Contents) -> Result<Pair, TlsError> {
        let chain = CertificateDer::pem_slice_iter(&contents.certificate);
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap_or_default();
        if chain.is_empty() {
            let (path, wanted) = (self.certificate.clone(), "certificate");
            return Err(TlsError::NotPem { path, wanted });
        }
        // The parser's error would show a line of the file.
        let Ok(key) = PrivateKeyDer::from_pem_slice(&contents.key) else {
            let (path, wanted) = (self.key.clone(), "unencrypted private key");
            return Err(TlsError::NotPem { path, wanted });
        };
        let pair = Pair::new(chain, key);
        let pair = pair.map(|pair| Pair { digest: Some(contents.digest()), ..pair });
        pair.map_err(|source| {
            let (certificate, key) = (self.certificate.clone(), self.key.clone());
            match source {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    TlsError::Mismatch { certificate, key }
                }
                source => TlsError::Unsupported { certificate, key, source },
            }
        })
    }
}

impl Contents {
    /// A digest to detect changes of the files, without keeping a copy of the key.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        context.update(&self.certificate.len().to_be_bytes());
        context.update(&self.certificate);
        context.update(&self.key);
        context.finish().as_ref().try_into().expect("SHA-256 must have 32 bytes")
    }
}

impl Pair {
    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let certified = CertifiedKey::from_der(chain, key, &default_provider())?;
        let (not_before, not_after) = validity(certified.end_entity_cert()?)?;
        Ok(Self { certified: Arc::new(certified), not_before, not_after, digest: None })
    }

    pub(super) fn self_signed() -> Result<Self, TlsError> {
        let failed = |reason: String| TlsError::SelfSigned { reason };
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let made =
            rcgen::generate_simple_self_signed(names).map_err(|error| failed(error.to_string()))?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        Self::new(vec![made.cert.der().clone()], key).map_err(|error| failed(error.to_string()))
    }
}

/// The validity period of a certificate.
///
/// rustls has no accessor for it, but its errors for certificates that have expired or are not yet
/// valid contain it. It checks the time before the issuer, so no issuer has to be known.
fn validity(certificate: &CertificateDer<'_>) -> Result<(Timestamp, Timestamp), rustls::Error> {
    let certificate = ParsedCertificate::try_from(certificate)?;
    let refusal_at = |seconds| {
        let (time, roots) = (Duration::from_secs(seconds), RootCertStore::empty());
        let time = UnixTime::since_unix_epoch(time);
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, &[], time, &[])
    };
    let not_after = match refusal_at(u64::MAX) {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after,
            ..
        })) => timestamp(not_after),
        // The period cannot be read, or is contradictory.
        refusal => return Err(refusal.err().unwrap_or(CertificateError::BadEncoding.into())),
    };
    let not_before = match refusal_at(0) {
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before,
            ..
        })) => timestamp(not_before),
        _ => Timestamp::UNIX_EPOCH,
    };
    Ok((not_before, not_after))
}

/// The end of the year 9999, which stands for "never expires", is beyond what a timestamp has.
fn timestamp(time: UnixTime) -> Timestamp {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}
