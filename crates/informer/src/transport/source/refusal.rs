//! An answer that is no body: what the server said instead, as a [`Status`].

use http::Response;
use kube::client::Body;

use crate::decode::frames::Status;
use crate::transport::client::read_status;

/// Reads what the server has to say. What does not arrive is left out.
pub(crate) async fn read(response: Response<Body>) -> Status {
    let (head, body) = response.into_parts();
    let status = read_status(head.status, &head.headers, body).await;
    Status::parse(status.to_string().as_bytes())
        .unwrap_or_else(|| Status { code: head.status.as_u16(), ..Status::default() })
}
