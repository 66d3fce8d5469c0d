//! Checks pods and replica sets at every event, and records violations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Kind, Stage};

/// The existing objects of a kind, by name.
pub(crate) type Present = BTreeMap<String, Value>;

/// Watches one kind until it is [ended](Self::end).
pub(crate) struct Watcher {
    watching: JoinSet<()>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    events: usize,
    wrong: Vec<String>,
}

impl Watcher {
    /// Calls `check` with the existing objects after each event; what it returns is a violation.
    pub(crate) async fn begin(
        stage: &Stage,
        kind: &Kind,
        check: impl Fn(&Present) -> Option<String> + Send + 'static,
    ) -> Self {
        let api = stage.api(kind);
        let list = api.list(&ListParams::default()).await.expect("a list");
        let version = list.metadata.resource_version.expect("a version");
        let named = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
        let mut present: Present =
            list.items.iter().map(|object| (named(object), json!(object))).collect();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noted = Arc::clone(&seen);
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            let events = api.watch(&WatchParams::default(), &version).await.expect("a watch");
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match event.expect("an event") {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        present.insert(named(&object), json!(object));
                    }
                    WatchEvent::Deleted(object) => {
                        present.remove(&named(&object));
                    }
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(status) => panic!("the watch fails: {status:?}"),
                }
                let mut seen = noted.lock().expect("not poisoned");
                seen.events += 1;
                seen.wrong.extend(check(&present));
            }
        });
        Self { watching, seen }
    }

    /// Fails if there was a violation, or no event at all.
    pub(crate) fn end(mut self) {
        self.watching.abort_all();
        if let Some(Err(error)) = self.watching.try_join_next() {
            assert!(error.is_cancelled(), "{error}");
        }
        let seen = self.seen.lock().expect("not poisoned");
        assert!(seen.events > 0, "nothing happened");
        assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
    }
}

/// Whether a pod counts as a replica.
pub(crate) fn is_active(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && !["Failed", "Succeeded"].iter().any(|phase| pod["status"]["phase"] == **phase)
}

/// Whether a pod is ready and not being deleted.
pub(crate) fn is_available(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    is_active(pod) && ready.any(|condition| condition["status"] == "True")
}
