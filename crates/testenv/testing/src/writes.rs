//! The writes of controllers, in a form that tests can compare.

use std::fmt;

use windlass::prelude::ObjectKey;
use windlass::reconciler::{Verb, Write, WriteEffect};

/// A write of a controller that the server accepted.
///
/// Displayed as `patch deployments/status shop/web`, and equal to that text:
///
/// ```no_run
/// # fn example(page: &windlass_testing::Running) {
/// assert_eq!(page.take_writes(), ["patch configmaps default/hello"]);
/// # }
/// ```
///
/// Recorded events are not included: see [`TestCluster::events`](crate::TestCluster::events).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteRecord {
    /// The key of the run that wrote it.
    pub by: ObjectKey,
    /// The verb. An apply that creates the object is a patch.
    pub verb: Verb,
    /// The group of the resource; empty for the core group.
    pub group: String,
    /// The resource, as in `deployments`.
    pub plural: String,
    /// The subresource, as in `status`; `None` for the object itself.
    pub subresource: Option<String>,
    /// The key of the object.
    pub key: ObjectKey,
    /// Whether it changed the object.
    pub effect: WriteEffect,
}

impl WriteRecord {
    pub(crate) fn new(by: &ObjectKey, write: &Write) -> Self {
        Self {
            by: by.clone(),
            verb: write.verb,
            group: write.group.clone(),
            plural: write.plural.clone(),
            subresource: write.subresource.clone(),
            key: write.key.clone(),
            effect: write.effect,
        }
    }
}

impl fmt::Display for WriteRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.plural)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        write!(f, " {}", self.key)
    }
}

impl fmt::Debug for WriteRecord {
    /// Formats it as its `Display` text, so that a failed assertion is readable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl PartialEq<str> for WriteRecord {
    fn eq(&self, text: &str) -> bool {
        let own = self.to_string();
        own == text
    }
}

impl PartialEq<&str> for WriteRecord {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

impl PartialEq<String> for WriteRecord {
    fn eq(&self, text: &String) -> bool {
        self == text.as_str()
    }
}
