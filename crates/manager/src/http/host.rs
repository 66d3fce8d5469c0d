//! Refuses requests for other hosts than this machine.
//!
//! A browser sends requests to whatever address a name stands for. An attacker can point a name of
//! their own at 127.0.0.1 (DNS rebinding), and their page could then read what is served on
//! loopback. The `Host` of such a request is that name.

use std::net::IpAddr;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, StatusCode};

/// Refuses requests whose `Host` is neither a loopback address nor `localhost`.
pub(crate) fn only_this_machine(router: Router) -> Router {
    router.layer(from_fn(check))
}

async fn check(request: Request, next: Next) -> Response {
    let is_local = host_of(request.headers()).is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_loopback || name.eq_ignore_ascii_case("localhost")
    });
    if is_local {
        return next.run(request).await;
    }
    let message = "this is served to this machine only: use the host localhost or 127.0.0.1\n";
    (StatusCode::MISDIRECTED_REQUEST, message).into_response()
}

/// The host that a request is for, with its port.
pub(crate) fn host_of(headers: &HeaderMap) -> Option<Authority> {
    headers.get(HOST)?.to_str().ok()?.parse().ok()
}
