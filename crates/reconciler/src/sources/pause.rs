//! Whether an object is paused: an annotation asks the controller to leave it alone.
//!
//! Heads have no annotations, because most of them are long and nobody reads them. So they are read
//! from the bytes of the object, after a search that rules out most objects. A resident cache has
//! no bytes, so building a controller that reads annotations from one is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use windlass_indexer::Object;
use windlass_informer::Event;

use crate::history::inactive::InactiveKeys;

/// The annotation that pauses an object of a [pausable](crate::ControllerBuilder::pausable)
/// controller if its value is `true`.
pub const PAUSED_ANNOTATION: &str = "windlass.dev/paused";

/// The annotation that pauses an object; `None` if nothing does.
#[derive(Clone, Default)]
pub(crate) struct Pause(Option<Arc<str>>);

/// Passes the events that the state of a key contradicts.
pub(crate) struct PauseFilter {
    pub(crate) pause: Pause,
    pub(crate) inactive: Arc<InactiveKeys>,
}

#[derive(Deserialize)]
struct OnlyMetadata<'a> {
    #[serde(borrow)]
    metadata: OnlyAnnotations<'a>,
}

#[derive(Deserialize)]
struct OnlyAnnotations<'a> {
    #[serde(borrow, default)]
    annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

impl Pause {
    pub(crate) fn by(annotation: &str) -> Self {
        Self(Some(annotation.into()))
    }

    /// The name of the annotation.
    pub(crate) fn annotation(&self) -> Option<&str> {
        self.0.as_deref()
    }

    pub(crate) fn is_paused(&self, object: &Object) -> bool {
        let Some(name) = &self.0 else { return false };
        annotation(object, name).is_some_and(|value| value == "true")
    }
}

impl PauseFilter {
    /// Whether an event must not be ignored, whatever the predicates say: the object is paused and
    /// its key does not know it, or the other way round.
    ///
    /// Neither depends on the version before. Events merge, so there may be none in which the pause
    /// began or ended. If a run is under way, its key is not noted as paused yet; it looks at the
    /// object once more when it is.
    pub(crate) fn must_pass<T>(&self, event: &Event<T>) -> bool {
        let Self { pause, inactive } = self;
        let is_paused = || pause.is_paused(event.object().object());
        match event {
            Event::Added { .. } => inactive.was_paused(event.key()) && !is_paused(),
            Event::Updated { .. } => inactive.was_paused(event.key()) != is_paused(),
            Event::Deleted { .. } => false,
        }
    }
}

/// The value of an annotation of a cached object, which is not decoded.
pub(crate) fn annotation(object: &Object, name: &str) -> Option<String> {
    let text = std::str::from_utf8(object.bytes()?).ok()?;
    // Servers write names of annotations as they are, without escapes.
    if !text.contains(name) {
        return None;
    }
    let object: OnlyMetadata<'_> = serde_json::from_str(text).ok()?;
    object.metadata.annotations?.remove(name).map(Cow::into_owned)
}
