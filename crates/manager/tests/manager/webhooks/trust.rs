//! Handshakes with a webhook server, and what the API server trusts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Client;
use kube::api::Api;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::webhooks::gadgets::NAME;

/// The `caBundle` of the first validating webhook, in PEM.
pub(crate) async fn bundle(client: &Client) -> Option<String> {
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = configurations.get(NAME).await.expect("a configuration");
    let webhook = configuration.webhooks?.into_iter().next()?;
    Some(String::from_utf8(webhook.client_config.ca_bundle?.0).expect("PEM"))
}

/// A client certificate and its key, in PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The certificate that a server presents to a client that trusts `bundle`.
pub(crate) async fn presented(
    address: SocketAddr,
    bundle: &str,
) -> io::Result<CertificateDer<'static>> {
    let stream = connect(address, bundle, None).await?;
    let (_, connection) = stream.get_ref();
    let presented = connection.peer_certificates().and_then(<[_]>::first);
    Ok(presented.expect("a server must have a certificate").clone().into_owned())
}

/// Connects as a client that trusts `bundle`.
pub(crate) async fn connect(
    address: SocketAddr,
    bundle: &str,
    identity: Option<&Identity>,
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("a certificate");
    }
    let config = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("ring must support the default versions of TLS")
        .with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            let chain = vec![certificate.expect("a certificate")];
            config.with_client_auth_cert(chain, key).expect("an identity")
        }
    };
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::from(address.ip());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
