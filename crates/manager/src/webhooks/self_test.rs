//! A readiness check: connects to the webhook server and verifies its certificate, as the API
//! server will.

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

use crate::http::checks::{Checks, Finding, Probe};
use crate::http::tls::Clock;

/// The name of the readiness check of webhooks.
pub(crate) const CHECK: &str = "webhooks";

/// Nothing is served at `/`. Any HTTP answer will do, also a 404.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: webhooks\r\nconnection: close\r\n\r\n";

/// Connects as the API server does.
#[derive(Clone)]
pub(super) struct SelfTest {
    /// They are tried in order until one accepts a connection: IPv6 may be turned off.
    addresses: Vec<SocketAddr>,
    /// A name that the certificate is valid for.
    name: String,
    served: Served,
    /// The API server's: it is the API server that connects.
    clock: Clock,
}

impl SelfTest {
    pub(super) fn new(address: SocketAddr, name: String, served: Served, clock: Clock) -> Self {
        let local = |ip| SocketAddr::new(ip, address.port());
        let addresses = if address.ip().is_unspecified() {
            vec![local(Ipv4Addr::LOCALHOST.into()), local(Ipv6Addr::LOCALHOST.into())]
        } else {
            vec![address]
        };
        Self { addresses, name, served, clock }
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
        let (provider, now) = (default_provider().into(), Arc::new(self.clock.clone()));
        let config = ClientConfig::builder_with_details(provider, now)
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

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;
    use windlass_testserver::TestServer;
    use windlass_webhook::certificates::Certificates;

    use super::*;
    use crate::http::{Listener, tls};

    fn clock() -> Clock {
        Clock::new(jiff::Timestamp::now)
    }

    /// Certificates for this name.
    fn certificates(name: &str) -> Certificates {
        let client = TestServer::embedded().client().expect("a client");
        Certificates::new(client, "default", "certificates", [name]).expect("a valid name")
    }

    /// What `/readyz` says of a server that presents `presented`, if clients are told to expect
    /// `expected` for the name `hooks`.
    async fn readyz(presented: &Served, expected: &Served) -> String {
        let listener = Listener::bind("127.0.0.1:0", "--flag").await.expect("a free port");
        let (address, stop) = (listener.address(), CancellationToken::new());
        let checks = Checks::default();
        SelfTest::new(address, "hooks".to_owned(), expected.clone(), clock()).add_to(&checks);
        let acceptor = tls::acceptor(presented.resolver(), None, clock());
        let (tasks, until) = (TaskTracker::new(), stop.clone());
        tasks.spawn(async move {
            listener.accept(axum::Router::new(), Some(acceptor), &until).await;
        });
        tasks.close();
        let answer = checks.answer(Probe::Ready, "readyz", &[], true).await;
        stop.cancel();
        tasks.wait().await;
        assert_eq!(answer.is_ok, answer.text.contains("readyz check passed"));
        answer.text
    }

    #[tokio::test]
    async fn replica_is_ready_only_if_it_answers_with_a_certificate_that_is_trusted() {
        let (mut own, mut foreign, mut misnamed) =
            (certificates("hooks"), certificates("hooks"), certificates("others"));
        let missing = readyz(&own.served(), &own.served()).await;
        assert!(missing.starts_with("[-]webhooks failed: "), "{missing}");
        for certificates in [&mut own, &mut foreign, &mut misnamed] {
            certificates.ensure().await.expect("certificates");
        }
        let (own, foreign, misnamed) = (own.served(), foreign.served(), misnamed.served());
        assert_eq!(readyz(&own, &own).await, "[+]webhooks ok\nreadyz check passed\n");
        for (presented, expected) in [(&foreign, &own), (&misnamed, &misnamed)] {
            let text = readyz(presented, expected).await;
            let reason = "[-]webhooks failed: the server does not answer as hooks: invalid peer";
            assert!(text.starts_with(reason), "{text}");
        }
    }

    #[tokio::test]
    async fn replica_whose_port_is_closed_is_not_ready() {
        let mut certificates = certificates("hooks");
        certificates.ensure().await.expect("certificates");
        let listener = Listener::bind("127.0.0.1:0", "--flag").await.expect("a free port");
        let test = {
            let name = "hooks".to_owned();
            SelfTest::new(listener.address(), name, certificates.served(), clock())
        };
        drop(listener);
        let reason = test.run().await.expect_err("nobody listens");
        assert!(reason.starts_with("the server does not answer as hooks: "), "{reason}");
    }
}
