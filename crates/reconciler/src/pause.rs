//! Whether an object is paused: an annotation asks the controller to leave it alone.

use std::sync::Arc;

use windlass_indexer::Object;

use crate::annotations::annotation;

/// The annotation that pauses an object if its value is `true`, unless the controller has
/// [another one](crate::ControllerBuilder::paused_by).
pub const PAUSED_ANNOTATION: &str = "windlass.dev/paused";

/// The annotation that pauses an object; `None` if nothing does.
#[derive(Clone, Debug)]
pub(crate) struct Pause(Option<Arc<str>>);

impl Pause {
    pub(crate) fn by(annotation: Option<&str>) -> Self {
        Self(annotation.map(Into::into))
    }

    /// The name of the annotation.
    pub(crate) fn annotation(&self) -> Option<&str> {
        self.0.as_deref()
    }

    pub(crate) fn is_paused(&self, object: &Object) -> bool {
        let Some(name) = &self.0 else { return false };
        annotation(object, name).is_some_and(|value| value == "true")
    }

    /// Whether one of two versions of an object is paused, and the other is not.
    pub(crate) fn has_changed(&self, old: &Object, new: &Object) -> bool {
        old.head().annotations_hash() != new.head().annotations_hash()
            && self.is_paused(old) != self.is_paused(new)
    }
}
