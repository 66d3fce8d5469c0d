//! An HTTP listener, with or without TLS.
//!
//! [`Listener::serve`] accepts connections, and each has a task of its own. A slow client cannot
//! hold a connection forever: its handshake, the time until the header of a request is complete,
//! and the whole connection are limited. Connections beyond its limit wait in the backlog
//! of the operating system until others have ended.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::tls::Tls;

/// How long a TLS handshake may take: as long as Go's HTTP client waits for one.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many connections there may be at a time.
    connections: usize,
    /// How long a connection may wait for a complete header, and so also how long it may be idle.
    header_timeout: Duration,
    /// How long a connection may last, so that a client that reads slowly does not hold it forever.
    /// Other clients reconnect.
    lifetime: Option<Duration>,
    /// How long the request that is under way at the end of the lifetime may still take.
    last_request: Duration,
    /// How long requests under way may take after the listener was stopped.
    pub(crate) drain: Duration,
}

/// For probes and scrapes: a few clients with short requests. The header timeout differs from the
/// usual scrape intervals (15, 30, 60 s): otherwise a scrape would often use a connection that is
/// just being closed. The drain is a small part of the 30 s that Kubernetes gives to the process.
const PROBES: Limits = Limits {
    connections: 128,
    header_timeout: Duration::from_secs(20),
    lifetime: Some(Duration::from_mins(2)),
    last_request: Duration::from_secs(5),
    drain: Duration::from_secs(5),
};

/// For webhooks. The API server has a connection for each call under way, and closes one that was
/// idle for 90 s: the server must not be the first to do so, because the call that is just being
/// sent would fail. A call takes at most 30 s.
pub(crate) const WEBHOOKS: Limits = Limits {
    connections: 4096,
    header_timeout: Duration::from_mins(2),
    lifetime: None,
    last_request: Duration::ZERO,
    drain: Duration::from_secs(30),
};

/// For the dashboard: a few browsers with at most six connections each, one of which is a stream of
/// a minute. At the end of the lifetime the stream may end by itself, because the page would report
/// that the connection is lost. When the listener stops, it is cut soon.
pub(crate) const DASHBOARD: Limits = Limits {
    connections: 64,
    header_timeout: Duration::from_secs(20),
    lifetime: Some(Duration::from_mins(2)),
    last_request: Duration::from_secs(65),
    drain: Duration::from_secs(1),
};

/// How long to wait after a connection could not be accepted. The usual reason is that there are
/// too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The largest header. Tokens have one to two kilobytes, with many groups some more.
const HEADER_BYTES_MAX: usize = 64 * 1024;

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
        let mut connections = JoinSet::new();
        let closed = CancellationToken::new();
        let mut has_failed = false;
        loop {
            let has_room = connections.len() < self.limits.connections;
            tokio::select! {
                () = stop.cancelled() => break,
                Some(ended) = connections.join_next() => log_panic(ended),
                accepted = self.inner.accept(), if has_room => match accepted {
                    Ok((stream, _)) => {
                        has_failed = false;
                        let tls = tls.clone();
                        let (limits, closed) = (self.limits, closed.clone());
                        let served = serve_connection(stream, router.clone(), tls, limits, closed);
                        connections.spawn(served);
                    }
                    Err(error) => {
                        // One line for each series of failures.
                        if !has_failed {
                            let address = self.address;
                            tracing::warn!(%address, %error, "a connection could not be accepted");
                        }
                        has_failed = true;
                        stop.run_until_cancelled(sleep(ACCEPT_PAUSE)).await;
                    }
                },
            }
        }
        // The port is closed first, so that a client whose connection ends reconnects to another
        // replica.
        drop(self.inner);
        closed.cancel();
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
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
fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a request could not be answered: please report this bug");
    }
}

async fn serve_connection(
    stream: TcpStream,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    stop: CancellationToken,
) {
    // Nagle's algorithm would only delay answers.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = tls else {
        return serve_requests(stream, router, limits, &stop).await;
    };
    let handshake = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    match stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => serve_requests(stream, router, limits, &stop).await,
        // Whoever can reach the port can cause these, so they are no warnings.
        Some(Ok(Err(error))) => tracing::debug!(%error, "a TLS handshake failed"),
        Some(Err(_)) => tracing::debug!("a TLS handshake took too long"),
        None => {}
    }
}

/// Answers the requests of a connection.
async fn serve_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: Limits,
    stop: &CancellationToken,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(HEADER_BYTES_MAX);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
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

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::watch;
    use tokio::time::Instant;

    use super::*;

    /// How long a connection may last, in seconds.
    const LIFETIME: u64 = 120;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";

    /// Serves a connection. Returns its task, and the end of the client.
    fn connect(router: Router, stop: &CancellationToken) -> (JoinSet<()>, DuplexStream) {
        connect_with(PROBES, router, stop)
    }

    fn connect_with(
        limits: Limits,
        router: Router,
        stop: &CancellationToken,
    ) -> (JoinSet<()>, DuplexStream) {
        let (client, server) = duplex(1024);
        let (mut task, stop) = (JoinSet::new(), stop.clone());
        task.spawn(async move { serve_requests(server, router, limits, &stop).await });
        (task, client)
    }

    /// A route that answers after some seconds.
    fn slow(seconds: u64) -> Router {
        Router::new().route("/", get(move || sleep(Duration::from_secs(seconds)).map(|()| "a")))
    }

    fn hello() -> Router {
        Router::new().route("/", get(|| async { "hello" }))
    }

    /// How long a connection lasts, in seconds.
    async fn lifetime(mut task: JoinSet<()>) -> u64 {
        let start = Instant::now();
        task.join_next().await.expect("a connection").expect("it must not panic");
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn header_that_never_ends_ends_the_connection() {
        let (task, mut client) = connect(hello(), &CancellationToken::new());
        client.write_all(b"GET / HTTP/1.1\r\nhost:").await.expect("written");
        assert_eq!(lifetime(task).await, PROBES.header_timeout.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_ends() {
        let (task, mut client) = connect(hello(), &CancellationToken::new());
        client.write_all(REQUEST).await.expect("written");
        assert_eq!(lifetime(task).await, PROBES.header_timeout.as_secs());
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.ends_with("hello"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_read_the_answer_loses_the_connection() {
        let long = Router::new().route("/", get(|| async { "long".repeat(1_000_000) }));
        let (task, mut client) = connect(long, &CancellationToken::new());
        client.write_all(REQUEST).await.expect("written");
        assert_eq!(lifetime(task).await, LIFETIME + PROBES.drain.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn stream_of_the_dashboard_that_began_within_the_lifetime_ends_by_itself() {
        let (task, mut client) = connect_with(DASHBOARD, slow(59), &CancellationToken::new());
        for _ in 0..3 {
            client.write_all(REQUEST).await.expect("written");
            let mut answer = vec![0; 1024];
            let size = client.read(&mut answer).await.expect("an answer");
            let answer = String::from_utf8_lossy(&answer[..size]);
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with('a'), "{answer:?}");
        }
        assert_eq!(lifetime(task).await, 0, "the last answer also ends the connection");
    }

    #[tokio::test(start_paused = true)]
    async fn stop_cuts_the_stream_of_the_dashboard_even_after_its_lifetime() {
        let stop = CancellationToken::new();
        let (task, mut client) = connect_with(DASHBOARD, slow(1_000), &stop);
        client.write_all(REQUEST).await.expect("written");
        sleep(Duration::from_secs(LIFETIME + 10)).await;
        stop.cancel();
        assert_eq!(lifetime(task).await, DASHBOARD.drain.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn stop_closes_idle_connections_at_once() {
        let stop = CancellationToken::new();
        let (fresh, _client) = connect(hello(), &stop);
        let (used, mut client) = connect(hello(), &stop);
        client.write_all(REQUEST).await.expect("written");
        let mut answer = [0; 8];
        client.read_exact(&mut answer).await.expect("an answer");
        tokio::task::yield_now().await;
        stop.cancel();
        assert_eq!((lifetime(fresh).await, lifetime(used).await), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn stop_waits_for_a_request_under_way_but_not_forever() {
        for (takes, lasts, is_answered) in [(3, 3, true), (60, PROBES.drain.as_secs(), false)] {
            let (stop, start) = (CancellationToken::new(), Instant::now());
            let (task, mut client) = connect(slow(takes), &stop);
            client.write_all(REQUEST).await.expect("written");
            // The handler has begun when the time has moved on.
            sleep(Duration::from_millis(1)).await;
            stop.cancel();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.expect("an end");
            assert_eq!(start.elapsed().as_secs(), lasts);
            assert_eq!(answer.starts_with("HTTP/1.1 200"), is_answered, "{answer}");
            lifetime(task).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn header_that_is_too_large_is_refused() {
        let (task, mut client) = connect(hello(), &CancellationToken::new());
        let header = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(HEADER_BYTES_MAX));
        // The connection may be closed before everything is written.
        let _ = client.write_all(header.as_bytes()).await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
        lifetime(task).await;
    }

    #[tokio::test]
    async fn connections_beyond_the_bound_wait_for_others_to_end() {
        let (begun, go_on) = (watch::Sender::new(0), CancellationToken::new());
        let (count, wait) = (begun.clone(), go_on.clone());
        let handler = async move || {
            count.send_modify(|count| *count += 1);
            wait.cancelled().await;
            "hello"
        };
        let listener = Listener::bind("127.0.0.1:0", "--flag").await.expect("a free port");
        let (address, stop) = (listener.address(), CancellationToken::new());
        let router = Router::new().route("/", get(handler));
        let mut serving = JoinSet::new();
        serving.spawn(listener.serve(router, None, stop.clone()));
        let mut clients = JoinSet::new();
        for _ in 0..PROBES.connections + 10 {
            clients.spawn(async move {
                let mut client = TcpStream::connect(address).await.expect("a connection");
                let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
                client.write_all(request).await.expect("written");
                let mut answer = String::new();
                client.read_to_string(&mut answer).await.expect("an answer");
                assert!(answer.ends_with("hello"), "{answer}");
            });
        }
        let full =
            begun.subscribe().wait_for(|count| *count >= PROBES.connections).await.map(|_| ());
        full.expect("as many requests as connections");
        // Others would begin now, if they could.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(*begun.borrow(), PROBES.connections);
        go_on.cancel();
        while let Some(client) = clients.join_next().await {
            client.expect("every client must get its answer");
        }
        stop.cancel();
        serving.join_next().await.expect("a listener").expect("it must not panic");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn port_is_closed_before_the_connections() {
        for _ in 0..100 {
            let listener = Listener::bind("127.0.0.1:0", "--flag").await.expect("a free port");
            let (address, stop) = (listener.address(), CancellationToken::new());
            let mut serving = JoinSet::new();
            serving.spawn(listener.serve(hello(), None, stop.clone()));
            let mut client = TcpStream::connect(address).await.expect("a connection");
            client.write_all(REQUEST).await.expect("written");
            client.read_exact(&mut [0; 8]).await.expect("an answer");
            stop.cancel();
            client.read_to_end(&mut Vec::new()).await.expect("an end");
            TcpStream::connect(address).await.expect_err("the port must be closed");
            serving.join_next().await.expect("a listener").expect("it must not panic");
        }
    }
}
