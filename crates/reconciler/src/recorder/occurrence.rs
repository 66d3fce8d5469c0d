//! Something that happened to an object, as a controller tells it; and what makes two of them the same event.

use k8s_openapi::api::core::v1::ObjectReference;

/// What the server allows for `note`, in bytes.
const NOTE_MAX: usize = 1024;

/// What the server allows for `reason`, `action` and `reportingInstance`, in bytes.
const WORD_MAX: usize = 128;

/// What was done, unless the controller says it. The server wants something to be there.
const ACTION: &str = "Reconcile";

/// Something that happened to an object: what an event tells.
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
    pub(super) is_warning: bool,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) note: String,
}

impl Occurrence {
    /// Something that is as it should be: an event of type `Normal`. The reason is a word in `CamelCase` of at most
    /// 128 bytes, the note a sentence for people of at most 1 kB; what is longer is cut.
    pub fn normal(
        regarding: ObjectReference,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            regarding,
            related: None,
            is_warning: false,
            reason: word(reason.into(), "Unspecified"),
            action: ACTION.to_owned(),
            note: cut(note.into(), NOTE_MAX),
        }
    }

    /// Something that somebody should look at: an event of type `Warning`.
    pub fn warning(
        regarding: ObjectReference,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self { is_warning: true, ..Self::normal(regarding, reason, note) }
    }

    /// What was done, or failed: a word in `CamelCase` of at most 128 bytes. Default: `Reconcile`.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = word(action.into(), ACTION);
        self
    }

    /// Another object that has to do with it. Default: none.
    pub fn related(mut self, related: ObjectReference) -> Self {
        self.related = Some(related);
        self
    }

    /// Where the event belongs: beside its object, or in `default` if that is in no namespace.
    pub(super) fn namespace(&self) -> &str {
        let namespace = self.regarding.namespace.as_deref().unwrap_or_default();
        if namespace.is_empty() { "default" } else { namespace }
    }

    pub(super) fn type_(&self) -> &'static str {
        if self.is_warning { "Warning" } else { "Normal" }
    }

    /// Tells objects apart.
    pub(super) fn object_key(&self) -> String {
        object_key(&self.regarding)
    }

    /// The object as people write it, as in `Pod shop/web`.
    pub(super) fn object(&self) -> String {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let ObjectReference { kind, namespace, name, .. } = &self.regarding;
        let (kind, name) = (part(kind), part(name));
        match namespace.as_deref() {
            None | Some("") => format!("{kind} {name}"),
            Some(namespace) => format!("{kind} {namespace}/{name}"),
        }
    }

    /// Tells events apart: the same object, type, reason, action and note are the same event.
    pub(super) fn key(&self) -> String {
        let related = self.related.as_ref().map(object_key).unwrap_or_default();
        let object = self.object_key();
        // The note is last, because it is the only part that may have any character in it.
        [&*object, &*related, self.type_(), &*self.reason, &*self.action, &*self.note].join("\0")
    }
}

/// The version of the object is left out, because the same thing happens to the next one.
fn object_key(reference: &ObjectReference) -> String {
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

fn word(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { cut(text, WORD_MAX) }
}

/// The name of an instance, as the server takes it.
pub(super) fn instance(name: String, controller: &str) -> String {
    word(name, controller)
}

/// The name of a controller, as the server takes it: a qualified name, a domain and a slash before it if need be.
/// What it refuses becomes a dash, because an event from an almost right name is better than none.
pub(super) fn controller(name: &str) -> String {
    let (prefix, name) = match name.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, name),
    };
    let name = part(name, 63, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let name = if name.is_empty() { "controller" } else { &name };
    let prefix = prefix.map(str::to_ascii_lowercase);
    match prefix.filter(|prefix| super::names::is_subdomain(prefix)) {
        Some(prefix) => format!("{prefix}/{name}"),
        None => name.to_owned(),
    }
}

fn part(text: &str, max: usize, is_fine: impl Fn(char) -> bool) -> String {
    let text: String = text.chars().map(|c| if is_fine(c) { c } else { '-' }).take(max).collect();
    text.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
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

    #[test]
    fn name_of_a_controller_becomes_one_that_the_server_takes() {
        assert_eq!(controller("foo-controller"), "foo-controller");
        assert_eq!(controller("example.com/Foo_1.x"), "example.com/Foo_1.x");
        assert_eq!(controller("Example.com/foo"), "example.com/foo");
        assert_eq!(controller("no domain/foo bar!"), "foo-bar");
        assert_eq!(controller("a/b/c"), "a/b-c");
        assert_eq!(controller("///"), "controller");
        assert_eq!(controller(""), "controller");
        assert_eq!(controller(&"x".repeat(100)), "x".repeat(63));
    }
}
