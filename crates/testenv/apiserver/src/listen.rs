//! Serves the API over loopback HTTP/1.1, with TLS or without, for kubectl and for programs in
//! other languages.

use std::net::{Ipv4Addr, SocketAddr};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::server::ApiServer;
use crate::tls::Tls;

/// How long connections may take to end after the listener has stopped.
const GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// How long a client may take for the TLS handshake.
const HANDSHAKE: std::time::Duration = std::time::Duration::from_secs(10);

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
        self.listen_with(address, Some(tls.clone())).await
    }

    async fn listen_with(
        &self,
        address: SocketAddr,
        tls: Option<Tls>,
    ) -> std::io::Result<Listening> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let mut accepting = JoinSet::new();
        let authority = tls.as_ref().map(|tls| tls.authority().to_owned());
        accepting.spawn(accept(listener, self.clone(), tls, stop.clone()));
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

async fn accept(
    listener: TcpListener,
    server: ApiServer,
    tls: Option<Tls>,
    stop: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    let (server, tls, stop) = (server.clone(), tls.clone(), stop.clone());
                    connections.spawn(connect(stream, server, tls, stop));
                }
                // Most likely there are too many open files: wait for connections to end.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn connect(stream: TcpStream, server: ApiServer, tls: Option<Tls>, stop: CancellationToken) {
    let Some(tls) = tls else { return serve(stream, server, stop).await };
    let handshake = tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream));
    match stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => serve(stream, server, stop).await,
        Some(Ok(Err(error))) => tracing::debug!(%error, "a handshake failed"),
        Some(Err(_)) | None => {}
    }
}

async fn serve<S>(stream: S, server: ApiServer, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(server.service());
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new());
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke");
            }
            return;
        }
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    // Watches would not end by themselves: this closes them.
    let _ = tokio::time::timeout(std::time::Duration::from_millis(100), connection).await;
}
