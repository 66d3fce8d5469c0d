//! Who may use the dashboard.
//!
//! On a loopback address, every request of the API needs a token that is made when the manager
//! starts. So other users of the machine cannot use the dashboard, nor can other web pages in the
//! same browser. Besides, the `Host` of a request must be a loopback address or `localhost`, so
//! that a name that an attacker points at 127.0.0.1 (DNS rebinding) does not work.
//!
//! On any other address, the API server reviews each request, as for
//! [`--metrics-secure`](crate::Options::metrics_secure). RBAC rules name non-resource URLs below
//! `/dashboard`, as in `/dashboard/api/summary`. Without this prefix everybody could read them:
//! every user of a cluster may get what is below `/api`.
//!
//! On both, a request that changes something must come from the page itself.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{ORIGIN, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{Method, StatusCode};
use ring::digest::{SHA256, digest};
use ring::rand::{self, SystemRandom};

use crate::http::Authorizer;
use crate::http::auth::bearer_token;
use crate::http::host::{host_of, only_this_machine};

/// The prefix of the path in a review.
const REVIEWED_BELOW: &str = "/dashboard";

/// Who may use the [dashboard](crate::dashboard).
#[derive(Clone)]
pub struct Access {
    mode: Mode,
}

#[derive(Clone)]
enum Mode {
    Local { token: Arc<str> },
    Reviewed(Authorizer),
}

impl Access {
    /// Whoever has the token, which is random and made here. For loopback addresses: the token is
    /// sent without encryption, and the host of a request must be `localhost` or a loopback
    /// address.
    ///
    /// # Panics
    /// Panics if the machine has no source of randomness.
    pub fn local() -> Self {
        let random: rand::Random<[u8; 32]> =
            rand::generate(&SystemRandom::new()).expect("a machine must have randomness");
        Self { mode: Mode::Local { token: URL_SAFE_NO_PAD.encode(random.expose()).into() } }
    }

    /// Whoever the RBAC rules of the cluster allow to use the path: `get`, or `post` for what
    /// changes something, on the non-resource URLs below `/dashboard`. Serve it over TLS, because
    /// the tokens of users are sent.
    pub fn reviewed(authorizer: Authorizer) -> Self {
        let authorizer = authorizer.with_post().reviewed_below(REVIEWED_BELOW);
        Self { mode: Mode::Reviewed(authorizer) }
    }

    /// The URL of the dashboard at this address. It contains the token of [`local`](Self::local),
    /// in the fragment, which browsers do not send. For the address that stands for all addresses,
    /// which browsers do not open, the host is `localhost`.
    pub fn url(&self, address: SocketAddr) -> String {
        let address = if address.ip().is_unspecified() {
            format!("localhost:{}", address.port())
        } else {
            address.to_string()
        };
        match &self.mode {
            Mode::Local { token } => format!("http://{address}/#token={token}"),
            Mode::Reviewed(_) => format!("https://{address}/"),
        }
    }

    /// Protects the API.
    pub(super) fn protect_api(&self, api: Router) -> Router {
        let api = api.layer(from_fn(check_origin));
        match &self.mode {
            Mode::Local { token } => api.layer(from_fn_with_state(Arc::clone(token), check_token)),
            Mode::Reviewed(authorizer) => authorizer.clone().protect(api),
        }
    }

    /// On loopback, refuses requests for other hosts.
    pub(super) fn check_host(&self, router: Router) -> Router {
        match &self.mode {
            Mode::Local { .. } => only_this_machine(router),
            Mode::Reviewed(_) => router,
        }
    }
}

async fn check_token(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    // Digests are compared, so the time that it takes says nothing about the token.
    let digest_of = |text: &str| digest(&SHA256, text.as_bytes());
    let given = bearer_token(request.headers()).map(digest_of);
    if given.is_some_and(|given| given.as_ref() == digest_of(&token).as_ref()) {
        return next.run(request).await;
    }
    let message = "this needs the token of the dashboard: open the URL that the operator logged \
                   when it started\n";
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], message).into_response()
}

/// Refuses a POST that a page of another site has sent. Programs send no `Origin`.
async fn check_origin(request: Request, next: Next) -> Response {
    let is_own = match request.headers().get(ORIGIN) {
        None => true,
        Some(origin) => {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            let origin = origin.and_then(|(_, host)| host.parse::<Authority>().ok());
            origin.is_some() && origin == host_of(request.headers())
        }
    };
    if *request.method() != Method::POST || is_own {
        return next.run(request).await;
    }
    let message = "this request comes from the page of another site, so it is refused\n";
    (StatusCode::FORBIDDEN, message).into_response()
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.mode {
            Mode::Local { .. } => "Access(local)",
            Mode::Reviewed(_) => "Access(reviewed)",
        })
    }
}
