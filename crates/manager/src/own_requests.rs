//! Tells the requests of the manager itself from those of controllers and tasks.

use http::Request;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// An extension of the requests that a manager sends itself, for layers of a
/// [`ClientStack`](windlass_informer::ClientStack). The environment of tests reads it: the rights
/// that these requests need are [declared](crate::Manager::on_rights).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRequest;

/// A client that marks its requests, and sends them through `client`.
pub(crate) fn own_requests(client: &Client) -> Client {
    let inner = client.clone();
    let service = service_fn(move |mut request: Request<Body>| {
        request.extensions_mut().insert(OwnRequest);
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Client::new(service, client.default_namespace())
}
