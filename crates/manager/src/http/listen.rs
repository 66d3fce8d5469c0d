//! An HTTP listener, with or without TLS.
//!
//! [`Listener::serve`] accepts connections, and each has a task of its own. A slow client cannot
//! hold a connection forever: handshakes, headers, answers and idle connections have time limits.
//! Nor can many clients keep others out: when there are as many connections as there may be, one
//! that is not used is closed for the next (`connections.rs` has the rule), and the listener goes
//! on accepting.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::{Extension, Router};
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
#[cfg(target_os = "linux")]
use procfs::process::{LimitValue, Process};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;
use windlass_serve::LogLimit;

use super::connections::{Connections, Place};
use super::progress::{Progress, Timed};
use super::tls::Tls;
use super::tls::clients::VerifiedClient;

/// How long a TLS handshake may take: as long as Go's HTTP client waits for one.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many connections there may be at a time, unless the process may have few open files.
    connections: usize,
    /// How long a request may be under way before its connection may be closed for another one.
    busy_min: Duration,
    /// The largest header, and how much of a body is read at once. With the number of connections,
    /// it bounds the memory that clients can use.
    buffer_bytes: usize,
    /// How long a connection may be idle.
    idle_timeout: Duration,
    /// How long a client may take to read an answer.
    answer_timeout: Duration,
    /// How long a connection may last. Other clients reconnect.
    lifetime: Option<Duration>,
    /// How long the request that is under way at the end of the lifetime may still take.
    last_request: Duration,
    /// How long requests under way may take after the listener was stopped.
    pub(crate) drain: Duration,
}

/// For probes and scrapes: a few clients with short requests. An honest one is answered within
/// milliseconds, and the kubelet waits for a second, so what is under way for longer than a tenth
/// of that makes room. Tokens have one to two kilobytes, with many groups some more. The idle
/// timeout differs from the usual scrape intervals (15, 30, 60 s): otherwise a scrape would often
/// use a connection that is just being closed. The drain is a small part of the 30 s that
/// Kubernetes gives to the process.
const PROBES: Limits = Limits {
    connections: 128,
    busy_min: Duration::from_millis(100),
    buffer_bytes: 64 * 1024,
    idle_timeout: Duration::from_secs(20),
    answer_timeout: Duration::from_secs(30),
    lifetime: Some(Duration::from_mins(2)),
    last_request: Duration::from_secs(5),
    drain: Duration::from_secs(5),
};

/// For webhooks. The API server has a connection for each call under way, and closes one that was
/// idle for 90 s: the server must not be the first to do so, because the call that is just being
/// sent would fail. A call takes at most 30 s, and 10 s by default: within half of that, it is not
/// closed for another one. Its header has some hundred bytes.
pub(crate) const WEBHOOKS: Limits = Limits {
    connections: 4096,
    busy_min: Duration::from_secs(5),
    buffer_bytes: 16 * 1024,
    idle_timeout: Duration::from_mins(2),
    answer_timeout: Duration::from_secs(30),
    lifetime: None,
    last_request: Duration::ZERO,
    drain: Duration::from_secs(30),
};

/// For the dashboard: a few browsers with at most six connections each, one of which is a stream of
/// a minute. At the end of the lifetime the stream may end by itself, because the page would report
/// that the connection is lost. When the listener stops, it is cut soon.
pub(crate) const DASHBOARD: Limits = Limits {
    connections: 64,
    busy_min: Duration::from_secs(1),
    buffer_bytes: 64 * 1024,
    idle_timeout: Duration::from_secs(20),
    answer_timeout: Duration::from_secs(90),
    lifetime: Some(Duration::from_mins(2)),
    last_request: Duration::from_secs(65),
    drain: Duration::from_secs(1),
};

/// How long to wait after a connection could not be accepted. The usual reason is that there are
/// too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener has at most one in so many of the files that the process may have open: others, and
/// the connections to the API server, need some as well.
const OPEN_FILES_SHARE: usize = 4;

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

/// An address cannot be bound. The message says why, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.message())]
pub struct BindError {
    address: String,
    flag: String,
    source: io::Error,
}

impl BindError {
    fn message(&self) -> String {
        let Self { address, flag, source } = self;
        match source.kind() {
            io::ErrorKind::AddrInUse => format!(
                "address {address} is in use: stop the other process, or choose another address \
                 with {flag}"
            ),
            io::ErrorKind::PermissionDenied => format!(
                "this user may not listen on address {address}: choose a port above 1023 with \
                 {flag}"
            ),
            io::ErrorKind::AddrNotAvailable => format!(
                "address {address} is not an address of this machine: choose another one with \
                 {flag}, such as 127.0.0.1:8080, or :8080 for all addresses of the machine"
            ),
            _ => format!(
                "address {address} cannot be bound ({source}): give {flag} a host and a port, \
                 such as 127.0.0.1:8080, or :8080 for all addresses of the machine"
            ),
        }
    }
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
            Err(source) => {
                Err(BindError { address: address.to_owned(), flag: flag.to_owned(), source })
            }
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
        let limits = self.limits;
        let max = at_most(limits.connections, open_files_max());
        let connections = Connections::new(max, limits.busy_min);
        let mut tasks = JoinSet::new();
        let closed = CancellationToken::new();
        // A connection that has no place yet.
        let mut next = None;
        let (address, log) = (self.address, LogLimit::new());
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(ended) = tasks.join_next() => log_panic(ended, &log),
                accepted = self.inner.accept(), if next.is_none() => match accepted {
                    Ok((stream, _)) => next = Some(stream),
                    // The client has given up, which is no reason to make others wait.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        if let Some(line) = log.line("not accepted") {
                            let left_out = line.left_out;
                            tracing::warn!(
                                %address, %error, left_out, "a connection could not be accepted"
                            );
                        }
                        // It may be this listener that has too many files open.
                        connections.close_unused();
                        stop.run_until_cancelled(sleep(ACCEPT_PAUSE)).await;
                    }
                },
                (place, has_closed) = connections.place(), if next.is_some() => {
                    let stream = next.take().expect("there must be a connection");
                    let (router, tls, closed) = (router.clone(), tls.clone(), closed.clone());
                    tasks.spawn(serve_connection(stream, place, router, tls, limits, closed));
                    if has_closed {
                        if let Some(line) = log.line("full") {
                            let left_out = line.left_out;
                            tracing::warn!(
                                %address, max, left_out,
                                "there are too many connections: one was closed for another"
                            );
                        }
                        // A request that came with its connection is read before the next
                        // connection can be accepted in its place.
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
        // The port is closed first, so that a client whose connection ends reconnects to another
        // replica.
        drop(self.inner);
        closed.cancel();
        while let Some(ended) = tasks.join_next().await {
            log_panic(ended, &log);
        }
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

/// Logs the panic of a connection, which logs its errors itself.
fn log_panic(ended: Result<(), JoinError>, log: &LogLimit) {
    if let Err(error) = ended
        && let Some(line) = log.line("panic")
    {
        let message = "a request could not be answered: please report this bug";
        tracing::error!(%error, left_out = line.left_out, "{message}");
    }
}

/// So many connections, or fewer if the process may have only so many open files.
fn at_most(connections: usize, open_files: Option<usize>) -> usize {
    let share = open_files.map_or(connections, |files| files / OPEN_FILES_SHARE);
    connections.min(share.max(1))
}

/// How many files the process may have open, if that is known.
#[cfg(target_os = "linux")]
fn open_files_max() -> Option<usize> {
    let limits = Process::myself().and_then(|process| process.limits()).ok()?;
    match limits.max_open_files.soft_limit {
        LimitValue::Value(files) => usize::try_from(files).ok(),
        LimitValue::Unlimited => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_files_max() -> Option<usize> {
    None
}

async fn serve_connection(
    stream: TcpStream,
    place: Place,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    stop: CancellationToken,
) {
    // Nagle's algorithm would only delay answers.
    let _ = stream.set_nodelay(true);
    let progress = Progress::new(place, limits.answer_timeout);
    let Some(acceptor) = tls else {
        return serve_requests(stream, router, limits, &progress, &stop).await;
    };
    let handshake = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let shaken = tokio::select! {
        shaken = handshake => shaken,
        () = stop.cancelled() => return,
        () = progress.closed() => return,
    };
    match shaken {
        Ok(Ok(stream)) => {
            // It was verified, or the handshake would have failed.
            let is_known = stream.get_ref().1.peer_certificates().is_some();
            let router = if is_known { router.layer(Extension(VerifiedClient)) } else { router };
            serve_requests(stream, router, limits, &progress, &stop).await;
        }
        // Whoever can reach the port can cause these, so they are no warnings.
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Answers the requests of a connection, unless another one gets its place.
async fn serve_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: Limits,
    progress: &Arc<Progress>,
    stop: &CancellationToken,
) {
    tokio::select! {
        () = answer_requests(stream, router, limits, progress, stop) => {}
        () = progress.closed() => {}
    }
}

async fn answer_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: Limits,
    progress: &Arc<Progress>,
    stop: &CancellationToken,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_timeout)
        .max_buf_size(limits.buffer_bytes)
        .max_header_size(limits.buffer_bytes);
    let service = service_fn(|request: Request<Incoming>| {
        let (mut router, progress) = (router.clone(), Arc::clone(progress));
        let request = request.map(|body| Body::new(progress.begin(body)));
        async move {
            let answer = router.call(request).await?;
            Ok::<_, Infallible>(answer.map(|body| progress.answer(body)))
        }
    });
    let stream = TokioIo::new(Timed::new(stream, Arc::clone(progress)));
    let mut connection = pin!(builder.serve_connection(stream, service));
    let lifetime_is_over = async {
        match limits.lifetime {
            Some(lifetime) => sleep(lifetime).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = connection.as_mut() => return log_error(ended),
        () = stop.cancelled() => {}
        () = lifetime_is_over => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => return log_error(ended),
                () = stop.cancelled() => {}
                () = sleep(limits.last_request) => return,
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    if let Ok(ended) = timeout(limits.drain, connection).await {
        log_error(ended);
    }
}

fn log_error(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
