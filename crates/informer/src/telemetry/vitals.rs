//! A feed's own notes, from which its status is made.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use windlass_indexer::ResourceVersion;

use crate::decode::frames::Change;
use crate::share::lock::lock;
use crate::telemetry::status::{Activity, Counts, FeedStatus, Progress};
use crate::transport::source::SourceError;

/// Written by one feed, read by whoever asks for the status.
#[derive(Debug)]
pub(crate) struct Vitals {
    namespace: Option<String>,
    notes: Mutex<Notes>,
}

#[derive(Debug)]
pub(crate) struct Notes {
    doing: Doing,
    since: Instant,
    list_began: Instant,
    list: Progress,
    pub(crate) version: Option<ResourceVersion>,
    /// When the list began that last found the cluster to be restored.
    pub(crate) restored: Option<Instant>,
    last_event: Option<Instant>,
    last_error: Option<(SourceError, Instant)>,
    pub(crate) counts: Counts,
}

/// Changes that a watch has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    added: u64,
    modified: u64,
    deleted: u64,
}

/// What a feed does, with points in time instead of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Starting,
    Listing,
    Watching,
    Waiting(Instant),
    Stopped,
}

impl Vitals {
    pub(crate) fn new(namespace: Option<String>, now: Instant) -> Self {
        let notes = Notes {
            doing: Doing::Starting,
            since: now,
            list_began: now,
            list: Progress::default(),
            version: None,
            restored: None,
            last_event: None,
            last_error: None,
            counts: Counts::default(),
        };
        Self { namespace, notes: Mutex::new(notes) }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn note<T>(&self, change: impl FnOnce(&mut Notes) -> T) -> T {
        change(&mut lock(&self.notes))
    }

    pub(crate) fn status(&self, now: Instant) -> FeedStatus {
        let notes = lock(&self.notes);
        let since = |then: Instant| now.saturating_duration_since(then);
        let activity = match notes.doing {
            Doing::Starting => Activity::Starting,
            Doing::Listing => Activity::Listing,
            Doing::Watching => Activity::Watching,
            Doing::Waiting(until) => Activity::Waiting(until.saturating_duration_since(now)),
            Doing::Stopped => Activity::Stopped,
        };
        FeedStatus {
            namespace: self.namespace.clone(),
            activity,
            since: since(notes.since),
            list: notes.progress(now),
            version: notes.version.clone(),
            last_event: notes.last_event.map(since),
            last_error: notes.last_error.as_ref().map(|(error, at)| (error.clone(), since(*at))),
            counts: notes.counts,
        }
    }
}

impl Changes {
    pub(crate) fn count(&mut self, change: Change) {
        match change {
            Change::Added => self.added += 1,
            Change::Modified => self.modified += 1,
            Change::Deleted => self.deleted += 1,
        }
    }
}

impl Notes {
    pub(crate) fn do_now(&mut self, doing: Doing, now: Instant) {
        if self.doing != doing {
            (self.doing, self.since) = (doing, now);
        }
    }

    /// What has come led to this version.
    pub(crate) fn moved_on(
        &mut self,
        version: Option<ResourceVersion>,
        changes: Changes,
        now: Instant,
    ) {
        self.version = version;
        if changes != Changes::default() {
            self.last_event = Some(now);
            self.counts.added += changes.added;
            self.counts.modified += changes.modified;
            self.counts.deleted += changes.deleted;
        }
    }

    pub(crate) fn begin_list(&mut self, now: Instant) {
        (self.list_began, self.list) = (now, Progress::default());
    }

    pub(crate) fn list_grew(&mut self, objects: u64, bytes: u64, now: Instant) {
        self.list.objects += objects;
        self.list.bytes += bytes;
        self.list.elapsed = now.saturating_duration_since(self.list_began);
    }

    pub(crate) fn failed(&mut self, error: &SourceError, now: Instant) {
        self.last_error = Some((error.clone(), now));
        self.counts.errors += 1;
        self.counts.gone += u64::from(error.is_gone());
    }

    fn progress(&self, now: Instant) -> Progress {
        let is_growing = self.doing == Doing::Listing;
        let elapsed = now.saturating_duration_since(self.list_began);
        let elapsed: Duration = if is_growing { elapsed } else { self.list.elapsed };
        Progress { elapsed, ..self.list }
    }
}
