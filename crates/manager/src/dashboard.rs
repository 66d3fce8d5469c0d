//! The dashboard: a page that shows a running operator, and the API behind the page. It is off by
//! default; `--dashboard 127.0.0.1:9090` turns it on.
//!
//! | request | answer |
//! |---|---|
//! | `GET /`, `/style.css`, `/app.js` and other scripts | the page, which holds no data |
//! | `GET /api/summary` | the [report](crate::http::Report) without keys and runs |
//! | `GET /api/stream` | the same once a second, as server-sent events |
//! | `GET /api/keys?controller=…` | one page of the keys of a controller, filtered |
//! | `GET /api/runs` | one page of the last runs, filtered |
//! | `GET /api/key?controller=…&key=…` | one key: its state, its last runs, its troubles |
//! | `GET /api/story?key=…` | as `/debug/windlass/story` |
//! | `POST /api/run` | runs a key now |
//! | `POST /api/pause` | sets or removes the annotation that pauses an object |
//!
//! - `access` decides who may use it, `page` has the files of the page;
//! - `summary`, `keys`, `runs` and `key` make the answers, from the report types of
//!   [`http::report`](crate::http::report); `actions` is what it can do;
//! - `kept` shares expensive answers between requests.
//!
//! Invariants: without viewers, the dashboard does nothing. With one, each kind of answer takes
//! about 1 % of a core: what is expensive is made less often, but at least once a minute. Answers
//! have names, numbers and the messages of errors, and never the content of an object.

mod access;
mod actions;
mod kept;
mod key;
mod keys;
mod page;
mod runs;
mod summary;

pub use access::Access;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, State as Extract};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use tokio::time::Instant;

use crate::error::ManagerError;
use crate::group::Group;
use crate::http::report::{Clock, StoryReport, Unknown, list};
use crate::http::routes::{Maker, StoryQuery};
use crate::http::{self as endpoints, Authorizer, Listener, listen};
use crate::options::Options;
use crate::state::{ControllerState, State};
use kept::{Kept, refresh_seconds};
use keys::{KeysPage, KeysQuery, Listing};
use runs::{KnownRun, RunsPage, RunsQuery};
use summary::Summary;

/// The flag that sets the address. Errors name it.
const FLAG: &str = "--dashboard";

/// The largest body of a request: the name of a controller and a key.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// The address of the dashboard, bound and not yet served.
pub(crate) struct Endpoint {
    listener: Listener,
}

impl Endpoint {
    /// Binds the address; `None` if there is none.
    pub(crate) async fn bind(options: &Options) -> Result<Option<Self>, ManagerError> {
        let address = options.dashboard.as_deref().filter(|address| !address.is_empty());
        let Some(address) = address else { return Ok(None) };
        let listener = endpoints::bind(address, FLAG).await?;
        Ok(listener.map(|listener| Self { listener: listener.with_limits(listen::DASHBOARD) }))
    }

    /// Serves until the group is stopped, and logs the URL.
    pub(crate) async fn serve(
        self,
        options: &Options,
        state: &Arc<State>,
        client: &kube::Client,
        group: &mut Group,
    ) -> Result<(), ManagerError> {
        let address = self.listener.address();
        let (access, tls) = if address.ip().is_loopback() {
            let access = Access::local();
            // The only line that ever has the token. Whoever reads the log may use the dashboard.
            if tracing::enabled!(tracing::Level::INFO) {
                tracing::info!("the dashboard is at {}", access.url(address));
            } else {
                eprintln!("the dashboard is at {}", access.url(address));
            }
            (access, None)
        } else {
            let access = Access::reviewed(Authorizer::new(client.clone()));
            tracing::info!("the dashboard is at {}", access.url(address));
            (access, Some(endpoints::certificate(options, state).await?))
        };
        let (router, stop) = (router(state, &access), group.shutdown().token().clone());
        let name = "the HTTP server of the dashboard";
        endpoints::spawn(group, name, self.listener, router, tls, stop);
        Ok(())
    }
}

/// What all requests share.
struct Shared {
    state: Arc<State>,
    maker: Maker,
    summary: Kept<Summary>,
    /// By the name of the controller.
    listings: Mutex<HashMap<String, Arc<Kept<Listing>>>>,
    runs: Kept<Vec<KnownRun>>,
}

impl Shared {
    /// The controller of this name.
    fn controller(&self, name: &str) -> Result<&ControllerState, Unknown> {
        let controllers = self.state.controllers();
        controllers.iter().find(|shown| shown.controller.name() == name).ok_or_else(|| {
            let names = controllers.iter().map(|shown| shown.controller.name().to_owned());
            let known = list(names.collect());
            match name {
                "" => Unknown::NoController { known },
                name => Unknown::Controller { name: name.to_owned(), known },
            }
        })
    }

    /// The shared listing of a controller.
    fn listing(&self, controller: &ControllerState) -> Arc<Kept<Listing>> {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(listings.entry(controller.controller.name().to_owned()).or_default())
    }
}

/// The page and its API.
pub(crate) fn router(state: &Arc<State>, access: &Access) -> Router {
    let shared = Arc::new(Shared {
        state: Arc::clone(state),
        maker: Maker::default(),
        summary: Kept::default(),
        listings: Mutex::default(),
        runs: Kept::default(),
    });
    let api = Router::new()
        .route("/api/summary", get(summary::summary))
        .route("/api/stream", get(summary::stream))
        .route("/api/keys", get(keys))
        .route("/api/runs", get(runs))
        .route("/api/key", get(key::key))
        .route("/api/story", get(story))
        .route("/api/run", post(actions::run))
        .route("/api/pause", post(actions::pause))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shared);
    let api = access.protect_api(api).layer(axum::middleware::map_response(not_stored));
    let router = page::router().merge(api).fallback(nothing_here);
    page::with_headers(access.check_host(router))
}

async fn keys(Extract(shared): Extract<Arc<Shared>>, Query(query): Query<KeysQuery>) -> Response {
    let maker = shared.maker.clone();
    maker.make_compact(move || KeysPage::new(&shared, &query)).await
}

async fn runs(Extract(shared): Extract<Arc<Shared>>, Query(query): Query<RunsQuery>) -> Response {
    let maker = shared.maker.clone();
    maker.make_compact(move || RunsPage::new(&shared, &query)).await
}

async fn story(Extract(shared): Extract<Arc<Shared>>, Query(query): Query<StoryQuery>) -> Response {
    let maker = shared.maker.clone();
    let kind = query.kind.filter(|kind| !kind.is_empty());
    let limit = Some(query.limit.unwrap_or(STORY).min(STORY_MAX));
    let query = StoryQuery { kind, limit, ..query };
    let make = move || {
        let began = Instant::now();
        let story = StoryReport::new(&shared.state, &query, Clock::now())?;
        Ok(StoryAnswer { story, refresh_seconds: refresh_seconds(began.elapsed()) })
    };
    maker.make_compact(make).await
}

/// How many runs a story has by default.
const STORY: usize = 100;

/// How many runs a story has at most.
const STORY_MAX: usize = 300;

/// What `/api/story` answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoryAnswer {
    #[serde(flatten)]
    story: StoryReport,
    /// When to ask again.
    refresh_seconds: u64,
}

/// Answers of the API are about this moment, and for one user.
async fn not_stored(mut answer: Response) -> Response {
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

async fn nothing_here() -> Response {
    (StatusCode::NOT_FOUND, "there is nothing here; the dashboard is at /\n").into_response()
}

/// The items of a page, and how many there are in all.
fn paged<T>(items: impl Iterator<Item = T>, offset: usize, limit: usize) -> (Vec<T>, usize) {
    let (mut shown, mut total) = (Vec::new(), 0);
    for item in items {
        if total >= offset && shown.len() < limit {
            shown.push(item);
        }
        total += 1;
    }
    (shown, total)
}

/// How many items a page has by default.
const PAGE: usize = 100;

/// How many items a page has at most.
const PAGE_MAX: usize = 200;

fn page_limit(asked: Option<usize>) -> usize {
    asked.unwrap_or(PAGE).min(PAGE_MAX)
}
