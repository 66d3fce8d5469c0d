//! The summary: what `/debug/windlass?limit=0` answers. A stream sends it once a second.
//!
//! Each stream asks for it at its own pace, and they share it. So it is made about once a second
//! however many viewers there are, and not at all without any.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State as Extract;
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use tokio::time::{MissedTickBehavior, interval};

use super::Shared;
use crate::http::Report;
use crate::http::listen::DASHBOARD;
use crate::http::report::Clock;
use crate::http::report::DebugQuery;
use crate::http::routes::NotMade;

/// How often a stream sends a summary.
const PERIOD: Duration = Duration::from_secs(1);

/// After how many summaries a stream ends. Then the page asks for another one, and its access is
/// checked again.
const SUMMARIES_MAX: usize = 60;

const _: () = assert!(
    DASHBOARD.last_request.as_secs() > SUMMARIES_MAX as u64 * PERIOD.as_secs(),
    "a stream must end by itself"
);

/// A summary, as it is sent.
#[derive(Clone)]
pub(super) struct Summary {
    json: Bytes,
    /// The same as a server-sent event.
    event: Bytes,
}

impl Shared {
    async fn summary(self: &Arc<Self>) -> Result<Arc<Summary>, NotMade> {
        let shared = Arc::clone(self);
        self.maker.run(move || shared.summary.get(|| shared.make_summary()).0).await
    }

    fn make_summary(&self) -> Summary {
        let query = DebugQuery { limit: Some(0), ..DebugQuery::default() };
        let report = Report::new(&self.state, &query, Clock::now());
        let report = report.expect("a query without names must find everything");
        let json = serde_json::to_string(&report).expect("a report must be JSON");
        // JSON has no line breaks, so an event has one line of data.
        let event = format!("event: summary\ndata: {json}\n\n");
        Summary { json: json.into(), event: event.into() }
    }
}

pub(super) async fn summary(Extract(shared): Extract<Arc<Shared>>) -> Response {
    match shared.summary().await {
        Ok(summary) => ([(CONTENT_TYPE, "application/json")], summary.json.clone()).into_response(),
        Err(error) => error.into_response(),
    }
}

/// The summary now, and then once a second for a minute. A client that reads slowly gets fewer.
pub(super) async fn stream(Extract(shared): Extract<Arc<Shared>>) -> Response {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = stream::unfold((shared, ticks), async |(shared, mut ticks)| {
        ticks.tick().await;
        let summary = shared.summary().await.ok()?;
        Some((Ok::<_, Infallible>(summary.event.clone()), (shared, ticks)))
    });
    let events = events.take(SUMMARIES_MAX);
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}
