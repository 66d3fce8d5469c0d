//! The accept loop and its connections, with or without TLS.
//!
//! [`serve`] accepts connections, and each has a task of its own. A slow client cannot hold a
//! connection forever: handshakes, headers, answers and idle connections have time limits. Nor can
//! many clients keep others out: when there are as many connections as there may be, one that is
//! not used is closed for the next (`connections.rs` has the rule), and the loop goes on accepting.

#[cfg(test)]
mod tests;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
#[cfg(target_os = "linux")]
use procfs::process::{LimitValue, Process};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

use crate::connections::{Connections, Place};
use crate::limits::Limits;
use crate::log_limit::LogLimit;
use crate::progress::{Progress, RequestBody, Timed};

/// How long a TLS handshake may take: as long as Go's HTTP client waits for one.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait after a connection could not be accepted. The usual reason is that there are
/// too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server with a bound has at most one in so many of the files that the process may have open:
/// others, and the connections to the API server, need some as well.
const OPEN_FILES_SHARE: usize = 4;

/// An extension of the requests of a client whose certificate was verified.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedClient;

/// Serves HTTP/1.1 until the token is cancelled. Then it closes the port and idle connections, and
/// gives requests under way the time that the limits have for them.
///
/// Cancel safety: if it is dropped, the port and all connections are closed at once.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    stop: &CancellationToken,
) where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S: Service<Request<RequestBody>, Error: Into<BoxError>, Future: Send>,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    let max = limits.connections.map_or(usize::MAX, |max| at_most(max, open_files_max()));
    let connections = Connections::new(max, limits.busy_min);
    let server = Server { service, tls, limits, stop: CancellationToken::new() };
    let mut tasks = JoinSet::new();
    // A connection that has no place yet.
    let mut next = None;
    let log = LogLimit::new();
    let address = listener.local_addr().ok().map(tracing::field::display);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = tasks.join_next() => log_panic(ended, &log),
            accepted = listener.accept(), if next.is_none() => match accepted {
                Ok((stream, _)) => next = Some(stream),
                // The client has given up, which is no reason to make others wait.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if let Some(line) = log.line("not accepted") {
                        let left_out = line.left_out;
                        tracing::warn!(
                            address, %error, left_out, "a connection could not be accepted"
                        );
                    }
                    // It may be this server that has too many files open.
                    connections.close_unused();
                    stop.run_until_cancelled(sleep(ACCEPT_PAUSE)).await;
                }
            },
            (place, has_closed) = connections.place(), if next.is_some() => {
                if let Some(stream) = next.take() {
                    tasks.spawn(server.clone().connect(stream, place));
                }
                if has_closed {
                    if let Some(line) = log.line("full") {
                        let left_out = line.left_out;
                        tracing::warn!(
                            address, max, left_out,
                            "there are too many connections: one was closed for another"
                        );
                    }
                    // A request that came with its connection is read before the next connection
                    // can be accepted in its place.
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    // The port is closed first, so that a client whose connection ends reconnects to another
    // replica.
    drop(listener);
    server.stop.cancel();
    while let Some(ended) = tasks.join_next().await {
        log_panic(ended, &log);
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

/// What all connections have in common.
#[derive(Clone)]
struct Server<S> {
    service: S,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    stop: CancellationToken,
}

impl<S, B> Server<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S: Service<Request<RequestBody>, Error: Into<BoxError>, Future: Send>,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    /// Serves a connection, unless another one gets its place.
    async fn connect(self, stream: TcpStream, place: Place) {
        // Nagle's algorithm would only delay answers.
        let _ = stream.set_nodelay(true);
        let progress = Progress::new(place, self.limits.answer_timeout);
        tokio::select! {
            () = self.shake_hands(stream, &progress) => {}
            () = progress.closed() => {}
        }
    }

    async fn shake_hands(self, stream: TcpStream, progress: &Arc<Progress>) {
        let Some(acceptor) = &self.tls else { return self.answer(stream, false, progress).await };
        let handshake = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
        match self.stop.run_until_cancelled(handshake).await {
            None => {}
            Some(Ok(Ok(stream))) => {
                // It was verified, or the handshake would have failed.
                let is_verified = stream.get_ref().1.peer_certificates().is_some();
                self.answer(stream, is_verified, progress).await;
            }
            // Whoever can reach the port can cause these, so they are no warnings.
            Some(Ok(Err(error))) => tracing::debug!(%error, "a TLS handshake failed"),
            Some(Err(_)) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    /// Answers the requests of a connection.
    async fn answer(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_verified: bool,
        progress: &Arc<Progress>,
    ) {
        let Self { service, limits, stop, .. } = self;
        let service = TowerToHyperService::new(service);
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(|body| progress.begin(body));
            if is_verified {
                request.extensions_mut().insert(VerifiedClient);
            }
            let answer = service.call(request);
            async move { answer.await.map(|answer| answer.map(|body| progress.answer(body))) }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle_timeout)
            .max_buf_size(limits.buffer_bytes)
            .max_header_size(limits.buffer_bytes);
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
}

fn log_error(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
