//! Events of a run.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::GroupVersionKind;

use crate::objects::any_object::{AnyObject, ObjectRef};
use crate::recorder::Occurrence;
use crate::run::context::RunContext;

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
    occurrence: Occurrence,
}

impl RunContext {
    /// Publishes a Kubernetes event about an object, as `kubectl describe` shows it:
    /// `cx.event(&object).normal("Synced", "…")`. Events are written in the background, and may be
    /// lost. See [`EventAbout`] for actions, related objects and annotations.
    pub fn event<O: AnyObject>(&self, object: &impl ObjectRef<O>) -> EventAbout<'_> {
        EventAbout::new(self, object.as_object())
    }
}

impl<'a> EventAbout<'a> {
    fn new<O: AnyObject>(cx: &'a RunContext, object: &O) -> Self {
        Self { cx, occurrence: Occurrence::about(reference_to(cx, object)) }
    }

    /// What was done, or failed: a word in `CamelCase`. Default: `Reconcile`.
    pub fn action(self, action: impl Into<String>) -> Self {
        Self { occurrence: self.occurrence.action(action), ..self }
    }

    /// Another object that is involved. Default: none.
    pub fn related<O: AnyObject>(self, object: &impl ObjectRef<O>) -> Self {
        let related = reference_to(self.cx, object.as_object());
        Self { occurrence: self.occurrence.related(related), ..self }
    }

    /// An annotation of the event, for programs that read it. Default: none.
    pub fn annotation(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { occurrence: self.occurrence.annotation(key, value), ..self }
    }

    /// Publishes that something went well.
    pub fn normal(self, reason: &str, note: impl Into<String>) {
        self.publish("Normal", reason, note);
    }

    /// Publishes that something is wrong.
    pub fn warning(self, reason: &str, note: impl Into<String>) {
        self.publish("Warning", reason, note);
    }

    fn publish(self, type_: &'static str, reason: &str, note: impl Into<String>) {
        if self.cx.is_plan() {
            return;
        }
        let occurrence = self.occurrence.with_type(type_, reason, note);
        self.cx.note_event(&occurrence);
        self.cx.core.recorder.record(occurrence);
    }
}

fn reference_to<O: AnyObject>(cx: &RunContext, object: &O) -> ObjectReference {
    let (kind, meta) = (cx.kind_of(object), object.meta());
    ObjectReference {
        api_version: kind.as_ref().map(GroupVersionKind::api_version),
        kind: kind.map(|kind| kind.kind),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}
