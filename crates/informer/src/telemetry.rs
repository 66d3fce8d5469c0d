//! What informers report about themselves.
//!
//! ```text
//! Feed ─Observation→ FeedTelemetry ─┬→ the notes behind the status
//!                                   ├→ observers (metrics, `on_error`)
//!                                   └→ log lines
//! ```

pub(crate) mod feed;
pub(crate) mod observer;
#[cfg(feature = "prometheus")]
pub(crate) mod prometheus;
pub(crate) mod status;
