//! One key: its state, its last runs, and what is wrong with it.

use std::sync::Arc;

use axum::extract::{Query, State as Extract};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass_indexer::ObjectKey;

use super::Shared;
use super::kept::refresh_seconds;
use crate::http::report::{
    Clock, InactiveReport, KeyReport, RunReport, Time, TroubleReport, Unknown, troubles,
};
use crate::state::ControllerState;

/// What `/api/key` is asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct KeyQuery {
    controller: String,
    key: String,
}

/// What `/api/key` answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyAnswer {
    time: Time,
    controller: String,
    kind: String,
    key: String,
    /// Whether the cache has the object.
    exists: bool,
    /// The annotation that pauses the object; `None` if nothing does.
    pause_annotation: Option<String>,
    /// Whether the object is paused.
    paused: bool,
    /// Its state in the queue; `None` if it is not queued.
    queue: Option<KeyReport>,
    /// Why it rests: it is paused, given up, or has a terminal error. `None` if it does not rest.
    inactive: Option<InactiveReport>,
    /// How often it has run; see `Controller::run_count` for where this begins.
    run_count: u64,
    /// Its last runs, the newest first.
    runs: Vec<RunReport>,
    trouble: Vec<TroubleReport>,
    /// When to ask again.
    refresh_seconds: u64,
}

pub(super) async fn key(
    Extract(shared): Extract<Arc<Shared>>,
    Query(query): Query<KeyQuery>,
) -> Response {
    let maker = shared.maker.clone();
    maker.make_compact(move || KeyAnswer::new(&shared, &query)).await
}

impl Shared {
    /// A controller, and one of its keys: an object, a key in the queue, or one that has run.
    pub(super) fn key_of(
        &self,
        controller: &str,
        key: &str,
    ) -> Result<(&ControllerState, ObjectKey), Unknown> {
        let shown = self.controller(controller)?;
        let key: ObjectKey = key.parse().map_err(|_| Unknown::InvalidKey(key.to_owned()))?;
        let controller = &shown.controller;
        let is_known = has_object(shown, &key)
            || controller.queue().status(&key).is_some()
            || !controller.runs(&key).is_empty();
        if is_known {
            Ok((shown, key))
        } else {
            Err(Unknown::KeyOfController { key: key.to_string() })
        }
    }
}

/// Whether the cache has the object of a key.
pub(super) fn has_object(shown: &ControllerState, key: &ObjectKey) -> bool {
    shown.controller.caches().first().is_some_and(|cache| cache.reader().get(key).is_some())
}

impl KeyAnswer {
    fn new(shared: &Shared, query: &KeyQuery) -> Result<Self, Unknown> {
        let began = Instant::now();
        if query.key.is_empty() {
            return Err(Unknown::NoKey);
        }
        let (shown, key) = shared.key_of(&query.controller, &query.key)?;
        let (controller, clock) = (&*shown.controller, Clock::now());
        let queue = controller.queue().status(&key);
        let inactive = controller.inactive().into_iter().find(|of| of.key == key);
        let runs = controller.runs(&key);
        let text = key.to_string();
        let is_shown = |name: &str, of: &str| name == controller.name() && of == text;
        Ok(Self {
            time: clock.now_as_time(),
            controller: controller.name().to_owned(),
            kind: shown.reconciled().map_or_else(String::new, |of| of.kind().to_owned()),
            exists: has_object(shown, &key),
            pause_annotation: controller.pause_annotation().map(str::to_owned),
            paused: controller.is_paused(&key),
            queue: queue.and_then(|status| KeyReport::of(&status, clock)),
            inactive: inactive.map(|of| InactiveReport::of(&of, clock)),
            run_count: controller.run_count(&key),
            runs: runs.iter().rev().map(|run| RunReport::of(&key, run, clock)).collect(),
            trouble: troubles(shared.state.controllers(), is_shown).0,
            refresh_seconds: refresh_seconds(began.elapsed()),
            key: text,
        })
    }
}
