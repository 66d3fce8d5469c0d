//! The end of a body.

use std::time::Duration;

use futures::StreamExt as _;

use crate::transport::source::Body;

/// Reads the few bytes after the end of a list, so that the connection can be used again. If they
/// do not arrive, the connection is given up.
pub(super) async fn drain(mut body: Body) {
    let rest = async { while let Some(Ok(_)) = body.next().await {} };
    let _ = tokio::time::timeout(DRAIN_MAX, rest).await;
}

/// How long to wait for the end of the body when the list is complete.
const DRAIN_MAX: Duration = Duration::from_secs(1);
