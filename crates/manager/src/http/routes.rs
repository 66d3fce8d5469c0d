//! The endpoints: probes, metrics, and the debug endpoint.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, RawQuery};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use super::checks::{Answer, Checks, Probe};
use super::report::{DebugQuery, Unknown};

/// The media type of `OpenMetrics`.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `/healthz`, `/livez` and `/readyz`.
pub(crate) fn probes(checks: &Checks) -> Router {
    let endpoints = [("healthz", Probe::Live), ("livez", Probe::Live), ("readyz", Probe::Ready)];
    endpoints.into_iter().fold(Router::new(), |router, (endpoint, probe)| {
        let (all, one) = (checks.clone(), checks.clone());
        router
            .route(
                &format!("/{endpoint}"),
                get(async move |RawQuery(query): RawQuery| {
                    let (excluded, is_verbose) = parse_query(query.as_deref().unwrap_or_default());
                    reply(all.answer(probe, endpoint, &excluded, is_verbose).await)
                }),
            )
            .route(
                &format!("/{endpoint}/{{*check}}"),
                get(async move |Path(check): Path<String>| {
                    match one.answer_one(probe, &check).await {
                        Some(answer) => reply(answer),
                        None => unknown_check(&check, &one.names(probe)),
                    }
                }),
            )
    })
}

/// The excluded checks, and whether to list all: `?verbose&exclude=a&exclude=b`.
fn parse_query(query: &str) -> (Vec<String>, bool) {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let excluded = pairs.iter().filter(|(name, _)| name == "exclude");
    let excluded = excluded.map(|(_, check)| check.to_string()).collect();
    (excluded, pairs.iter().any(|(name, _)| name == "verbose"))
}

fn reply(answer: Answer) -> Response {
    let status = if answer.is_ok { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    (status, [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")], answer.text).into_response()
}

fn unknown_check(name: &str, names: &[String]) -> Response {
    let text = format!("there is no check {name:?}; there are: {}\n", names.join(", "));
    (StatusCode::NOT_FOUND, text).into_response()
}

/// `/metrics`. `encode` returns the metrics as `OpenMetrics` text.
pub(crate) fn metrics(encode: impl Fn() -> String + Send + Sync + 'static) -> Router {
    let encode = Arc::new(encode);
    let metrics = async move || ([(header::CONTENT_TYPE, OPEN_METRICS)], encode());
    Router::new().route("/metrics", get(metrics))
}

/// The query of `/debug/windlass/story`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct StoryQuery {
    /// The key of the object.
    pub(crate) key: Option<String>,
    /// Its kind or its plural, in any case. Without it, the object is one that a controller
    /// reconciles.
    pub(crate) kind: Option<String>,
    /// At most this many runs.
    pub(crate) limit: Option<usize>,
}

/// `/debug/windlass` and `/debug/windlass/story`. Each function returns what is shown, or an error
/// for an unknown controller or key.
pub(crate) fn debug<R: Serialize, S: Serialize>(
    report: impl Fn(&DebugQuery) -> Result<R, Unknown> + Send + Sync + 'static,
    story: impl Fn(&StoryQuery) -> Result<S, Unknown> + Send + Sync + 'static,
) -> Router {
    let maker = Maker::default();
    let (report, story) = (Arc::new(report), Arc::new(story));
    let reports = maker.clone();
    Router::new()
        .route(
            "/debug/windlass",
            get(async move |Query(query): Query<DebugQuery>| {
                reports.make(move || report(&query)).await
            }),
        )
        .route(
            "/debug/windlass/story",
            get(async move |Query(query): Query<StoryQuery>| {
                maker.make(move || story(&query)).await
            }),
        )
}

/// Makes reports. A report visits all keys and caches. So only one is made at a time, however many
/// are requested, and on a blocking thread.
#[derive(Clone, Default)]
pub(crate) struct Maker {
    turn: Arc<Mutex<()>>,
    threads: TaskTracker,
}

/// A report could not be made. The panic was logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotMade;

impl Maker {
    /// Answers with a report as JSON for people.
    async fn make<T: Serialize>(
        &self,
        report: impl FnOnce() -> Result<T, Unknown> + Send + 'static,
    ) -> Response {
        self.answer(move || report().map(|report| serde_json::to_vec_pretty(&report))).await
    }

    /// Answers with a report as JSON for programs.
    pub(crate) async fn make_compact<T: Serialize>(
        &self,
        report: impl FnOnce() -> Result<T, Unknown> + Send + 'static,
    ) -> Response {
        self.answer(move || report().map(|report| serde_json::to_vec(&report))).await
    }

    async fn answer(
        &self,
        report: impl FnOnce() -> Result<serde_json::Result<Vec<u8>>, Unknown> + Send + 'static,
    ) -> Response {
        match self.run(report).await {
            Ok(Ok(Ok(json))) => {
                ([(header::CONTENT_TYPE, "application/json")], json).into_response()
            }
            Ok(Err(unknown)) => {
                let status = match unknown {
                    Unknown::NoKey
                    | Unknown::NoController { .. }
                    | Unknown::InvalidKey(_)
                    | Unknown::Value { .. } => StatusCode::BAD_REQUEST,
                    _ => StatusCode::NOT_FOUND,
                };
                (status, format!("{unknown}\n")).into_response()
            }
            Ok(Ok(Err(_))) | Err(NotMade) => NotMade.into_response(),
        }
    }

    /// Runs `make` on a blocking thread, when its turn comes.
    ///
    /// Cancel safety: if it is dropped, `make` still ends if it has begun.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotMade> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let ended = self.threads.spawn_blocking(move || {
            let _turn = turn;
            make()
        });
        ended.await.map_err(|_| NotMade)
    }
}

impl IntoResponse for NotMade {
    fn into_response(self) -> Response {
        let text = "the report cannot be made, which is a bug in Windlass: see the log\n";
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    }
}
