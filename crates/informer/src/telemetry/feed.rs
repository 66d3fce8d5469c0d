//! The telemetry of one feed: the feed reports each step once, and this updates the status, calls
//! the observers and writes the log line.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::decode::frames::EventType;
use crate::lock::lock;
use crate::reflector::ListFault;
use crate::resource::Resource;
use crate::telemetry::observer::{Observation, Observers};
use crate::telemetry::status::{Activity, Counts, FeedStatus, Progress};

/// Written by one feed, read by all callers of `status`.
pub(crate) struct FeedTelemetry {
    resource: Resource,
    namespace: Option<String>,
    observers: Observers,
    notes: Mutex<Notes>,
}

struct Notes {
    status: FeedStatus,
    /// When the list that is under way was last logged.
    list_logged: Instant,
}

/// How often a long list is logged.
const LIST_LOG_PERIOD: Duration = Duration::from_secs(5);

impl FeedTelemetry {
    pub(crate) fn new(resource: Resource, namespace: Option<String>, observers: Observers) -> Self {
        let now = Instant::now();
        let status = FeedStatus {
            namespace: namespace.clone(),
            activity: Activity::Starting,
            since: now,
            list: Progress::default(),
            version: None,
            last_event: None,
            last_error: None,
            counts: Counts::default(),
        };
        let notes = Notes { status, list_logged: now };
        Self { resource, namespace, observers, notes: Mutex::new(notes) }
    }

    /// Reports a step of the feed.
    pub(crate) fn report(&self, step: &Observation<'_>) {
        let is_long_list = lock(&self.notes).update(step, Instant::now());
        self.log(step, is_long_list);
        self.observers.notify(&self.resource, step);
    }

    pub(crate) fn status(&self) -> FeedStatus {
        let mut status = lock(&self.notes).status.clone();
        if status.activity == Activity::Listing {
            status.list.elapsed = status.since.elapsed();
        }
        status
    }

    /// Warns that objects are selected by the feed, because the server does not.
    pub(crate) fn log_ignored_selector(&self) {
        let (resource, namespace) = (&self.resource, self.namespace.as_deref());
        tracing::warn!(
            %resource, namespace,
            "the server ignores the label selector and sends all objects; those that it does not \
             select are dropped here"
        );
    }

    fn log(&self, step: &Observation<'_>, is_long_list: bool) {
        let resource = &self.resource;
        let namespace = self.namespace.as_deref();
        match step {
            Observation::ListGrew(list) if is_long_list => {
                tracing::info!(%resource, namespace, "listing: {list}");
            }
            Observation::Listed { list, .. } if is_long_list => {
                tracing::info!(%resource, namespace, "listed: {list}");
            }
            Observation::Listed { .. } => tracing::debug!(%resource, namespace, ?step, "listed"),
            Observation::ListRefused(fault @ ListFault::NotStreamed) => {
                tracing::info!(%resource, namespace, "a list was rejected: {fault}");
            }
            Observation::ListRefused(fault) => {
                tracing::warn!(%resource, namespace, "a list was rejected: {fault}");
            }
            Observation::WatchEndedForList(reason) => {
                tracing::info!(%resource, namespace, ?reason, "listing everything again");
            }
            Observation::Quarantined(error) => {
                tracing::warn!(
                    %resource, namespace, %error,
                    "an object was quarantined: its metadata cannot be read"
                );
            }
            Observation::Failed { error, reaction } => {
                tracing::warn!(%resource, namespace, %error, ?reaction, "a list or watch failed");
            }
            Observation::IdleCutsFound(silence) => {
                let silence = silence.as_secs();
                tracing::info!(
                    %resource, namespace,
                    "a proxy or load balancer closes watches that are idle for {silence} s: the \
                     next ones are requested with a shorter timeout"
                );
            }
            _ => {}
        }
        if let Observation::Listed { is_restored: true, .. } = step {
            tracing::warn!(
                %resource, namespace,
                "resource versions went back in two lists in a row: the cluster was restored from \
                 a backup, and the cache is replaced"
            );
        }
    }
}

impl Notes {
    /// Returns whether a list grew or ended that takes long enough to be logged.
    fn update(&mut self, step: &Observation<'_>, now: Instant) -> bool {
        let Self { status, list_logged } = self;
        let counts = &mut status.counts;
        match step {
            Observation::ListBegun { .. } => {
                (status.list, *list_logged) = (Progress::default(), now);
                (status.activity, status.since) = (Activity::Listing, now);
            }
            Observation::ListGrew(list) => {
                status.list = *list;
                let is_due = now.saturating_duration_since(*list_logged) >= LIST_LOG_PERIOD;
                if is_due {
                    *list_logged = now;
                }
                return is_due;
            }
            Observation::Listed { list, swept, repaired, is_restored } => {
                counts.lists += 1;
                counts.swept += swept;
                counts.repaired += repaired;
                counts.restored += u64::from(*is_restored);
                let was_logged = *list_logged > status.since;
                status.list = *list;
                (status.activity, status.since) = (Activity::Watching, now);
                return was_logged;
            }
            Observation::WatchBegun => status.set_activity(Activity::Watching, now),
            Observation::WatchOpened => counts.watches += 1,
            Observation::Changed(change) => {
                status.last_event = Some(now);
                match change {
                    EventType::Added => counts.added += 1,
                    EventType::Modified => counts.modified += 1,
                    EventType::Deleted => counts.deleted += 1,
                }
            }
            Observation::Bookmark => counts.bookmarks += 1,
            Observation::Advanced(version) => status.version = version.cloned(),
            Observation::Stale(count) => counts.stale += count,
            Observation::Failed { error, .. } => {
                status.last_error = Some(((*error).clone(), now));
                counts.errors += 1;
                counts.gone += u64::from(error.is_gone());
            }
            Observation::Waiting(until) => status.set_activity(Activity::Waiting(*until), now),
            Observation::Stopped => status.set_activity(Activity::Stopped, now),
            _ => {}
        }
        false
    }
}

impl FeedStatus {
    fn set_activity(&mut self, activity: Activity, now: Instant) {
        if self.activity != activity {
            (self.activity, self.since) = (activity, now);
        }
    }
}
