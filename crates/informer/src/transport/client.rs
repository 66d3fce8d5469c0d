//! Windlass' client stack makes an ordinary [`kube::Client`], from a [`kube::Config`] or around any
//! service such as the embedded API server's.
//!
//! A request first passes the caller's layers ([`ClientStack::layer`]). Then `send` does everything
//! else in order: headers, rate limit, timeout, observer, clock, and errors that name their
//! request. Below it, `renewal` keeps credentials valid, and `transport` has the connections.
//!
//! kube's retries are not used. They repeat every request that was answered with 429, 503 or 504,
//! watches and writes included, up to 15 times over minutes. That hides from a reflector that the
//! server is in trouble, and it could repeat a write that the caller no longer wants.
//!
//! Invariant: a request is sent once or not at all, and every answer reaches the caller.

mod body;
mod credentials;
mod error;
mod explain;
mod guard;
mod message;
mod observer;
mod proxy;
mod rate;
mod renewal;
pub(crate) mod request_info;
mod send;
mod server_clock;
mod transport;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response, Uri};
use kube::client::Body;
use tower::util::BoxService;
use tower::{BoxError, Layer, Service, ServiceExt as _, service_fn};

pub use body::ResponseBody;
pub use error::{ConnectError, NotLeader, RequestError, RequestTimedOut};
pub use explain::explain;
pub(crate) use explain::read_status;
pub use message::{error_chain, safe_message, status_of};
pub use observer::{FinishedRequest, RequestObserver, RequestOutcome};
pub use request_info::{CreatedName, RequestInfo, RequestTarget};
pub use server_clock::ServerClock;

use body::erase_body;
use guard::Guard;
use rate::Rate;
use send::Sender;
use transport::Transport;

/// The [host](FinishedRequest::host) of a service that is not reached over the network.
const IN_PROCESS: &str = "in-process";

/// A service of the stack, with its type erased.
pub type HttpService = BoxService<Request<Body>, Response<ResponseBody>, BoxError>;

/// Makes clients with timeouts, rate limits, renewed credentials and errors that name their
/// request.
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
/// use windlass_informer::{ClientStack, ConnectError};
///
/// fn client(config: kube::Config) -> Result<kube::Client, ConnectError> {
///     ClientStack::new()
///         .request_timeout(Duration::from_secs(10))
///         .rate(NonZeroU32::new(50).expect("not zero"), NonZeroU32::new(100).expect("not zero"))
///         .connect(config)
/// }
/// ```
#[derive(Clone)]
#[must_use]
pub struct ClientStack {
    request_timeout: Duration,
    rate: Option<(NonZeroU32, NonZeroU32)>,
    observer: Option<Arc<dyn RequestObserver>>,
    user_agent: HeaderValue,
    server_clock: Option<ServerClock>,
    /// The first is the outermost.
    layers: Vec<Arc<dyn Fn(HttpService) -> HttpService + Send + Sync>>,
}

impl ClientStack {
    /// The default of [`request_timeout`](Self::request_timeout): 30 seconds. A server under load
    /// answers within it, and it is half of what kube-apiserver gives itself for a request.
    pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

    /// The defaults: a timeout of 30 seconds, no rate limit, and `windlass/` with the version of
    /// this crate as the user agent.
    pub fn new() -> Self {
        Self {
            request_timeout: Self::REQUEST_TIMEOUT_DEFAULT,
            rate: None,
            observer: None,
            user_agent: HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION"))),
            server_clock: None,
            layers: Vec::new(),
        }
    }

    /// How long an answer may take to begin, and then each pause within it. By default 30 seconds.
    ///
    /// kube has no such bound by default, so a request over a dead connection would wait until the
    /// kernel gives up, which takes minutes, or for ever. Beyond the timeout the request fails with
    /// [`RequestTimedOut`]. The pauses of a watch are not bounded here, since a quiet watch is a
    /// healthy one: the reflector bounds them. The same holds for logs that are followed.
    pub fn request_timeout(self, timeout: Duration) -> Self {
        Self { request_timeout: timeout, ..self }
    }

    /// At most so many requests a second, after a `burst` at once. By default there is no limit:
    /// the server has a fairer one. Requests wait in the order in which they came. Each client has
    /// its own limit.
    pub fn rate(self, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        Self { rate: Some((per_second, burst)), ..self }
    }

    /// Reports what became of each request. By default there is no observer.
    pub fn observer(self, observer: Arc<dyn RequestObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The user agent, unless a configuration or a request has its own. By default `windlass/` and
    /// a version. If it begins with `curl`, `Wget` or `Mozilla/5.0`, the server sends indented
    /// JSON, as for a person.
    pub fn user_agent(self, user_agent: HeaderValue) -> Self {
        Self { user_agent, ..self }
    }

    /// Shows the answers to this clock, which follows the API server's. By default there is none.
    pub fn server_clock(self, clock: ServerClock) -> Self {
        Self { server_clock: Some(clock), ..self }
    }

    /// Adds a layer below those added before and above the stack's own steps: it gets a request
    /// when the rate limit lets it go, and its answer last.
    pub fn layer<L, S, B>(mut self, layer: L) -> Self
    where
        L: Layer<HttpService, Service = S> + Send + Sync + 'static,
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
            + Send
            + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.layers.push(Arc::new(move |inner| {
            let service = layer.layer(inner).map_err(Into::into);
            service.map_response(|response: Response<B>| response.map(erase_body)).boxed()
        }));
        self
    }

    /// Makes a client of the server in a configuration, with its credentials. Call it in a tokio
    /// runtime; the client belongs to that runtime.
    ///
    /// Credentials of an exec plugin and client certificates in files are renewed in time, without
    /// a restart. A plugin runs here for the first time, which blocks for as long as it takes. The
    /// proxy is the `proxy-url` of the kubeconfig, or else the one of `HTTPS_PROXY`, unless
    /// `NO_PROXY` excludes the server.
    ///
    /// `https` needs the feature `rustls` (on by default), with ring as its cryptography.
    ///
    /// # Panics
    /// Outside of a runtime; and if other crates give rustls a second provider of cryptography,
    /// unless one was installed as the default before.
    ///
    /// # Errors
    /// If the credentials or certificates cannot be used, or a feature is missing.
    pub fn connect(mut self, mut config: kube::Config) -> Result<kube::Client, ConnectError> {
        // The configuration adds its headers below this stack, beside those that are there.
        if let Some((_, own)) = config.headers.iter().find(|(name, _)| name == USER_AGENT) {
            self.user_agent = own.clone();
            config.headers.retain(|(name, _)| name != USER_AGENT);
        }
        let namespace = config.default_namespace.clone();
        let host = host_of(&config.cluster_url);
        let transport = if credentials::are_temporary(&config) {
            renewal::renewing(config)?
        } else {
            transport::transport(&config)?
        };
        Ok(self.client(transport, namespace, host.into()))
    }

    /// Makes a client of any service, such as the embedded API server's. Call it in a tokio
    /// runtime; the client belongs to that runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn around<S, B>(self, service: S, default_namespace: impl Into<String>) -> kube::Client
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let service = service.map_err(Into::into);
        let service = service.map_response(|response: Response<B>| response.map(erase_body));
        self.client(Transport::new(service), default_namespace.into(), IN_PROCESS.into())
    }

    fn client(
        self,
        transport: Transport,
        default_namespace: String,
        host: Arc<str>,
    ) -> kube::Client {
        let sender = Arc::new(Sender {
            transport,
            timeout: self.request_timeout,
            observer: self.observer.clone(),
            user_agent: self.user_agent,
            host: Arc::clone(&host),
            server_clock: self.server_clock,
        });
        let send = service_fn(move |request| Arc::clone(&sender).send(request));
        let stack = match self.rate {
            None => BoxService::new(send),
            Some((per_second, burst)) => {
                BoxService::new(Rate::new(send, per_second, burst, self.observer, host))
            }
        };
        let stack = self.layers.iter().rev().fold(stack, |stack, layer| layer(stack));
        kube::Client::new(Guard::new(stack), default_namespace)
    }
}

/// The host and the port of a server as its URL has them, without a user or a password.
fn host_of(server: &Uri) -> String {
    let host = server.host().unwrap_or_default();
    server.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

impl Default for ClientStack {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ClientStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientStack")
            .field("request_timeout", &self.request_timeout)
            .field("rate", &self.rate)
            .field("user_agent", &self.user_agent)
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_what_the_url_has_without_credentials() {
        for (url, wanted) in [
            ("https://10.96.0.1:443/", "10.96.0.1:443"),
            ("https://cluster.example.com", "cluster.example.com"),
            ("https://user:secret@[::1]:6443/prefix", "[::1]:6443"),
        ] {
            assert_eq!(host_of(&url.parse().expect("a URL")), wanted, "{url}");
        }
    }
}
