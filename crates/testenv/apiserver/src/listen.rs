//! Serves the API over loopback HTTP/1.1, with TLS or without, for kubectl and for programs in
//! other languages.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_serve::{Limits, serve};

use crate::server::ApiServer;
use crate::tls::Tls;

/// How long connections may take to end after the listener has stopped.
const GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// A server that listens on a port until this is dropped.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    stop: CancellationToken,
    accepting: JoinSet<()>,
    /// The certificate of the authority that clients have to trust; `None` without TLS.
    authority: Option<String>,
}

impl ApiServer {
    /// Listens on an address; port 0 picks a free one. Use a loopback address: there is no TLS.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn listen(&self, address: SocketAddr) -> std::io::Result<Listening> {
        self.listen_with(address, None).await
    }

    /// Like [`listen`](Self::listen), with TLS.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn listen_tls(&self, address: SocketAddr, tls: &Tls) -> std::io::Result<Listening> {
        self.listen_with(address, Some(tls)).await
    }

    async fn listen_with(
        &self,
        address: SocketAddr,
        tls: Option<&Tls>,
    ) -> std::io::Result<Listening> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (stop, service) = (CancellationToken::new(), self.service());
        let (mut accepting, stopped) = (JoinSet::new(), stop.clone());
        let acceptor = tls.map(|tls| tls.acceptor.clone());
        accepting.spawn(async move {
            serve(listener, service, acceptor, Limits::TRUSTED, &stopped).await;
        });
        let authority = tls.map(|tls| tls.authority().to_owned());
        Ok(Listening { address, stop, accepting, authority })
    }
}

impl Listening {
    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        let mut address = self.address;
        if address.ip().is_unspecified() {
            // Clients reach a server on all interfaces at this address, and its certificate is
            // valid for it.
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        format!("{scheme}://{address}")
    }

    /// Returns the certificate of the authority that clients have to trust, in PEM; `None` without
    /// TLS.
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Stops accepting connections, gives the open ones a moment to end, and then closes them.
    ///
    /// Cancel safety: dropped half-way, everything stops at once.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let _ = tokio::time::timeout(GRACE, self.accepting.join_next()).await;
    }
}
