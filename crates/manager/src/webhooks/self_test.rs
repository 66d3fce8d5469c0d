//! A readiness check: whether the webhook server answers through its own certificate, as the API
//! server will find it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use windlass_webhook::certificates::Served;

use super::CHECK;
use crate::http::checks::{Checks, Finding, Probe};

/// No such path is served. The answer is a 404, which is as good as any.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: webhooks\r\nconnection: close\r\n\r\n";

/// Connects as the API server does.
#[derive(Clone)]
pub(super) struct SelfTest {
    /// The first that takes a connection counts: a machine may have IPv6 addresses turned off.
    addresses: Vec<SocketAddr>,
    /// A name that the certificate is valid for.
    name: String,
    served: Served,
}

impl SelfTest {
    pub(super) fn new(address: SocketAddr, name: String, served: Served) -> Self {
        let local = |ip| SocketAddr::new(ip, address.port());
        let addresses = if address.ip().is_unspecified() {
            vec![local(Ipv4Addr::LOCALHOST.into()), local(Ipv6Addr::LOCALHOST.into())]
        } else {
            vec![address]
        };
        Self { addresses, name, served }
    }

    pub(super) fn add_to(self, checks: &Checks) {
        checks.add(Probe::Ready, CHECK, move || {
            let test = self.clone();
            async move {
                match test.run().await {
                    Ok(()) => Finding::Ok(None),
                    Err(reason) => Finding::Failed(reason),
                }
            }
        });
    }

    async fn run(&self) -> Result<(), String> {
        self.served.check().map_err(|error| error.to_string())?;
        let bundle = self.served.bundle().ok_or("there is no certificate authority yet")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        let config = ClientConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(self.name.clone()).map_err(|error| error.to_string())?;
        let failed =
            |error: std::io::Error| format!("the server does not answer as {}: {error}", self.name);
        let stream = TcpStream::connect(&*self.addresses).await.map_err(failed)?;
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await.map_err(failed)?;
        stream.write_all(REQUEST).await.map_err(failed)?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).await.map_err(failed)?;
        if answer == *b"HTTP/1.1" { Ok(()) } else { Err("the answer is not HTTP".to_owned()) }
    }
}
