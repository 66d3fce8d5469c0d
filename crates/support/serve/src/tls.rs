//! What a TLS server presents in handshakes, and which clients it asks for a certificate.
//!
//! How certificates are made and renewed is not here, because each server does it in its own way:
//! the manager reads files, webhooks share a Secret, and the embedded API server has an authority
//! of its own for its kubeconfig.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoClientAuth, NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{Error, ServerConfig};

/// For a server of HTTP/1.1 that presents the certificate that `certificates` chooses. With
/// `clients`, it asks clients for a certificate, and verifies it in each handshake.
///
/// # Panics
/// Never: *ring* supports the default versions of TLS.
pub fn server_config(
    certificates: Arc<dyn ResolvesServerCert>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> ServerConfig {
    let verifies_clients = clients.is_some();
    let mut config = ServerConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("ring must support the default versions of TLS")
        .with_client_cert_verifier(clients.unwrap_or_else(|| Arc::new(NoClientAuth)))
        .with_cert_resolver(certificates);
    // Clients must not try HTTP/2.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if verifies_clients {
        // A resumed session would not be verified again when the authorities change.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config
}

/// One certificate for all handshakes: its chain, beginning with itself, and its key.
///
/// # Errors
/// Returns an error if TLS does not support the certificate or the key, or if they do not belong
/// together.
pub fn single_certificate(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<dyn ResolvesServerCert>, Error> {
    let certified = CertifiedKey::from_der(chain, key, &default_provider())?;
    Ok(Arc::new(SingleCertAndKey::from(certified)))
}
