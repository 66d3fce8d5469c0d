//! The addresses of a manager: what their clients may use, and how they are bound and served.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use windlass_serve::{BindError, Limits, serve};

use super::tls::Tls;

/// For probes and scrapes: a few clients with short requests. An honest one is answered within
/// milliseconds, and the kubelet waits for a second, so what is under way for longer than a tenth
/// of that makes room. Tokens have one to two kilobytes, with many groups some more. The idle
/// timeout differs from the usual scrape intervals (15, 30, 60 s): otherwise a scrape would often
/// use a connection that is just being closed. The drain is a small part of the 30 s that
/// Kubernetes gives to the process.
const PROBES: Limits = Limits {
    connections: Some(128),
    busy_min: Duration::from_millis(100),
    buffer_bytes: 64 * 1024,
    idle_timeout: Duration::from_secs(20),
    answer_timeout: Some(Duration::from_secs(30)),
    lifetime: Some(Duration::from_mins(2)),
    last_request: Duration::from_secs(5),
    drain: Duration::from_secs(5),
};

/// For webhooks. The API server has a connection for each call under way, and closes one that was
/// idle for 90 s: the server must not be the first to do so, because the call that is just being
/// sent would fail. A call takes at most 30 s, and 10 s by default: within half of that, it is not
/// closed for another one. Its header has some hundred bytes.
pub(crate) const WEBHOOKS: Limits = Limits {
    connections: Some(4096),
    busy_min: Duration::from_secs(5),
    buffer_bytes: 16 * 1024,
    idle_timeout: Duration::from_mins(2),
    answer_timeout: Some(Duration::from_secs(30)),
    lifetime: None,
    last_request: Duration::ZERO,
    drain: Duration::from_secs(30),
};

const _: () = assert!(WEBHOOKS.idle_timeout.as_secs() > 90, "the API server must be the first");

/// For the dashboard: a few browsers with at most six connections each, one of which is a stream of
/// a minute. At the end of the lifetime the stream may end by itself, because the page would report
/// that the connection is lost. When the listener stops, it is cut soon.
pub(crate) const DASHBOARD: Limits = Limits {
    connections: Some(64),
    busy_min: Duration::from_secs(1),
    buffer_bytes: 64 * 1024,
    idle_timeout: Duration::from_secs(20),
    answer_timeout: Some(Duration::from_secs(90)),
    lifetime: Some(Duration::from_mins(2)),
    last_request: Duration::from_secs(65),
    drain: Duration::from_secs(1),
};

/// An address that is bound, and not served yet.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use axum::{Router, routing::get};
/// use tokio_util::sync::CancellationToken;
/// use windlass_manager::http::Listener;
///
/// let stop = CancellationToken::new();
/// let listener = Listener::bind("127.0.0.1:8080", "--metrics-bind-address").await?;
/// let router = Router::new().route("/metrics", get(|| async { "# EOF\n" }));
/// listener.serve(router, None, stop).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listener {
    inner: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

impl Listener {
    /// Binds an address: a host and a port, or `:8080` for all addresses of the machine, as in Go.
    /// Port 0 selects a free port. `flag` is the flag that sets the address; errors name it.
    ///
    /// Cancel safety: if it is dropped, nothing is bound.
    ///
    /// # Errors
    /// Returns an error if the address is in use, is not of this machine, or is invalid.
    pub async fn bind(address: &str, flag: &str) -> Result<Self, BindError> {
        let bound = bind(address).await.and_then(|inner| Ok((inner.local_addr()?, inner)));
        match bound {
            Ok((address, inner)) => Ok(Self { inner, address, limits: PROBES }),
            Err(source) => Err(BindError::new(&address, flag, source)),
        }
    }

    /// The same listener with other limits.
    pub(crate) fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The address that is bound, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves a router until the token is cancelled. Then it closes the port and idle connections,
    /// and waits at most 5 s for requests under way. With TLS, it also reloads the files of the
    /// certificate when they change.
    ///
    /// Cancel safety: if it is dropped, the port and all connections are closed at once.
    pub async fn serve(self, router: Router, tls: Option<Tls>, stop: CancellationToken) {
        let acceptor = tls.as_ref().map(Tls::acceptor);
        let reload = async {
            if let Some(tls) = &tls {
                tls.reload_until(&stop).await;
            }
        };
        tokio::join!(self.accept(router, acceptor, &stop), reload);
    }

    /// Like [`serve`](Self::serve), with handshakes that somebody else is responsible for.
    pub(crate) async fn accept(
        self,
        router: Router,
        tls: Option<TlsAcceptor>,
        stop: &CancellationToken,
    ) {
        serve(self.inner, router, tls, self.limits, stop).await;
    }
}

async fn bind(address: &str) -> io::Result<TcpListener> {
    let Some(port) = address.strip_prefix(':') else {
        return TcpListener::bind(address).await;
    };
    // This also accepts IPv4, but fails on a machine without IPv6.
    match TcpListener::bind(format!("[::]:{port}")).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(format!("0.0.0.0:{port}")).await
        }
        bound => bound,
    }
}
