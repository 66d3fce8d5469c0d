//! Reads the end of a body.

use std::time::Duration;

use futures::StreamExt as _;

use crate::transport::source::Body;

/// Reads the few bytes that follow a complete list, so that the connection can be used again. Gives
/// up if they do not come.
pub(super) async fn drain(mut body: Body) {
    let rest = async { while let Some(Ok(_)) = body.next().await {} };
    let _ = tokio::time::timeout(DRAIN_MAX, rest).await;
}

/// How long to wait for these bytes.
const DRAIN_MAX: Duration = Duration::from_secs(1);
