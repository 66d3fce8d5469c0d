//! Access control for an endpoint, delegated to the API server.
//!
//! A request carries a bearer token, such as the one of the service account of Prometheus. A
//! `TokenReview` returns the user of the token, and a `SubjectAccessReview` whether that user may
//! `get` the path: the same rules that protect `/metrics` of Kubernetes' own programs.
//!
//! | answer | when |
//! |---|---|
//! | 401 | there is no token, or the API server does not accept it |
//! | 403 | the user may not read the path |
//! | 405 | the method is neither GET nor HEAD |
//! | 503 | the API server does not answer, or does not allow the reviews; the log says why |
//!
//! The token is in no log line and in no error. Reviews are cached for a minute, and refusals for
//! ten seconds, so a permission that was revoked may last for up to two minutes.
//!
//! Limits: every new token costs a request to the API server. Serve over TLS: otherwise the token
//! is sent in plain text.

mod cache;
mod review;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};

use self::cache::{Cache, Digest};
use self::review::{Reviews, Unavailable};

/// How long an approval is cached. In controller-runtime: tokens one minute, access five minutes.
const ALLOWED_TTL: Duration = Duration::from_mins(1);

/// How long a refusal is cached. Short, because people wait for it after they have added a role.
const REFUSED_TTL: Duration = Duration::from_secs(10);

/// How long a failure is cached, so that concurrent requests fail together.
const FAILED_TTL: Duration = Duration::from_secs(1);

/// Protects the routes of a router by token reviews and access reviews.
///
/// ```
/// # fn example(client: kube::Client) {
/// use axum::{Router, routing::get};
/// use windlass_manager::http::Authorizer;
///
/// let router = Router::new().route("/metrics", get(|| async { "# EOF\n" }));
/// let router = Authorizer::new(client).protect(router);
/// # drop(router);
/// # }
/// ```
#[derive(Clone)]
pub struct Authorizer {
    shared: Arc<Shared>,
}

struct Shared {
    token_reviews: Reviews,
    access_reviews: Reviews,
    /// The user of a token, by a digest of the token.
    users: Cache<Result<Option<Arc<UserInfo>>, Unavailable>>,
    /// Whether the user of a token may read a path, by a digest of token, verb and path.
    access: Cache<Result<bool, Unavailable>>,
}

/// Why a request is refused.
enum Refusal {
    Method,
    NoToken,
    UnknownToken,
    Forbidden { user: Arc<UserInfo>, verb: String, path: String },
    Unavailable,
}

impl Authorizer {
    /// Sends reviews with this client. Its user needs the `ClusterRole` `system:auth-delegator`.
    pub fn new(client: kube::Client) -> Self {
        let shared = Shared {
            token_reviews: Reviews::of_tokens(client.clone()),
            access_reviews: Reviews::of_access(client),
            users: Cache::new(),
            access: Cache::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Protects all routes of a router, and its unknown paths. Use it on the outermost router: an
    /// inner one does not see the whole path.
    pub fn protect(self, router: Router) -> Router {
        router.layer(from_fn_with_state(self, authorize))
    }
}

async fn authorize(
    State(Authorizer { shared }): State<Authorizer>,
    request: Request,
    next: Next,
) -> Response {
    match shared.check(request.method(), request.uri().path(), request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

impl Shared {
    async fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(Refusal::Method);
        }
        let token = bearer_token(headers).ok_or(Refusal::NoToken)?;
        let digest = cache::digest([token]);
        let user = self.users.get(digest, self.user(token)).await?.ok_or(Refusal::UnknownToken)?;
        // As Kubernetes does for paths that are not resources.
        let verb = method.as_str().to_lowercase();
        if self.is_allowed(digest, &user, &verb, path).await? {
            return Ok(());
        }
        Err(Refusal::Forbidden { user, verb, path: path.to_owned() })
    }

    /// The user of a token. `None` if the API server does not accept it.
    async fn user(&self, token: &str) -> (Result<Option<Arc<UserInfo>>, Unavailable>, Duration) {
        let spec = TokenReviewSpec { token: token.to_owned(), ..Default::default() };
        let review = TokenReview { spec, ..Default::default() };
        let review = self.token_reviews.create(&review).await;
        let status = review.map(|review| review.status.unwrap_or_default());
        let user = status.map(|status| {
            let user = status.user.filter(|_| status.authenticated == Some(true));
            user.filter(|user| user.username.as_ref().is_some_and(|name| !name.is_empty()))
        });
        let ttl = match &user {
            Ok(Some(_)) => ALLOWED_TTL,
            Ok(None) => REFUSED_TTL,
            Err(_) => FAILED_TTL,
        };
        (user.map(|user| user.map(Arc::new)), ttl)
    }

    /// Whether the user of a token may use a verb on a path.
    async fn is_allowed(
        &self,
        token: Digest,
        user: &UserInfo,
        verb: &str,
        path: &str,
    ) -> Result<bool, Unavailable> {
        let review = async {
            let non_resource_attributes =
                Some(NonResourceAttributes { path: Some(path.into()), verb: Some(verb.into()) });
            let UserInfo { extra, groups, uid, username } = user.clone();
            let spec = SubjectAccessReviewSpec {
                extra,
                groups,
                non_resource_attributes,
                uid,
                user: username,
                ..Default::default()
            };
            let review = SubjectAccessReview { spec, ..Default::default() };
            let review = self.access_reviews.create(&review).await;
            let allowed = review.map(|review| review.status.is_some_and(|status| status.allowed));
            let ttl = match allowed {
                Ok(true) => ALLOWED_TTL,
                Ok(false) => REFUSED_TTL,
                Err(_) => FAILED_TTL,
            };
            (allowed, ttl)
        };
        let key = cache::digest([&token[..], verb.as_bytes(), path.as_bytes()]);
        self.access.get(key, review).await
    }
}

/// The token of `Authorization: Bearer …`.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl From<Unavailable> for Refusal {
    fn from(_: Unavailable) -> Self {
        Self::Unavailable
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Method => {
                let allow = [(ALLOW, "GET, HEAD")];
                (StatusCode::METHOD_NOT_ALLOWED, allow, "Only GET and HEAD are allowed.\n")
                    .into_response()
            }
            Self::NoToken => unauthorized(
                "Unauthorized: send the token of a service account in the header \
                 'Authorization: Bearer <token>'.\n",
            ),
            Self::UnknownToken => unauthorized(
                "Unauthorized: the API server does not accept the token. It may have expired, or \
                 be of another cluster or audience.\n",
            ),
            Self::Forbidden { user, verb, path } => {
                let user = user.username.as_deref().unwrap_or_default();
                let message = format!(
                    "Forbidden: user \"{user}\" may not {verb} {path}. Bind a ClusterRole with \
                     the rule {{nonResourceURLs: [\"{path}\"], verbs: [\"{verb}\"]}} to it.\n"
                );
                (StatusCode::FORBIDDEN, message).into_response()
            }
            Self::Unavailable => {
                let message = "Service unavailable: the API server could not review this request. \
                               The log of this program says why.\n";
                (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
            }
        }
    }
}

fn unauthorized(message: &'static str) -> Response {
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], message).into_response()
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").finish_non_exhaustive()
    }
}
