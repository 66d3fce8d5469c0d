//! Authenticates and authorizes a request, before its body is read.
//!
//! The order is that of the real server: authentication of the sender (401), impersonation (403),
//! authorization of the resulting user (403). Nothing here changes the state.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

use crate::accounts::{self, ISSUER};
use crate::auth::Auth;
use crate::failure::Failure;
use crate::metadata::NameRule;
use crate::query::Query;
use crate::rbac::Rbac;
use crate::rbac::rule::{AccessTarget, Attributes};
use crate::request::RequestInfo;
use crate::route::Route;
use crate::selector::field::{FieldOp, FieldSelector};
use crate::shared::Shared;
use crate::user::User;

/// Authorizes requests: first by the access rules of the server, then by RBAC if it is enabled.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) auth: &'a Auth,
    pub(crate) rbac: Option<&'a Rbac>,
}

/// The users behind an authorized request.
pub(crate) struct Requester {
    /// The user for whom the request is handled.
    pub(crate) user: User,
    /// The sender who impersonates the user, if there is no RBAC. Everyone may then impersonate
    /// everyone, so the rules must allow the request for the sender as well: nobody evades a rule
    /// by acting as somebody else.
    pub(crate) sender: Option<User>,
}

impl Requester {
    /// Returns every user who must be allowed to make the request.
    pub(crate) fn users(&self) -> impl Iterator<Item = &User> {
        self.sender.iter().chain([&self.user])
    }
}

impl Shared {
    /// Authenticates and authorizes a request. `query` is `None` if it could not be parsed.
    pub(crate) fn authorize_request(
        &self,
        parts: &Parts,
        route: &Route,
        info: &RequestInfo,
        query: Option<&Query>,
    ) -> Result<Requester, Failure> {
        let sender = self.authenticate(&parts.headers)?;
        let rbac = self.rbac();
        let access = Access { auth: &self.auth, rbac: rbac.as_deref() };
        let name = query.and_then(|query| selected_name(info, query));
        let method;
        let request = if let Route::Resource(_) = route {
            info.attributes(name.as_deref())
        } else {
            method = parts.method.as_str().to_lowercase();
            Attributes { verb: &method, on: AccessTarget::Path(parts.uri.path()) }
        };
        let requester = match access.impersonate(&sender, &parts.headers, &request)? {
            None => Requester { user: sender, sender: None },
            Some(user) => Requester { user, sender: rbac.is_none().then_some(sender) },
        };
        for user in requester.users() {
            access.authorize_route(user, route, &request)?;
        }
        Ok(requester)
    }

    /// Returns the user that the `Authorization` header identifies, or a 401.
    fn authenticate(&self, headers: &HeaderMap) -> Result<User, Failure> {
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(bearer_token);
        if let Some(token) = token.filter(|token| accounts::claims_our_issuer(token)) {
            let opened = self.signer.open(token);
            // A server that accepts every token also accepts the tokens of other clusters.
            if !self.auth.accepts_every_request() || opened.is_ok() {
                let audiences = [ISSUER.to_owned()];
                let found = opened.and_then(|claims| self.state().account_of(&claims, &audiences));
                return found.map(|found| found.user).map_err(|_| Failure::unauthorized());
            }
        }
        self.auth.authenticate(token)
    }

    /// Returns the current roles and bindings, if RBAC is switched on.
    fn rbac(&self) -> Option<Arc<Rbac>> {
        if self.auth.uses_roles() { self.state().rbac.clone() } else { None }
    }
}

impl Access<'_> {
    /// Returns a 403 if the user may not make a request to this route.
    fn authorize_route(
        &self,
        user: &User,
        route: &Route,
        request: &Attributes<'_>,
    ) -> Result<(), Failure> {
        match route {
            Route::Health | Route::Version if self.rbac.is_none() => Ok(()),
            Route::Resource(_) | Route::Unknown | Route::LegacyWatch => {
                self.authorize(user, request)
            }
            // Without RBAC, every authenticated user may read discovery and the like.
            _ if self.rbac.is_none() && !user.is_anonymous() => Ok(()),
            _ => self.authorize(user, request),
        }
    }

    /// Returns a 403 if the user may not make the request.
    pub(crate) fn authorize(&self, user: &User, request: &Attributes<'_>) -> Result<(), Failure> {
        let decision = self.auth.decide(self.rbac, user, request);
        if decision.allowed { Ok(()) } else { Err(forbidden(user, request, &decision.reason)) }
    }
}

/// Returns the bearer token of an `Authorization` header.
fn bearer_token(header: &str) -> Option<&str> {
    let mut parts = header.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns the 403, with the reason if there is one.
pub(crate) fn forbidden(user: &User, request: &Attributes<'_>, reason: &str) -> Failure {
    let verb = request.verb;
    let with_reason =
        |why: String| if reason.is_empty() { why } else { format!("{why}: {reason}") };
    match request.on {
        AccessTarget::Path(path) => {
            let why = format!("User {:?} cannot {verb} path {path:?}", user.name);
            Failure::forbidden_path(&with_reason(html_escaped(&why)))
        }
        AccessTarget::Resource { group, resource, subresource, namespace, name } => {
            let scope = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            let slash = if subresource.is_empty() { "" } else { "/" };
            let full = format!("{resource}{slash}{subresource}");
            let why = format!(
                "User {:?} cannot {verb} resource {full:?} in API group {group:?} {scope}",
                user.name
            );
            Failure::forbidden(group, resource, name, &with_reason(html_escaped(&why)))
        }
    }
}

/// Escapes the characters that have a meaning in HTML, as the real server does: a browser that
/// shows the message must not run what a request has put into it.
fn html_escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the name of the object if a field selector limits a list or watch to one: roles can
/// allow such a request by name.
fn selected_name(info: &RequestInfo, query: &Query) -> Option<String> {
    if !info.name.is_empty() || !matches!(info.verb, "list" | "watch") {
        return None;
    }
    if query.field_selector.is_empty() {
        return None;
    }
    let selector = FieldSelector::parse(&query.field_selector).ok()?;
    let mut terms = selector.terms.iter();
    let term = terms.find(|term| &*term.path == "metadata.name" && term.op == FieldOp::Equals)?;
    NameRule::Path.check(&term.value).is_empty().then(|| term.value.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;
    use crate::ApiServer;

    /// The time limit for a thread that waits for a lock, far above what it needs without waiting.
    const GIVE_UP: Duration = Duration::from_secs(20);

    #[test]
    fn signature_of_a_token_is_checked_without_the_lock_of_the_state() {
        let server = ApiServer::builder().token("t", User::named("u")).build();
        let payload = URL_SAFE_NO_PAD.encode(format!("{{\"iss\":{ISSUER:?}}}"));
        let forged = format!("Bearer a.{payload}.b");
        let headers = HeaderMap::from_iter([(AUTHORIZATION, forged.parse().expect("a header"))]);
        let locked = server.shared.state();
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let shared = &server.shared;
            scope.spawn(move || sender.send(shared.authenticate(&headers).is_err()));
            let refused = receiver.recv_timeout(GIVE_UP);
            drop(locked);
            assert_eq!(refused, Ok(true));
        });
    }
}
