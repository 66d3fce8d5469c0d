//! Something that happened to an object; and what makes two of them the same event.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;

/// The longest `note` that the server accepts, in bytes.
const NOTE_MAX: usize = 1024;

/// The longest `reason`, `action` and `reportingInstance` that the server accepts, in bytes.
const WORD_MAX: usize = 128;

/// The default `action`. The server requires one.
const ACTION: &str = "Reconcile";

/// Something that happened to an object, for an event.
///
/// ```
/// use k8s_openapi::api::core::v1::ObjectReference;
/// use windlass_reconciler::Occurrence;
///
/// # let (deployment, pod) = (ObjectReference::default(), ObjectReference::default());
/// let occurrence = Occurrence::warning(deployment, "FailedCreate", "quota exceeded")
///     .action("CreatePod")
///     .related(pod);
/// # drop(occurrence);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Occurrence {
    pub(super) regarding: ObjectReference,
    pub(super) related: Option<ObjectReference>,
    pub(super) type_: &'static str,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) note: String,
    pub(super) annotations: BTreeMap<String, String>,
}

impl Occurrence {
    /// Something went well: an event of type `Normal`. The reason is a word in `CamelCase` of at
    /// most 128 bytes, the note a sentence for people of at most 1 kB. Longer text is cut.
    pub fn normal(
        regarding: ObjectReference,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self::about(regarding).with_type("Normal", reason, note)
    }

    /// Something is wrong: an event of type `Warning`.
    pub fn warning(
        regarding: ObjectReference,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self::about(regarding).with_type("Warning", reason, note)
    }

    /// Something whose type, reason and note are set later.
    pub(crate) fn about(regarding: ObjectReference) -> Self {
        Self {
            regarding,
            related: None,
            type_: "",
            reason: String::new(),
            action: ACTION.to_owned(),
            note: String::new(),
            annotations: BTreeMap::new(),
        }
    }

    pub(crate) fn with_type(
        self,
        type_: &'static str,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        let (reason, note) = (word(reason.into(), "Unspecified"), cut(note.into(), NOTE_MAX));
        Self { type_, reason, note, ..self }
    }

    /// What was done, or failed: a word in `CamelCase` of at most 128 bytes. Default: `Reconcile`.
    pub fn action(self, action: impl Into<String>) -> Self {
        Self { action: word(action.into(), ACTION), ..self }
    }

    /// Another object that is involved. Default: none.
    pub fn related(self, related: ObjectReference) -> Self {
        Self { related: Some(related), ..self }
    }

    /// An annotation of the event, for programs that read it. If the same event happens again, the
    /// annotations of the first time stay. Default: none.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// A copy whose size is bounded.
    pub(crate) fn without_annotations(&self) -> Self {
        Self { annotations: BTreeMap::new(), ..self.clone() }
    }

    /// The bytes that its texts have allocated, without annotations.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let reference = |reference: &ObjectReference| {
            let texts = [
                &reference.api_version,
                &reference.kind,
                &reference.namespace,
                &reference.name,
                &reference.uid,
                &reference.resource_version,
                &reference.field_path,
            ];
            texts.into_iter().flatten().map(String::capacity).sum::<usize>()
        };
        let texts = [&self.reason, &self.action, &self.note].map(String::capacity);
        let related = self.related.as_ref().map_or(0, reference);
        reference(&self.regarding) + related + texts.iter().sum::<usize>()
    }

    /// Whether it is an event of type `Warning`.
    pub fn is_warning(&self) -> bool {
        self.type_ == "Warning"
    }

    /// The object that it is about.
    pub fn regarding(&self) -> &ObjectReference {
        &self.regarding
    }

    /// The other object that is involved.
    pub fn related_object(&self) -> Option<&ObjectReference> {
        self.related.as_ref()
    }

    /// The reason, as in `FailedCreate`.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What was done, or failed.
    pub fn action_name(&self) -> &str {
        &self.action
    }

    /// The note for people.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// The annotations.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    /// The namespace of the event: that of its object, or `default` for a cluster-scoped object.
    pub(super) fn namespace(&self) -> &str {
        let namespace = self.regarding.namespace.as_deref();
        namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }

    /// The object for people, as in `Pod shop/web`.
    pub(super) fn object(&self) -> String {
        let ObjectReference { kind, namespace, name, .. } = &self.regarding;
        let [kind, name] = [kind, name].map(|part| part.as_deref().unwrap_or_default());
        match namespace.as_deref() {
            None | Some("") => format!("{kind} {name}"),
            Some(namespace) => format!("{kind} {namespace}/{name}"),
        }
    }

    /// Distinguishes events: the same object, type, reason, action and note are the same event.
    pub(super) fn key(&self) -> String {
        let related = self.related.as_ref().map(object_key).unwrap_or_default();
        let object = object_key(&self.regarding);
        // The note is last, because it is the only part that may contain any character.
        [&*object, &*related, self.type_, &*self.reason, &*self.action, &*self.note].join("\0")
    }
}

impl fmt::Display for Occurrence {
    /// As in `Warning FailedCreate of Deployment shop/web: the quota is used up`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.type_, self.reason)?;
        if self.regarding.kind.is_some() && self.regarding.name.is_some() {
            write!(f, " of {}", self.object())?;
        }
        write!(f, ": {}", self.note)
    }
}

/// Distinguishes objects. The resource version is left out, because an event can happen again to
/// the next version.
pub(super) fn object_key(reference: &ObjectReference) -> String {
    let parts = [
        &reference.api_version,
        &reference.kind,
        &reference.namespace,
        &reference.name,
        &reference.uid,
        &reference.field_path,
    ];
    parts.map(|part| part.as_deref().unwrap_or_default()).join("\0")
}

/// At most `max` bytes of a text, in whole characters.
fn cut(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}

/// A word that the server accepts; `default` if there is none.
pub(super) fn word(text: String, default: &str) -> String {
    if text.is_empty() { default.to_owned() } else { cut(text, WORD_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some("shop".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        }
    }

    #[test]
    fn notes_and_reasons_are_cut_between_characters() {
        let occurrence = Occurrence::normal(pod("a"), "ß".repeat(100), "€".repeat(1000));
        assert_eq!(occurrence.reason, "ß".repeat(64));
        assert_eq!(occurrence.note, "€".repeat(341));
        assert_eq!(occurrence.action("a".repeat(129)).action, "a".repeat(128));
    }

    #[test]
    fn reason_that_is_missing_is_filled_in() {
        let occurrence = Occurrence::warning(pod("a"), "", "").action("");
        assert_eq!((&*occurrence.reason, &*occurrence.action), ("Unspecified", "Reconcile"));
    }

    #[test]
    fn events_differ_by_object_type_reason_action_and_note() {
        let one = Occurrence::normal(pod("a"), "R", "n");
        let mut newer = one.clone();
        newer.regarding.resource_version = Some("7".to_owned());
        assert_eq!(one.key(), newer.key());
        for other in [
            Occurrence::normal(pod("b"), "R", "n"),
            Occurrence::warning(pod("a"), "R", "n"),
            Occurrence::normal(pod("a"), "S", "n"),
            Occurrence::normal(pod("a"), "R", "m"),
            Occurrence::normal(pod("a"), "R", "n").action("A"),
            Occurrence::normal(pod("a"), "R", "n").related(pod("b")),
        ] {
            assert_ne!(one.key(), other.key(), "{other:?}");
        }
    }

    #[test]
    fn event_of_an_object_without_namespace_is_in_default() {
        assert_eq!(Occurrence::normal(pod("a"), "R", "n").namespace(), "shop");
        for namespace in [None, Some(String::new())] {
            let node = ObjectReference { namespace, ..pod("a") };
            assert_eq!(Occurrence::normal(node, "R", "n").namespace(), "default");
        }
    }
}
