//! The in-process client of the controllers: it sends the bearer token of the cluster, if there is
//! one.

use http::header::{AUTHORIZATION, HeaderValue};
use kube::Client;
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;

/// Returns an in-process client that sends this token.
pub(crate) fn client(server: &ApiServer, token: Option<&str>) -> Client {
    let service = server.service();
    let header = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
    let Some(mut header) = header else { return Client::new(service, "default") };
    header.set_sensitive(true);
    let service = service.map_request(move |mut request: http::Request<kube::client::Body>| {
        request.headers_mut().insert(AUTHORIZATION, header.clone());
        request
    });
    Client::new(service, "default")
}
