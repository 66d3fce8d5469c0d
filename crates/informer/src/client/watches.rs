//! How watches get to a server: over HTTP/2, each on a connection of its own. All other requests go kube's way, which is
//! HTTP/1.1.
//!
//! Over HTTP/1.1 a server sends a watch in chunks of one event or a few, and hyper hands them over one at a time: from the
//! task of the connection to the reader, and back for the next. A streamed list of 50,000 small objects took 27,000 switches
//! between threads that way. Over HTTP/2 the connection puts aside what has arrived, and the reader takes all of it when it
//! comes.
//!
//! Each has its own connection, as over HTTP/1.1, because a server bounds how many streams one may have (100, unless it
//! is told otherwise, and fewer than some have namespaces), and because what becomes of one watch must not be
//! another's affair: a connection that has died would be found again by whoever watches next. So every attempt is a
//! handshake, shortened by what TLS remembers of the last one.
//!
//! A server that does not know HTTP/2 says so as the connection is made, and is talked to by HTTP/1.1.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt as _;
use http::uri::Scheme;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use super::{ConnectError, HttpService, ResponseBody, erase, verb};

/// What a server may send of a watch before it is read. A reader that lags holds so much more in memory.
const WINDOW: u32 = 2 << 20;

/// The same for its connection, which has no other stream, and so is never what bounds it. But h2 ends a connection on
/// which many small frames wait to be read, beyond half of this.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// After so long without anything from the server, it is asked whether it is there. As client-go does.
const PING_AFTER: Duration = Duration::from_secs(30);

/// By then it must have said so.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

type Connector = TimeoutConnector<HttpsConnector<HttpConnector>>;

/// Sends watches one way, and all other requests another.
pub(super) struct Watches<S> {
    watches: HttpService,
    others: S,
}

impl<S> Watches<S> {
    pub(super) fn new(watches: HttpService, others: S) -> Self {
        Self { watches, others }
    }
}

impl<S> Service<Request<Body>> for Watches<S>
where
    S: Service<Request<Body>, Response = Response<ResponseBody>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        ready!(self.watches.poll_ready(cx))?;
        self.others.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if verb::is_watch(&request) {
            self.watches.call(request).boxed()
        } else {
            self.others.call(request).boxed()
        }
    }
}

/// Whether watches have a way of their own: not through a proxy, nor without TLS, by which the two sides agree on a protocol.
/// Nor with credentials that a program fetches, because it would be run, and perhaps ask its user, once more.
pub(super) fn is_possible(config: &kube::Config) -> bool {
    let auth = &config.auth_info;
    config.cluster_url.scheme() == Some(&Scheme::HTTPS)
        && config.proxy_url.is_none()
        && auth.exec.is_none()
        && auth.auth_provider.is_none()
}

/// The way of watches.
///
/// # Errors
/// If the credentials or certificates cannot be used.
pub(super) fn service(config: &kube::Config) -> Result<HttpService, ConnectError> {
    let refused = |error| ConnectError::new(&error);
    let connector = connector(config)?;
    let mut builder = legacy::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .retry_canceled_requests(false)
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT);
    let alone = service_fn(move |request: Request<Body>| {
        let client: legacy::Client<_, Body> = builder.build(connector.clone());
        async move {
            let answer = client.request(request).await?;
            // With nobody who could send another request, hyper would not ask whether the server is there.
            let hold = move |frame| {
                let _ = &client;
                frame
            };
            Ok::<_, legacy::Error>(answer.map(|body| body.map_frame(hold)))
        }
    });
    let layered = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(refused)?)
        .layer(config.extra_headers_layer().map_err(refused)?)
        .map_err(BoxError::from)
        .service(alone);
    Ok(erase(layered))
}

/// As kube makes its own, but for the protocol.
fn connector(config: &kube::Config) -> Result<Connector, ConnectError> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let tls = config.rustls_client_config().map_err(|error| ConnectError::new(&error))?;
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|_| ConnectError::server_name(name))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = builder.enable_http1().enable_http2().wrap_connector(connector);
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(connector)
}
