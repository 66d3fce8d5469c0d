//! How watches get to a server: each over a connection of its own, read by whoever reads the watch. All other requests go
//! kube's way.
//!
//! Over HTTP/1.1 a server sends a watch in chunks of one event or a few, and hyper hands them over one at a time: from the
//! task of the connection to the reader, and back for the next. A streamed list of 50,000 small objects took 27,000 switches
//! between threads that way. Over HTTP/2 the connection puts aside what has arrived, but there is much more to it: of the code
//! that an event passed through on its way to a reconciler, a seventh was HTTP/2's. See [`exchange`](super::exchange).
//!
//! What becomes of one watch is not another's affair, and a connection that has died is not found again by whoever watches
//! next. Every attempt is a handshake, shortened by what TLS remembers of the last one.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::{Method, Request, Response, Uri};
use http_body::Body as _;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use kube::client::{Body, ConfigExt as _};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _, service_fn};

use super::exchange::exchange;
use super::gathering::Gathering;
use super::{ConnectError, HttpService, ResponseBody, erase, verb};

/// After so long without anything from the server, the kernel asks its kernel whether it is there, as often as
/// [`PROBES`], this long apart; not every system knows the last two. Whatever stands between them and ends TCP answers for it.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

type Connector = TimeoutConnector<HttpsConnector<Tcp>>;

/// Makes connections that are left alone for a moment when data comes steadily.
#[derive(Clone)]
struct Tcp {
    connector: HttpConnector,
    gather_for: Duration,
}

impl Service<Uri> for Tcp {
    type Response = TokioIo<Gathering>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connection, gather_for) = (self.connector.call(uri), self.gather_for);
        async move { Ok(TokioIo::new(Gathering::new(connection.await?.into_inner(), gather_for))) }
            .boxed()
    }
}

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
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        ready!(self.watches.poll_ready(cx))?;
        self.others.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_plain_watch(&request) {
            self.watches.call(request).boxed()
        } else {
            self.others.call(request).boxed()
        }
    }
}

/// Whether it is a watch as clients ask for it: nothing is sent with it, and an answer of any length is all that it wants.
fn is_plain_watch(request: &Request<Body>) -> bool {
    let headers = request.headers();
    let has_more =
        [UPGRADE, CONTENT_LENGTH, TRANSFER_ENCODING].iter().any(|name| headers.contains_key(name));
    // What is compressed on request, kube decodes.
    let is_legible = headers.get_all(ACCEPT_ENCODING).iter().all(|coding| coding == "identity");
    request.method() == Method::GET
        && verb::is_watch(request)
        && request.body().is_end_stream()
        && !has_more
        && is_legible
}

/// Whether watches have a way of their own: not through a proxy. Nor with credentials that a program fetches, because it would
/// be run, and perhaps ask its user, once more.
pub(super) fn is_possible(config: &kube::Config) -> bool {
    let auth = &config.auth_info;
    config.proxy_url.is_none() && auth.exec.is_none() && auth.auth_provider.is_none()
}

/// The way of watches.
///
/// # Errors
/// If the credentials or certificates cannot be used.
pub(super) fn service(
    config: &kube::Config,
    gather_for: Duration,
) -> Result<HttpService, ConnectError> {
    let refused = |error| ConnectError::new(&error);
    let connector = connector(config, gather_for)?;
    let alone = service_fn(move |request: Request<Body>| {
        let (connector, request) = (connector.clone(), request.map(drop));
        async move {
            let connection = connector.oneshot(request.uri().clone()).await?;
            Ok::<_, BoxError>(exchange(TokioIo::new(connection), &request).await?)
        }
    });
    let layered = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(refused)?)
        .layer(config.extra_headers_layer().map_err(refused)?)
        .service(alone);
    Ok(erase(layered))
}

/// As kube makes its own, and with probes.
fn connector(config: &kube::Config, gather_for: Duration) -> Result<Connector, ConnectError> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(PROBE_AFTER));
    connector.set_keepalive_interval(Some(PROBE_EVERY));
    connector.set_keepalive_retries(Some(PROBES));
    let tls = config.rustls_client_config().map_err(|error| ConnectError::new(&error))?;
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|_| ConnectError::server_name(name))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = builder.enable_http1().wrap_connector(Tcp { connector, gather_for });
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(connector)
}

#[cfg(test)]
mod tests {
    use kube::config::ExecConfig;

    use super::*;

    fn watch(method: Method, header: Option<(&str, &str)>, body: Body) -> Request<Body> {
        let mut request = Request::builder().method(method).uri("/api/v1/pods?watch=true");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        request.body(body).expect("a request")
    }

    #[test]
    fn only_plain_watches_have_their_own_way() {
        let plain =
            [None, Some(("accept-encoding", "identity")), Some(("accept", "application/json"))];
        for header in plain {
            assert!(is_plain_watch(&watch(Method::GET, header, Body::empty())), "{header:?}");
        }
        let others = [
            ("upgrade", "websocket"),
            ("content-length", "2"),
            ("transfer-encoding", "chunked"),
            ("accept-encoding", "gzip"),
        ];
        for header in others {
            let request = watch(Method::GET, Some(header), Body::empty());
            assert!(!is_plain_watch(&request), "{header:?}");
        }
        assert!(!is_plain_watch(&watch(Method::HEAD, None, Body::empty())));
        assert!(!is_plain_watch(&watch(Method::GET, None, Body::from(b"{}".to_vec()))));
        let list = Request::get("/api/v1/pods").body(Body::empty()).expect("a request");
        assert!(!is_plain_watch(&list));
    }

    #[test]
    fn proxies_and_programs_that_fetch_credentials_are_kubes() {
        let config = || kube::Config::new("https://server".parse().expect("a URL"));
        assert!(is_possible(&config()));
        let mut proxied = config();
        proxied.proxy_url = "http://proxy".parse().ok();
        assert!(!is_possible(&proxied));
        let mut fetched = config();
        fetched.auth_info.exec = Some(ExecConfig::default());
        assert!(!is_possible(&fetched));
    }
}
