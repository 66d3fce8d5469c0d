//! Why a key runs. A run that failed is repeated with the causes that it had; its number says that it is one.

use std::fmt;
use std::sync::Arc;

use windlass_indexer::{Cached, ObjectKey, ResourceVersion, Uid};
use windlass_informer::{Event, Resource};

use crate::write::Write;

/// One reason for a run. Those of a run are merged, the oldest and the newest kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// An object changed: the one that is reconciled, or another that leads to it.
    Changed {
        /// Its resource.
        resource: Resource,
        /// Which object.
        object: ObjectKey,
        /// How.
        change: Change,
        /// The version that it has now, or had last.
        version: ResourceVersion,
        /// Which object of that name.
        uid: Uid,
        /// Whether a run of the same key is known to have changed it: see [`Write::has_changed`].
        by_us: bool,
    },
    /// A resync shows everything again.
    Resync,
    /// The run before asked for it.
    Timer,
    /// A source of the user's, by its name.
    Source(Arc<str>),
}

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was there when the controller began.
    Initial,
    /// It is new.
    Added,
    /// It has another version.
    Updated,
    /// It is gone.
    Deleted,
}

impl Cause {
    /// The cause that an event is.
    pub(crate) fn of<K>(resource: &Resource, event: &Event<K>) -> Self {
        if event.is_resync() {
            return Self::Resync;
        }
        let change = match event {
            Event::Added { initial: true, .. } => Change::Initial,
            Event::Added { .. } => Change::Added,
            Event::Updated { .. } => Change::Updated,
            Event::Deleted { .. } => Change::Deleted,
        };
        let object: &Cached<K> = event.object();
        Self::Changed {
            resource: resource.clone(),
            object: object.key().clone(),
            change,
            version: object.head().resource_version().clone(),
            uid: object.head().uid().clone(),
            by_us: false,
        }
    }

    /// Whether a run of the same key is known to have led to it.
    pub fn is_by_us(&self) -> bool {
        matches!(self, Self::Changed { by_us: true, .. })
    }

    /// Marks it if one of `writes` led to it, and is valid.
    pub(crate) fn ascribe<'w>(
        &mut self,
        mut writes: impl Iterator<Item = &'w Write>,
        is_valid: impl Fn(&Write) -> bool,
    ) {
        if let Self::Changed { resource, object, change, version, uid, by_us } = self {
            *by_us = writes.any(|write| {
                write.is_of(resource)
                    && write.key() == object
                    && write.led_to(*change, version, uid)
                    && is_valid(write)
            });
        }
    }

    /// Whether it can wait for others: nothing has happened, or not just now.
    pub(crate) fn is_patient(&self) -> bool {
        matches!(self, Self::Resync | Self::Changed { change: Change::Initial, .. })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { resource, object, change, version, by_us, .. } => {
                write!(f, "{} {object} {change} at {version}", resource.kind())?;
                if *by_us { f.write_str(", by a run before") } else { Ok(()) }
            }
            Self::Resync => f.write_str("resync"),
            Self::Timer => f.write_str("timer"),
            Self::Source(name) => write!(f, "source {name}"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initial => "was there",
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        })
    }
}
