//! The connections to a server: TCP, an optional proxy, TLS, and the headers of a configuration.
//!
//! This is what kube builds from a [`kube::Config`], with three additions. TCP keepalive is on, so
//! that a dead connection is noticed. The proxy is chosen as Go chooses it (see
//! [`proxy`](super::proxy)). If a gateway compresses an answer although it was not requested, it
//! is decompressed.
//!
//! All requests share one pool of HTTP/1.1 connections. A watch has its connection to itself while
//! it lasts, so no number of watches can delay other requests.

use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::rt::{Read, Write};
#[cfg(feature = "rustls")]
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;

use super::body::{ResponseBody, erase_body};
use super::error::ConnectError;
use super::proxy::{self, port_of};

/// After this long without anything from the server, the kernel sends keepalive probes: [`PROBES`]
/// of them, [`PROBE_INTERVAL`] apart. So a dead connection is closed after 45 seconds, where Linux
/// would take two hours and eleven minutes by default. 30 seconds are what Go uses.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// Sends requests over a pool of connections. Clones share the pool.
pub(super) type Transport = BoxCloneSyncService<Request<Body>, Response<ResponseBody>, BoxError>;

/// Prepares the connections to the server of a configuration. None is opened yet.
pub(super) fn transport(config: &kube::Config) -> Result<Transport, ConnectError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PROBE_AFTER));
    tcp.set_keepalive_interval(Some(PROBE_INTERVAL));
    tcp.set_keepalive_retries(Some(PROBES));
    let Some(proxy) = proxy::choose(config)? else { return pooled(config, tcp) };
    let mut config = config.clone();
    if let Some(server) = with_port(&config.cluster_url) {
        config.cluster_url = server;
    }
    let config = &config;
    match proxy.uri().scheme_str() {
        Some("http") => pooled(config, tunnel(&proxy, tcp)),
        Some("https") => pooled(config, tunnel(&proxy, with_tls(config, tcp)?)),
        _ => {
            let mut socks = SocksV5::new(proxy.uri().clone(), tcp);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            pooled(config, socks)
        }
    }
}

/// Adds the port to the URL of a server. Without one, hyper would ask the proxy for port 443 of any
/// server, also of one with plain HTTP.
fn with_port(server: &Uri) -> Option<Uri> {
    let mut parts = server.clone().into_parts();
    parts.authority = Some(format!("{}:{}", server.host()?, port_of(server)).parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// A connector that asks an HTTP proxy for each connection.
fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(value) => tunnel.with_auth(value.clone()),
        None => tunnel,
    }
}

/// A pool of connections, which adds the headers of the configuration to each request.
fn pooled<C>(config: &kube::Config, connector: C) -> Result<Transport, ConnectError>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
{
    let mut connector = TimeoutConnector::new(with_tls(config, connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_response(|response: Response<_>| response.map(erase_body))
        .layer(DecompressionLayer::new())
        .service(Client::builder(TokioExecutor::new()).build::<_, Body>(connector));
    Ok(Transport::new(service))
}

/// TLS for `https`, with the certificates of the configuration.
#[cfg(feature = "rustls")]
fn with_tls<C>(config: &kube::Config, connector: C) -> Result<HttpsConnector<C>, ConnectError> {
    Ok(config.rustls_https_connector_with_connector(connector)?)
}

/// Without the feature, only `http` works.
#[cfg(not(feature = "rustls"))]
fn with_tls<C>(config: &kube::Config, connector: C) -> Result<C, ConnectError> {
    if config.cluster_url.scheme_str() == Some("https") {
        let message = "https needs the feature `rustls` of windlass-informer";
        return Err(ConnectError::Config(message.to_owned()));
    }
    Ok(connector)
}
