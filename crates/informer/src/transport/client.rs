//! Windlass' own client stack: the layers between whoever sends a request and the server.
//!
//! It makes an ordinary [`kube::Client`], of a [`kube::Config`] or around any service such as the embedded API
//! server's, with the same layers on both. From the outside in:
//!
//! - layers of the caller's ([`ClientStack::layer`]), which see a request before it waits for anything;
//! - `refusal`: an error says which request it was, and when to retry;
//! - `headers`: the user agent, and no compression;
//! - `rate`: at most so many requests a second, if asked for;
//! - `observe`: what became of each request, if someone wants to know;
//! - `timeout`: an answer in time, or an error;
//! - `renewal`: credentials that are valid;
//! - `transport`: connections, a proxy, TLS, and the headers of the configuration.
//!
//! kube's retries are not used. They repeat whatever was answered with 429, 503 or 504, watches and writes
//! included, up to 15 times over minutes. That hides from a reflector that the server is in trouble, and it
//! would repeat a write below any gate that has closed in the meantime.
//! Invariant: a request that enters the stack is sent once or not at all, and every answer reaches the caller.

mod body;
mod credentials;
mod error;
mod headers;
mod message;
mod observe;
mod proxy;
mod rate;
mod refusal;
mod renewal;
mod request_info;
mod timeout;
mod transport;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tower::util::BoxService;
use tower::{BoxError, Layer, Service, ServiceExt as _};

pub use credentials::CredentialsError;
pub(crate) use error::timed_out;
pub use error::{ConnectError, RequestError, RequestTimedOut};
use headers::Headers;
pub use message::{error_chain, safe_message, status_of};
use observe::Observe;
pub use observe::{FinishedRequest, RequestObserver, RequestOutcome};
use rate::Rate;
use refusal::Explain;
pub use refusal::explain;
pub(crate) use refusal::read_status;
use renewal::Renewing;
pub use request_info::{CreatedName, RequestInfo, RequestTarget};
use timeout::Timeout;
use transport::transport;

/// A service of the stack, with its type erased.
pub type HttpService = BoxService<Request<Body>, Response<ResponseBody>, BoxError>;

/// The body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Makes clients with Windlass' layers.
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
    /// The first is the outermost.
    layers: Vec<Arc<dyn Fn(HttpService) -> HttpService + Send + Sync>>,
}

impl ClientStack {
    /// The default of [`request_timeout`](Self::request_timeout): 30 seconds, in which a server under load
    /// answers, and which is half of what kube-apiserver gives itself for a request.
    pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

    /// The defaults: a timeout of 30 seconds, no bound on the rate, and `windlass/` with the version of this
    /// crate as the user agent.
    pub fn new() -> Self {
        Self {
            request_timeout: Self::REQUEST_TIMEOUT_DEFAULT,
            rate: None,
            observer: None,
            user_agent: headers::USER_AGENT_DEFAULT,
            layers: Vec::new(),
        }
    }

    /// How long an answer may take to begin, and then each pause within it. By default 30 seconds.
    ///
    /// kube has no such bound by default, so a request over a connection that has silently died would wait
    /// until the kernel gives up, which takes minutes, or for ever. Beyond it the request fails with
    /// [`RequestTimedOut`]. The pauses of a watch are not bounded here, since a quiet watch is a healthy one:
    /// the reflector bounds them. The same holds for logs that are followed.
    pub fn request_timeout(self, timeout: Duration) -> Self {
        Self { request_timeout: timeout, ..self }
    }

    /// At most so many requests a second, after a `burst` at once. By default there is no bound: the server
    /// has a fairer one. Requests wait in the order in which they came; each client has its own count.
    pub fn rate(self, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        Self { rate: Some((per_second, burst)), ..self }
    }

    /// Who is told what became of each request. By default nobody.
    pub fn observer(self, observer: Arc<dyn RequestObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// How the client introduces itself, unless a configuration or a request says otherwise. By default as
    /// `windlass/` and a version. To what calls itself `curl`, `Wget` or `Mozilla/5.0` the server sends JSON
    /// with indentation, as for a person.
    pub fn user_agent(self, user_agent: HeaderValue) -> Self {
        Self { user_agent, ..self }
    }

    /// Adds a layer below those added before and above all of the stack's own: it sees requests before they
    /// wait for anything, and answers last.
    pub fn layer<L, S, B>(mut self, layer: L) -> Self
    where
        L: Layer<HttpService, Service = S> + Send + Sync + 'static,
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
            + Send
            + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.layers.push(Arc::new(move |inner| erase(layer.layer(inner))));
        self
    }

    /// A client of the server that a configuration names, with its credentials. It has to be called in a
    /// tokio runtime, and the client belongs to that.
    ///
    /// Credentials of an exec plugin and client certificates in files are renewed in time, without a restart. A
    /// plugin is run here for the first time, which blocks for as long as it takes. The proxy is the `proxy-url`
    /// of the kubeconfig, or else the one of `HTTPS_PROXY`, unless `NO_PROXY` excepts the server.
    ///
    /// The feature `rustls` (on by default) is needed for `https`, with ring as its cryptography.
    ///
    /// # Panics
    /// Outside of a runtime; and if other crates give rustls a second provider of cryptography, unless one was
    /// installed as the default before.
    ///
    /// # Errors
    /// If the credentials or certificates cannot be used, or something is asked for that is not compiled in.
    pub fn connect(mut self, mut config: kube::Config) -> Result<kube::Client, ConnectError> {
        // The configuration adds its headers below this stack, beside what is there already.
        if let Some((_, own)) = config.headers.iter().find(|(name, _)| name == USER_AGENT) {
            self.user_agent = own.clone();
            config.headers.retain(|(name, _)| name != USER_AGENT);
        }
        let namespace = config.default_namespace.clone();
        let service = if credentials::do_not_last(&config) {
            erase(Renewing::new(config)?)
        } else {
            erase(transport(&config)?)
        };
        Ok(kube::Client::new(self.wrap(service), namespace))
    }

    /// A client of any service, such as the embedded API server's. It has to be called in a tokio runtime,
    /// and the client belongs to that.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn around<S, B>(self, service: S, default_namespace: impl Into<String>) -> kube::Client
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
            + Send
            + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        kube::Client::new(self.wrap(erase(service)), default_namespace)
    }

    /// The service with all layers around it, from the inside out.
    fn wrap(&self, service: HttpService) -> HttpService {
        let mut stack = erase(Timeout::new(service, self.request_timeout));
        if let Some(observer) = &self.observer {
            stack = erase(Observe::new(stack, observer.clone()));
        }
        if let Some((per_second, burst)) = self.rate {
            stack = erase(Rate::new(stack, per_second, burst, self.observer.clone()));
        }
        stack = erase(Headers::new(stack, self.user_agent.clone()));
        stack = erase(Explain::new(stack));
        self.layers.iter().rev().fold(stack, |stack, layer| layer(stack))
    }
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

/// Forgets the type of a service, of its body and of their errors.
fn erase<S, B>(service: S) -> HttpService
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
        + Send
        + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let service = service.map_err(Into::into);
    BoxService::new(service.map_response(|response: Response<B>| response.map(erase_body)))
}

/// Forgets the type of a body and of its errors.
fn erase_body<B>(body: B) -> ResponseBody
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    body.map_err(Into::into).boxed_unsync()
}
