//! The Kubernetes events about an object.

use std::fmt;
use std::panic::Location;

use kube::api::ListParams;
use kube::core::request::Request;
use serde_json::Value;

use crate::objects::{TestObject, expect_accepted};
use crate::test_cluster::TestCluster;

/// An event about an object, as `kubectl describe` shows it.
///
/// Displayed as `Normal Published: the page is served`, and equal to that text.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventRecord {
    /// `Normal` or `Warning`.
    pub type_: String,
    /// The reason, in one word.
    pub reason: String,
    /// The message.
    pub message: String,
    /// How often it happened.
    pub count: u64,
}

impl TestCluster {
    /// Returns the events about an object, the oldest first. Waits until those that the test's
    /// controllers have recorded are written.
    ///
    /// # Panics
    /// If the server does not answer.
    #[track_caller]
    pub fn events<K: TestObject>(&self, name: &str) -> impl Future<Output = Vec<EventRecord>> {
        let (at, named) = (Location::caller(), self.named::<K>(name));
        async move {
            for controller in self.runnables().iter().flat_map(|part| part.controllers()) {
                controller.recorder().flush().await;
            }
            // Events about objects without a namespace are in this one.
            let namespace = named.namespace.as_deref().unwrap_or("default");
            let sent = async {
                let request = Request::new(format!("/api/v1/namespaces/{namespace}/events"));
                let request = request.list(&ListParams::default());
                let request = request.map_err(kube::Error::BuildRequest)?;
                self.client().request::<Value>(request).await
            };
            let list = expect_accepted(at, "asked for its events", &named, sent.await);
            let is_about = |event: &&Value| {
                let about = &event["involvedObject"];
                about["kind"] == *named.kind && about["name"] == *named.name
            };
            let events = list["items"].as_array().into_iter().flatten().filter(is_about);
            let mut events: Vec<&Value> = events.collect();
            events.sort_by_key(|event| {
                let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
                let began = [text("eventTime"), text("firstTimestamp")].concat();
                let version = event["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                (began, version.parse::<u64>().ok())
            });
            events.into_iter().map(EventRecord::new).collect()
        }
    }
}

impl EventRecord {
    fn new(event: &Value) -> Self {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let count = event["series"]["count"].as_u64().or_else(|| event["count"].as_u64());
        Self {
            type_: text("type"),
            reason: text("reason"),
            message: text("message"),
            count: count.unwrap_or(1).max(1),
        }
    }
}

impl fmt::Display for EventRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.type_, self.reason, self.message)
    }
}

impl fmt::Debug for EventRecord {
    /// Formats it as its `Display` text, so that a failed assertion is readable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl PartialEq<str> for EventRecord {
    fn eq(&self, text: &str) -> bool {
        let own = self.to_string();
        own == text
    }
}

impl PartialEq<&str> for EventRecord {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

impl PartialEq<String> for EventRecord {
    fn eq(&self, text: &String) -> bool {
        self == text.as_str()
    }
}
