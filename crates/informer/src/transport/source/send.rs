//! Sends a request without a body over a [`kube::Client`].

use http::request::Builder;
use kube::client::Body;

use super::error::SourceError;
use crate::decode::frames::Status;
use crate::transport::client::read_status;

/// Sends a request and returns the body of the answer. Any answer but 2xx is an error.
pub(crate) async fn send(client: &kube::Client, request: Builder) -> Result<Body, SourceError> {
    // The path may come from discovery or from a caller, and be invalid.
    let request = request.body(Body::empty()).map_err(|error| SourceError::transport(&error))?;
    let response = client.send(request).await.map_err(|error| SourceError::transport(&error))?;
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        return Ok(body);
    }
    let status = Status::of(&read_status(head.status, &head.headers, body).await);
    let only_code = || Status { code: head.status.as_u16(), ..Status::default() };
    Err(status.unwrap_or_else(only_code).into())
}
