//! What informers report about themselves.
//!
//! ```text
//! Feed ─Observation→ FeedTelemetry ─┬→ the notes behind the status
//!                                   ├→ observers (metrics, `on_error`)
//!                                   └→ log lines
//! ```
//!
//! `requests` has the metrics of a client's requests, from [`RequestObserver`].
//!
//! [`RequestObserver`]: crate::observe::RequestObserver

pub(crate) mod feed;
pub(crate) mod observer;
#[cfg(feature = "prometheus")]
pub(crate) mod prometheus;
#[cfg(feature = "prometheus")]
pub(crate) mod requests;
pub(crate) mod status;
