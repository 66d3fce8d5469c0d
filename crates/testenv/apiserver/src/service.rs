//! The server as a `tower::Service`, for `kube::Client::new` and for the listener.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, DATE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tracing::Instrument;
use windlass_nesting::LargeStack;

use crate::accept;
use crate::api::Call;
use crate::body::{self, Body};
use crate::failure::Failure;
use crate::fault::Fault;
use crate::protobuf;
use crate::query::Query;
use crate::reply;
use crate::request::RequestInfo;
use crate::route::Route;
use crate::shared::Shared;

/// The maximum size of a body in bytes, as on the real server.
const BODY_MAX: usize = 3 * 1024 * 1024;

/// A service that answers the requests to one server. Clones are cheap and reach the same server.
#[derive(Debug, Clone)]
pub struct ApiService {
    shared: Arc<Shared>,
    /// The `Authorization` header for requests without one.
    authorization: Option<HeaderValue>,
    meets_faults: bool,
}

/// A fault broke the connection before there was an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection broke before the answer")]
pub struct Disconnected;

impl ApiService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, authorization: None, meets_faults: true }
    }

    /// Exempts requests from the [fault rules](crate::ApiServer::faults), for a test that inspects
    /// the server while faults affect other clients. Faults still affect the events of its watches.
    #[must_use]
    pub fn without_faults(self) -> Self {
        Self { meets_faults: false, ..self }
    }

    pub(crate) fn with_token(self, token: &str) -> Self {
        let mut header = HeaderValue::try_from(format!("Bearer {token}"))
            .expect("a token must be valid in a header");
        header.set_sensitive(true);
        Self { authorization: Some(header), ..self }
    }

    async fn answer<B>(self, request: Request<B>) -> Result<Response<Body>, Disconnected>
    where
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        let (mut parts, body) = request.into_parts();
        if let Some(authorization) = &self.authorization {
            parts.headers.entry(AUTHORIZATION).or_insert_with(|| authorization.clone());
        }
        let route = Route::parse(parts.uri.path());
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let info = match (&route, &query) {
            (Route::Resource(path), Ok(query)) => RequestInfo::new(&parts.method, path, query),
            (Route::Resource(path), Err(_)) => {
                RequestInfo::new(&parts.method, path, &Query::default())
            }
            _ => RequestInfo::other(&parts.method),
        };
        let faults =
            if self.meets_faults { self.shared.faults.at_request(&info) } else { Vec::new() };
        if let Some(refused) = apply_faults_before(&faults).await? {
            return apply_faults_after(&faults, refused);
        }
        let watched = (info.verb == "watch").then(|| info.resource_name());
        let result = match self.shared.authorize_request(&parts, &route, &info, query.as_ref().ok())
        {
            Err(failure) => Err(failure),
            Ok(requester) => match (query, read_body(body).await) {
                (Ok(query), Ok(body)) => {
                    let warnings = RefCell::default();
                    let shared = &self.shared;
                    let (parts, faults) = (&parts, &faults);
                    let depth = windlass_nesting::depth(&body);
                    shared.note_depth(depth);
                    let call = Call {
                        shared,
                        parts,
                        body,
                        depth,
                        requester,
                        info,
                        query,
                        faults,
                        warnings,
                    };
                    let answer = call.answer(&route);
                    if shared.has_deep() {
                        LargeStack::new(answer).await.map_err(|error| {
                            Failure::internal_error(&format!("there is no large stack: {error}"))
                        })
                    } else {
                        Ok(answer.await)
                    }
                }
                (Err(failure), _) | (_, Err(failure)) => Err(failure),
            },
        };
        let mut response = result.unwrap_or_else(|failure| reply::failure(&failure));
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        if let Some(taken) = accept::protobuf_only(accept) {
            response = protobuf::answer::into_protobuf(response, taken, watched);
        }
        response = response.map(|body| body::with_stack(body, Arc::clone(&self.shared)));
        if let Ok(date) = HeaderValue::try_from(self.shared.clock.date()) {
            response.headers_mut().insert(DATE, date);
        }
        apply_faults_after(&faults, response)
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Disconnected;
    type Future = BoxFuture<'static, Result<Response<Body>, Disconnected>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        let method = request.method().clone();
        let uri = request.uri().clone();
        let answer = async move {
            let result = service.answer(request).await;
            // This logs neither bodies nor headers: they may hold secrets.
            let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            let status = result.as_ref().map_or(0, |response| response.status().as_u16());
            tracing::debug!("{status:>3} {:<6} {path}", method.as_str());
            result
        };
        Box::pin(answer.in_current_span())
    }
}

async fn read_body<B>(body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send,
{
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::body_too_large(BODY_MAX)),
        Err(error) => Err(Failure::bad_request(format!("the body could not be read: {error}"))),
    }
}

/// Applies the faults that take effect before a request is handled. Some of them answer the
/// request.
async fn apply_faults_before(faults: &[Fault]) -> Result<Option<Response<Body>>, Disconnected> {
    for fault in faults {
        match fault {
            Fault::Delay(delay) => tokio::time::sleep(*delay).await,
            Fault::Hang => never(std::future::pending().await),
            Fault::Refuse => return Err(Disconnected),
            Fault::Fail { code, retry_after } => return Ok(Some(injected(*code, *retry_after))),
            _ => {}
        }
    }
    Ok(None)
}

fn never(never: Infallible) {
    match never {}
}

fn injected(code: u16, retry_after: Option<u64>) -> Response<Body> {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if code == StatusCode::TOO_MANY_REQUESTS {
        return reply::overloaded(retry_after.unwrap_or(1));
    }
    let message = "a fault rule of the embedded API server refused this request";
    let reason = match code {
        StatusCode::UNAUTHORIZED => Some("Unauthorized"),
        StatusCode::FORBIDDEN => Some("Forbidden"),
        StatusCode::NOT_FOUND => Some("NotFound"),
        StatusCode::CONFLICT => Some("Conflict"),
        StatusCode::GONE => Some("Expired"),
        StatusCode::INTERNAL_SERVER_ERROR => Some("InternalError"),
        StatusCode::SERVICE_UNAVAILABLE => Some("ServiceUnavailable"),
        StatusCode::GATEWAY_TIMEOUT => Some("Timeout"),
        _ => None,
    };
    let mut failure = Failure::new(code, reason, message);
    failure.retry_after = retry_after;
    reply::failure(&failure)
}

/// Applies the faults that affect the answer.
fn apply_faults_after(
    faults: &[Fault],
    mut response: Response<Body>,
) -> Result<Response<Body>, Disconnected> {
    for fault in faults {
        match fault {
            Fault::LoseAnswer => return Err(Disconnected),
            Fault::CutAnswer { after_bytes } => {
                response = response.map(|content| body::cut(content, *after_bytes));
            }
            _ => {}
        }
    }
    Ok(response)
}
