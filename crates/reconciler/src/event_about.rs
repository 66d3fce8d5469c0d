//! Events of a run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;

use crate::context::RunContext;
use crate::objects::{AnyObject, ObjectRef};
use crate::recorder::Occurrence;

/// An event about an object, to be published as [`normal`](Self::normal) or
/// [`warning`](Self::warning). See [`RunContext::event`].
///
/// ```
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use k8s_openapi::api::core::v1::Pod;
/// # use windlass_reconciler::RunContext;
/// # fn example(cx: &RunContext, web: &Deployment, pod: &Pod) {
/// cx.event(web)
///     .action("CreatePod")
///     .related(pod)
///     .annotation("example.com/attempt", "3")
///     .warning("FailedCreate", "the quota is used up");
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is published before `normal` or `warning` is called"]
pub struct EventAbout<'a> {
    cx: &'a RunContext,
    object: ObjectReference,
    action: Option<String>,
    related: Option<ObjectReference>,
    annotations: BTreeMap<String, String>,
}

impl<'a> EventAbout<'a> {
    pub(crate) fn new<O: AnyObject>(cx: &'a RunContext, object: &O) -> Self {
        let object = reference_to(cx, object);
        Self { cx, object, action: None, related: None, annotations: BTreeMap::new() }
    }

    /// What was done, or failed: a word in `CamelCase`. Default: `Reconcile`.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Another object that is involved. Default: none.
    pub fn related<O: AnyObject>(mut self, object: &impl ObjectRef<O>) -> Self {
        self.related = Some(reference_to(self.cx, object.as_object()));
        self
    }

    /// An annotation of the event, for programs that read it. Default: none.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Publishes that something went well.
    pub fn normal(self, reason: &str, note: impl Into<String>) {
        self.publish(|object| Occurrence::normal(object, reason, note));
    }

    /// Publishes that something is wrong.
    pub fn warning(self, reason: &str, note: impl Into<String>) {
        self.publish(|object| Occurrence::warning(object, reason, note));
    }

    fn publish(self, occurrence: impl FnOnce(ObjectReference) -> Occurrence) {
        if self.cx.is_plan() {
            return;
        }
        let mut occurrence = occurrence(self.object);
        if let Some(action) = self.action {
            occurrence = occurrence.action(action);
        }
        if let Some(related) = self.related {
            occurrence = occurrence.related(related);
        }
        for (key, value) in self.annotations {
            occurrence = occurrence.annotation(key, value);
        }
        self.cx.note_event(&occurrence);
        self.cx.tools.recorder.record(occurrence);
    }
}

fn reference_to<O: AnyObject>(cx: &RunContext, object: &O) -> ObjectReference {
    match cx.kind_of(object) {
        Some(kind) => kind.reference_to(object.meta()),
        None => ObjectReference {
            namespace: object.meta().namespace.clone(),
            name: object.meta().name.clone(),
            uid: object.meta().uid.clone(),
            ..ObjectReference::default()
        },
    }
}
