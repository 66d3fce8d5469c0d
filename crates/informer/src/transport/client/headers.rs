//! Headers of every request: who asks, and that answers are not compressed.

use std::task::{Context, Poll};

use http::header::{ACCEPT_ENCODING, Entry, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request};
use tower::Service;

/// Not one that the server takes for a person's and indents JSON for.
pub(super) const USER_AGENT_DEFAULT: HeaderValue =
    HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION")));

const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// The service of this layer.
pub(super) struct Headers<S> {
    inner: S,
    user_agent: HeaderValue,
}

impl<S> Headers<S> {
    pub(super) fn new(inner: S, user_agent: HeaderValue) -> Self {
        Self { inner, user_agent }
    }
}

impl<S, B> Service<Request<B>> for Headers<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        let headers = request.headers_mut();
        set_if_absent(headers, USER_AGENT, &self.user_agent);
        // Compression costs both sides more CPU time than it saves in a data centre, and the events of a
        // compressed watch come in blocks: each would wait for the next ones.
        set_if_absent(headers, ACCEPT_ENCODING, &IDENTITY);
        self.inner.call(request)
    }
}

/// What a request says for itself stands.
fn set_if_absent(headers: &mut HeaderMap, name: HeaderName, value: &HeaderValue) {
    if let Entry::Vacant(entry) = headers.entry(name) {
        entry.insert(value.clone());
    }
}
