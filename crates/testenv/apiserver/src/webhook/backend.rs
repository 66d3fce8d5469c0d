//! Webhooks that are not called at their URL: handlers in this process, and services with a
//! registered address.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use tower::{Service, ServiceExt};

/// The maximum size of a webhook's answer, in bytes.
pub(super) const ANSWER_MAX: usize = 16 * 1024 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A webhook in this process: a function from a request to an answer.
pub(super) type Handler = Arc<
    dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, Result<Response<Bytes>, BoxError>>
        + Send
        + Sync,
>;

/// The registry of webhooks: [`ApiServer::webhooks`](crate::ApiServer::webhooks).
///
/// A configuration names a webhook by a URL or by a service. The server calls a URL over TLS, and
/// checks the certificate against the `caBundle` of the configuration. Registered webhooks are
/// called differently: [`handle`](Self::handle) and [`handle_service`](Self::handle_service) call a
/// `tower::Service` in this process, without a socket, so that tests on a paused clock stay
/// deterministic; [`resolve`](Self::resolve) sets the address of a service.
///
/// ```
/// use std::convert::Infallible;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use windlass_apiserver::ApiServer;
///
/// let server = ApiServer::new();
/// // A configuration with `clientConfig.url: https://hooks.test/validate` reaches this service.
/// let service = tower::service_fn(|_request: Request<Full<bytes::Bytes>>| async {
///     let review = r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#;
///     Ok::<_, Infallible>(Response::new(Full::from(review)))
/// });
/// server.webhooks().handle("https://hooks.test/", service);
/// ```
#[derive(Clone, Default)]
pub struct Webhooks {
    /// The routes, the latest first.
    routes: Arc<Mutex<Vec<Route>>>,
}

/// A registered way to call one or several webhooks.
#[derive(Clone)]
struct Route {
    matched: Matched,
    backend: Backend,
}

/// The webhooks that a route applies to.
#[derive(Clone, PartialEq, Eq)]
enum Matched {
    Url(String),
    Service { namespace: String, name: String },
}

/// How a webhook is called.
#[derive(Clone)]
pub(super) enum Backend {
    InProcess(Handler),
    At(SocketAddr),
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhooks({} routes)", self.routes().len())
    }
}

impl Webhooks {
    /// Calls `service` for every webhook whose URL starts with `prefix`. If several prefixes match,
    /// the one that was registered last wins.
    pub fn handle<S, B>(&self, prefix: impl Into<String>, service: S)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.add(Matched::Url(prefix.into()), Backend::InProcess(handler(service)));
    }

    /// Calls `service` for every webhook that names this Kubernetes service, whatever its port and
    /// path are.
    pub fn handle_service<S, B>(
        &self,
        namespace: impl Into<String>,
        name: impl Into<String>,
        service: S,
    ) where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let matched = Matched::Service { namespace: namespace.into(), name: name.into() };
        self.add(matched, Backend::InProcess(handler(service)));
    }

    /// Calls webhooks that name this Kubernetes service at this address, over TLS. The certificate
    /// must be valid for `NAME.NAMESPACE.svc`.
    pub fn resolve(
        &self,
        namespace: impl Into<String>,
        name: impl Into<String>,
        address: SocketAddr,
    ) {
        let matched = Matched::Service { namespace: namespace.into(), name: name.into() };
        self.add(matched, Backend::At(address));
    }

    fn add(&self, matched: Matched, backend: Backend) {
        let mut routes = self.routes();
        routes.retain(|route| route.matched != matched);
        routes.insert(0, Route { matched, backend });
    }

    /// Returns the backend for a URL, if one is registered.
    pub(super) fn of_url(&self, url: &str) -> Option<Backend> {
        let routes = self.routes();
        let found = routes.iter().find(
            |route| matches!(&route.matched, Matched::Url(prefix) if url.starts_with(prefix)),
        );
        found.map(|route| route.backend.clone())
    }

    /// Returns the backend for a service, if one is registered.
    pub(super) fn of_service(&self, namespace: &str, name: &str) -> Option<Backend> {
        let wanted = Matched::Service { namespace: namespace.to_owned(), name: name.to_owned() };
        let routes = self.routes();
        let found = routes.iter().find(|route| route.matched == wanted);
        found.map(|route| route.backend.clone())
    }

    fn routes(&self) -> MutexGuard<'_, Vec<Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn handler<S, B>(service: S) -> Handler
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    Arc::new(move |request| {
        let service = service.clone();
        Box::pin(async move {
            let response = service.oneshot(request).await.map_err(Into::into)?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await?;
            Ok(Response::from_parts(parts, body.to_bytes()))
        })
    })
}
