//! What a query selects, and the error for what does not exist.

use std::collections::BTreeSet;

use serde::Deserialize;
use windlass_indexer::ObjectKey;

use crate::state::{ControllerState, State};

/// How many keys and how many runs of each controller are shown by default.
const KEYS_MAX: usize = 1_000;
const RUNS_MAX: usize = 100;

/// How many known keys or names an error lists.
const NAMED_MAX: usize = 20;

/// The query of `/debug/windlass`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct DebugQuery {
    /// Only this controller.
    pub(crate) controller: Option<String>,
    /// Only this key.
    pub(crate) key: Option<String>,
    /// At most this many keys and runs of each controller.
    pub(crate) limit: Option<usize>,
}

/// What a report contains.
pub(crate) struct Selection<'s> {
    pub(crate) controllers: Vec<&'s ControllerState>,
    /// Only this key.
    pub(crate) key: Option<ObjectKey>,
    pub(crate) keys_max: usize,
    pub(crate) runs_max: usize,
    /// Whether the report contains everything.
    pub(crate) is_all: bool,
}

/// A query names something that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unknown {
    #[error("which object? Say it by ?key=NAMESPACE/NAME, or ?key=NAME if it has no namespace")]
    NoKey,
    #[error("which controller? Give its name as `controller`; there are: {known}")]
    NoController { known: String },
    #[error("{0:?} is not a key: use NAMESPACE/NAME, or NAME if the object has no namespace")]
    InvalidKey(String),
    #[error(
        "no controller reconciles or watches {kind:?}, and no run is known to have written this \
         object; there are: {known}"
    )]
    Kind { kind: String, known: String },
    #[error("there is no controller {name:?}; there are: {known}")]
    Controller { name: String, known: String },
    #[error("{value:?} is no {what}; use one of: {known}")]
    Value { what: &'static str, value: String, known: &'static str },
    #[error("{key:?} is neither an object of this controller, nor in its queue, nor has it run")]
    KeyOfController { key: String },
    #[error("{key:?} is neither in a queue nor among the last runs; some keys that are: {known}")]
    Key { key: String, known: String },
}

impl<'s> Selection<'s> {
    pub(crate) fn of(query: &DebugQuery, state: &'s State) -> Result<Self, Unknown> {
        let mut controllers: Vec<_> = state.controllers().iter().collect();
        if let Some(name) = &query.controller {
            let names = controllers.iter().map(|shown| shown.controller.name().to_owned());
            let names: BTreeSet<_> = names.collect();
            controllers.retain(|shown| shown.controller.name() == name);
            if controllers.is_empty() {
                return Err(Unknown::Controller { name: name.clone(), known: list(names) });
            }
        }
        let key = match &query.key {
            None => None,
            Some(text) => {
                let keys = || known_keys(&controllers);
                let unknown = || Unknown::Key { key: text.clone(), known: list(keys()) };
                // A text that is not a valid key is unknown, too.
                let key: ObjectKey = text.parse().map_err(|_| unknown())?;
                let known: Vec<_> =
                    controllers.iter().copied().filter(|shown| knows(shown, &key)).collect();
                if known.is_empty() {
                    return Err(unknown());
                }
                controllers = known;
                Some(key)
            }
        };
        Ok(Self {
            controllers,
            key,
            keys_max: query.limit.unwrap_or(KEYS_MAX),
            runs_max: query.limit.unwrap_or(RUNS_MAX),
            is_all: query.controller.is_none() && query.key.is_none(),
        })
    }

    /// Whether all keys are omitted, and only counted. Then none has to be copied.
    pub(super) fn is_without_keys(&self) -> bool {
        self.key.is_none() && self.keys_max == 0
    }
}

fn knows(shown: &ControllerState, key: &ObjectKey) -> bool {
    let controller = &shown.controller;
    controller.queue().status(key).is_some() || !controller.runs(key).is_empty()
}

/// Some keys of these controllers.
fn known_keys(controllers: &[&ControllerState]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for ControllerState { controller, .. } in controllers {
        let queued = controller.queue().snapshot().keys.into_iter().map(|status| status.key);
        let ran = controller.recent_runs(NAMED_MAX).runs.into_iter().map(|(key, _)| key);
        keys.extend(queued.take(NAMED_MAX).chain(ran).map(|key| key.to_string()));
    }
    keys
}

pub(crate) fn list(names: BTreeSet<String>) -> String {
    let names: Vec<_> = names.into_iter().take(NAMED_MAX).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
