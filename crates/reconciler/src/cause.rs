//! Why a key runs. A retry has the causes of the run that failed; its attempt number shows that it
//! is a retry.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use windlass_indexer::{Head, ObjectKey, ResourceVersion, Uid};
use windlass_informer::{Event, Resource};

use crate::history::run_record::Run;
use crate::history::size::{key_bytes, text_bytes};
use crate::writes::write::{MadeVersion, Write};

/// One reason for a run. A run can have several; if there are many, the oldest and the newest are
/// kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// An object changed: the reconciled one, or another one that leads to it.
    Changed {
        /// The resource of the object.
        resource: Resource,
        /// The key of the object.
        object: ObjectKey,
        /// How it changed.
        change: Change,
        /// Its version after the change; the last one, if it was deleted.
        version: ResourceVersion,
        /// Its uid, which tells it from other objects of the same name.
        uid: Uid,
        /// Whether a run of the same key is known to have changed it: see [`Write::has_changed`].
        by_us: bool,
    },
    /// A resync.
    Resync,
    /// The last run asked for it with `RequeueAfter`.
    Timer,
    /// Something outside of the watches, with this name: a
    /// [stream](crate::ControllerBuilder::stream), or a person who asked for the run.
    Source(Arc<str>),
}

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It existed when the controller started.
    Initial,
    /// It was created.
    Added,
    /// It has a new version.
    Updated,
    /// It was deleted.
    Deleted,
}

impl Cause {
    /// The cause for an event of an informer.
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
        Self::changed(resource, event.object().head(), change)
    }

    /// The cause for a new version that a cache shows.
    pub(crate) fn updated(resource: &Resource, head: &Head) -> Self {
        Self::changed(resource, head, Change::Updated)
    }

    fn changed(resource: &Resource, head: &Head, change: Change) -> Self {
        Self::Changed {
            resource: resource.clone(),
            object: head.key().clone(),
            change,
            version: head.resource_version().clone(),
            uid: head.uid().clone(),
            by_us: false,
        }
    }

    /// Whether a run of the same key is known to have led to it.
    pub fn is_by_us(&self) -> bool {
        matches!(self, Self::Changed { by_us: true, .. })
    }

    /// Sets `by_us` if a write of one of `runs` led to the change, and is still valid.
    ///
    /// A deletion leads to a version that its answer does not contain, so it is recognized by the
    /// uid. Of a run that the journal has shortened, only the uids and versions are known.
    pub(crate) fn mark_if_by_us<'r>(
        &mut self,
        mut runs: impl Iterator<Item = &'r Run>,
        is_valid: impl Fn(&Resource, &ObjectKey, Instant) -> bool,
    ) {
        let Self::Changed { resource, object, change, version, uid, by_us } = self else { return };
        let led_to_it = |made: Option<&ResourceVersion>, of: &Uid| match made {
            Some(made) => made == version,
            None => *change == Change::Deleted && of == uid,
        };
        let is_write = |write: &Write| {
            let is_of_object = write.is_of(resource) && write.key == *object;
            let led_to_it = led_to_it(write.version.as_ref(), &write.uid);
            is_of_object
                && write.has_changed()
                && led_to_it
                && is_valid(resource, object, write.answered)
        };
        let is_made = |made: &MadeVersion| {
            let is_of_object = !uid.is_empty() && made.uid == *uid;
            let led_to_it = led_to_it(made.version.as_ref(), &made.uid);
            is_of_object
                && made.has_changed
                && led_to_it
                && is_valid(resource, object, made.answered)
        };
        *by_us = runs.any(|run| run.writes.iter().any(is_write) || run.made.iter().any(is_made));
    }

    /// The bytes that its texts have allocated. What it shares with its controller is not counted.
    pub(crate) fn allocated_bytes(&self) -> usize {
        match self {
            Self::Changed { object, version, uid, .. } => {
                key_bytes(object) + text_bytes(version) + text_bytes(uid)
            }
            Self::Resync | Self::Timer | Self::Source(_) => 0,
        }
    }

    /// Whether something has just happened, so that nobody has reacted to it yet.
    pub(crate) fn is_new_event(&self) -> bool {
        !matches!(self, Self::Resync | Self::Changed { change: Change::Initial, .. })
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
