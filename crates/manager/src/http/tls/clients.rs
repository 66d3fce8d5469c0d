//! Which clients a listener knows: those with a certificate that an authority in a file signed.
//!
//! A client without a certificate is let in, and [`requires_certificate`] refuses its requests. So
//! some paths can be left open, and the refusal is an answer that says what is missing. A client
//! with a certificate of another authority fails in its handshake.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use http::StatusCode;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    self, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
};
use tokio_util::sync::CancellationToken;
use windlass_serve::VerifiedClient;

use super::{RELOAD_PERIOD, changed};

/// The file of the certificate authorities of clients cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientCaError {
    #[error(
        "{} cannot be read ({source}): mount the certificate of the authority that signs the \
         clients' certificates there", path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{} contains no certificate in PEM format: write that of the authority that signs the \
         clients' certificates into it", path.display()
    )]
    NotPem { path: PathBuf },
    #[error(
        "{} has a certificate that cannot be used ({source}): write the X.509 certificate of the \
         authority that signs the clients' certificates into it", path.display()
    )]
    Unsupported { path: PathBuf, source: rustls::Error },
}

/// The certificate authorities of clients, in a file. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ClientCa {
    path: Arc<Path>,
    current: Arc<Current>,
}

/// What handshakes use. The lock is held only to read or to replace it.
#[derive(Debug)]
struct Current(Mutex<Authorities>);

#[derive(Debug)]
struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
    /// What the file contains.
    pem: Vec<u8>,
}

impl ClientCa {
    /// Reads the file. Fails if it cannot be used.
    pub(crate) async fn from_file(path: &Path) -> Result<Self, ClientCaError> {
        let pem = read(path).await?;
        let verifier = verifier(path, &pem)?;
        let current = Current(Authorities { verifier, pem }.into());
        Ok(Self { path: path.into(), current: Arc::new(current) })
    }

    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.current) as Arc<dyn ClientCertVerifier>
    }

    /// Reads the file periodically. If it cannot be used, the authorities in use are kept, which is
    /// logged once.
    pub(crate) async fn reload_until(&self, stop: &CancellationToken) {
        self.reload_every(RELOAD_PERIOD, stop).await;
    }

    async fn reload_every(&self, period: Duration, stop: &CancellationToken) {
        let mut failure = None;
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let failed = self.reload().await.err().map(|error| error.to_string());
            if let Some(error) = changed(&mut failure, failed) {
                tracing::error!("the authorities of clients in use are kept, because {error}");
            }
        }
    }

    async fn reload(&self) -> Result<(), ClientCaError> {
        let pem = read(&self.path).await?;
        if self.current.get(|current| current.pem == pem) {
            return Ok(());
        }
        let verifier = verifier(&self.path, &pem)?;
        *self.current.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Authorities { verifier, pem };
        tracing::info!("the authorities of clients in {} were replaced", self.path.display());
        Ok(())
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, ClientCaError> {
    let unreadable = |source| ClientCaError::Unreadable { path: path.to_owned(), source };
    tokio::fs::read(path).await.map_err(unreadable)
}

fn verifier(path: &Path, pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, ClientCaError> {
    let path = || path.to_owned();
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.unwrap_or_default();
    if certificates.is_empty() {
        return Err(ClientCaError::NotPem { path: path() });
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let unsupported = |source| ClientCaError::Unsupported { path: path(), source };
        roots.add(certificate).map_err(unsupported)?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(roots.into(), default_provider().into());
    let verifier = builder.allow_unauthenticated().build();
    Ok(verifier.expect("there must be an authority, and no revocation list"))
}

/// Refuses requests of clients without a certificate, except for the path that is `open`.
pub(crate) fn requires_certificate(router: Router, open: Option<&'static str>) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| async move {
        let is_known = request.extensions().get::<VerifiedClient>().is_some();
        if is_known || open == Some(request.uri().path()) {
            return next.run(request).await;
        }
        let message =
            "this needs a client certificate of the API server: see --webhook-client-ca\n";
        (StatusCode::UNAUTHORIZED, message).into_response()
    }))
}

impl Current {
    fn get<T>(&self, of: impl FnOnce(&Authorities) -> T) -> T {
        of(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.get(|current| Arc::clone(&current.verifier))
    }
}

impl ClientCertVerifier for Current {
    /// None: they may change. Clients then send the certificate that they have.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verifier().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier().verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier().verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier().supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tokio::time::sleep;
    use windlass_testserver::Log;

    use super::*;

    fn certificate() -> String {
        let key = KeyPair::generate().expect("a key");
        CertificateParams::default().self_signed(&key).expect("a certificate").pem()
    }

    #[tokio::test]
    async fn files_that_cannot_be_used_are_errors_that_say_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ca.crt");
        let key = KeyPair::generate().expect("a key").serialize_pem();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let half = format!("{}{broken}", certificate());
        for (content, expected) in [
            ("", "ca.crt contains no certificate in PEM format: write that of the authority"),
            (&key, "ca.crt contains no certificate in PEM format"),
            (broken, "ca.crt has a certificate that cannot be used"),
            (&half, "ca.crt has a certificate that cannot be used"),
        ] {
            std::fs::write(&file, content).expect("written");
            let error = ClientCa::from_file(&file).await.expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = ClientCa::from_file(&folder.path().join("x")).await.expect_err("no file");
        let error = error.to_string();
        assert!(error.contains("cannot be read") && error.contains("mount the cert"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn broken_file_keeps_the_authorities_and_is_logged_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, log) = (folder.path().join("ca.crt"), Log::start());
        std::fs::write(&file, certificate()).expect("written");
        let clients = ClientCa::from_file(&file).await.expect("an authority");
        let (stop, first) = (CancellationToken::new(), clients.current.verifier());
        tokio::join!(clients.reload_until(&stop), async {
            for content in ["", "nothing"] {
                std::fs::write(&file, content).expect("written");
                sleep(RELOAD_PERIOD * 3).await;
                assert!(Arc::ptr_eq(&first, &clients.current.verifier()));
            }
            std::fs::write(&file, certificate()).expect("written");
            sleep(RELOAD_PERIOD * 3).await;
            stop.cancel();
        });
        assert!(!Arc::ptr_eq(&first, &clients.current.verifier()));
        let lines = log.lines();
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(lines[0].contains("ERROR") && lines[0].contains("in use are kept, because"));
        assert!(lines[1].contains("ca.crt were replaced"), "{lines:#?}");
    }
}
