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
//! | 405 | the method is neither GET nor HEAD; [`with_post`](Authorizer::with_post) allows POST |
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
    /// Whether POST is allowed.
    has_post: bool,
    /// What comes before the path in a review.
    prefix: &'static str,
}

struct Shared {
    token_reviews: Reviews,
    access_reviews: Reviews,
    /// The user of a token, by a digest of the token.
    users: Cache<Result<Option<Arc<UserInfo>>, Unavailable>>,
    /// Whether the user of a token may read a path, by a digest of token, verb and path.
    access: Cache<Result<bool, Unavailable>>,
}

/// The user of a request that is allowed: an extension of the request.
#[derive(Clone)]
pub(crate) struct ReviewedUser(Arc<UserInfo>);

impl ReviewedUser {
    pub(crate) fn name(&self) -> &str {
        self.0.username.as_deref().unwrap_or_default()
    }
}

/// Why a request is refused.
enum Refusal {
    Method { allowed: &'static str },
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
        Self { shared: Arc::new(shared), has_post: false, prefix: "" }
    }

    /// Also allows POST, to users who may `post` the path.
    #[must_use]
    pub fn with_post(mut self) -> Self {
        self.has_post = true;
        self
    }

    /// Reviews `PREFIX/path` instead of the path. For paths that mean something else in rules:
    /// every user of a cluster may `get` the non-resource URLs below `/api`.
    #[must_use]
    pub fn reviewed_below(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// Protects all routes of a router, and its unknown paths. Use it on the outermost router: an
    /// inner one does not see the whole path.
    pub fn protect(self, router: Router) -> Router {
        router.layer(from_fn_with_state(self, authorize))
    }
}

async fn authorize(
    State(authorizer): State<Authorizer>,
    mut request: Request,
    next: Next,
) -> Response {
    match authorizer.check(request.method(), request.uri().path(), request.headers()).await {
        Ok(user) => {
            request.extensions_mut().insert(ReviewedUser(user));
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

impl Authorizer {
    async fn check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Arc<UserInfo>, Refusal> {
        match *method {
            Method::GET | Method::HEAD => {}
            Method::POST if self.has_post => {}
            _ if self.has_post => return Err(Refusal::Method { allowed: "GET, HEAD, POST" }),
            _ => return Err(Refusal::Method { allowed: "GET, HEAD" }),
        }
        let (shared, path) = (&*self.shared, format!("{}{path}", self.prefix));
        let token = bearer_token(headers).ok_or(Refusal::NoToken)?;
        let digest = cache::digest([token]);
        let user = shared.users.get(digest, shared.review_token(token)).await?;
        let user = user.ok_or(Refusal::UnknownToken)?;
        // As Kubernetes does for paths that are not resources.
        let verb = method.as_str().to_lowercase();
        if shared.is_allowed(digest, &user, &verb, &path).await? {
            return Ok(user);
        }
        Err(Refusal::Forbidden { user, verb, path })
    }
}

impl Shared {
    /// The user of a token. `None` if the API server does not accept it.
    async fn review_token(
        &self,
        token: &str,
    ) -> (Result<Option<Arc<UserInfo>>, Unavailable>, Duration) {
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
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
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
            Self::Method { allowed } => {
                let text = format!("Only these methods are allowed: {allowed}.\n");
                (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, allowed)], text).into_response()
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
