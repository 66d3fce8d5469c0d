//! Decides what is written about what happened: the pure part of the recorder.
//!
//! ```text
//!                          ┌ known, and waits to be written ──▶ counted by that write
//!  observe(occurrence) ────┼ known, and may cause a write ────▶ counted, queued: a patch
//!                          ├ known, and may not ──────────────▶ counted by the next write
//!                          ├ new, and may cause a write ──────▶ queued: a create
//!                          └ new, and may not ────────────────▶ dropped
//!  take() ─▶ Job ─▶ (the writer) ─▶ settle(job, is_written)
//! ```
//!
//! New events and updates of series have separate limits, so that an event that repeats takes
//! nothing from others.
//!
//! Invariants: an event is in the queue at most once, and every queued event is known. The writer
//! takes one job at a time, and settles it before it takes the next one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashlink::LruCache;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

use super::names::Names;
use super::occurrence::{Occurrence, object_key};
use super::spam::SpamFilter;
use super::warnings::{LossReason, QUEUE_MAX};

/// An event that was not seen for this long is over; the next one is a new event. As in client-go.
const SERIES_WINDOW: Duration = Duration::from_mins(6);

/// Events that are remembered, to make a series of them. As in client-go.
const KNOWN_MAX: usize = 4096;

const _: () = assert!(QUEUE_MAX < KNOWN_MAX, "every queued event must be known");

/// What a recorder has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStatus {
    /// Occurrences that were recorded. Each is merged, dropped, or a new event.
    pub recorded: u64,
    /// Occurrences that were added to the count of an event.
    pub merged: u64,
    /// Occurrences that were dropped, because their object has too many, or too many wait.
    pub dropped: u64,
    /// Writes that succeeded: events created, and series patched.
    pub written: u64,
    /// Writes that were given up.
    pub failed: u64,
    /// Writes that wait.
    pub queued: usize,
}

/// What happened, what of it the server knows, and what is written next.
pub(super) struct Correlator {
    /// Who reports.
    controller: String,
    instance: String,
    known: LruCache<Arc<str>, Known>,
    new_events: SpamFilter,
    repeats: SpamFilter,
    names: Names,
    /// The keys of the events that wait to be written.
    queue: VecDeque<Arc<str>>,
    /// How many were ever queued.
    pub(super) enqueued: u64,
    status: RecorderStatus,
}

/// One write.
pub(super) struct Job {
    pub(super) key: Arc<str>,
    /// The whole event, with its series.
    pub(super) event: Event,
    /// Whether the server does not have it yet.
    pub(super) is_new: bool,
}

/// An event that happened within the window.
struct Known {
    event: Event,
    /// When it happened last.
    seen: Instant,
    /// Whether the server has it.
    is_written: bool,
    is_queued: bool,
}

impl Correlator {
    pub(super) fn new(controller: String, instance: String, seed: u64) -> Self {
        Self {
            controller,
            instance,
            // Makes room itself, because queued events must stay.
            known: LruCache::new_unbounded(),
            new_events: SpamFilter::new(),
            repeats: SpamFilter::new(),
            names: Names::from_seed(seed),
            queue: VecDeque::new(),
            enqueued: 0,
            status: RecorderStatus::default(),
        }
    }

    /// Something happened.
    ///
    /// # Errors
    /// Returns why the occurrence is dropped, and what object it is about.
    pub(super) fn observe(
        &mut self,
        occurrence: &Occurrence,
        now: Instant,
        wall: Timestamp,
    ) -> Result<(), (LossReason, String)> {
        self.status.recorded += 1;
        let key: Arc<str> = occurrence.key().into();
        let object = object_key(&occurrence.regarding);
        let has_room = self.queue.len() < QUEUE_MAX;
        let known = self.known.get_mut(&*key).filter(|known| known.is_current(now));
        if let Some(known) = known {
            self.status.merged += 1;
            known.repeat(now, wall);
            if !known.is_queued && has_room && self.repeats.take(&object, now) {
                self.enqueue(key);
            }
            return Ok(());
        }
        if !has_room || !self.new_events.take(&object, now) {
            self.status.dropped += 1;
            let loss = if has_room { LossReason::TooManyOfObject } else { LossReason::QueueFull };
            return Err((loss, occurrence.object()));
        }
        // An event that is over makes room for its successor. It is not queued.
        self.known.remove(&*key);
        if self.known.len() >= KNOWN_MAX {
            let oldest = self.known.iter().find(|(_, known)| !known.is_queued);
            if let Some(oldest) = oldest.map(|(key, _)| Arc::clone(key)) {
                self.known.remove(&oldest);
            }
        }
        let event = self.new_event(occurrence, wall);
        let known = Known { event, seen: now, is_written: false, is_queued: false };
        self.known.insert(Arc::clone(&key), known);
        self.enqueue(key);
        Ok(())
    }

    /// The next write.
    pub(super) fn take(&mut self) -> Option<Job> {
        let key = self.queue.pop_front()?;
        let known = self.known.peek_mut(&key).expect("a queued event must be known");
        known.is_queued = false;
        Some(Job { event: known.event.clone(), is_new: !known.is_written, key })
    }

    /// A write has ended. An event that the server never got is forgotten: its next occurrence is a
    /// new event.
    pub(super) fn settle(&mut self, job: &Job, is_written: bool) {
        if is_written {
            self.status.written += 1;
        } else {
            self.status.failed += 1;
        }
        let Some(known) = self.known.peek_mut(&job.key) else { return };
        // The event may be over by now, and a new one may have its key.
        if job.event.metadata.name != known.event.metadata.name {
            return;
        }
        known.is_written |= is_written;
        if !known.is_written && !known.is_queued {
            self.known.remove(&job.key);
        }
    }

    /// The job that was taken last will not be settled.
    pub(super) fn lose(&mut self) {
        self.status.failed += 1;
    }

    /// Gives a new event another name, because somebody else has used its name.
    pub(super) fn rename(&mut self, job: &mut Job, wall: Timestamp) {
        let object = job.event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
        let name = self.names.next(object.unwrap_or_default(), wall);
        let former = job.event.metadata.name.replace(name);
        if let Some(known) = self.known.peek_mut(&job.key)
            && known.event.metadata.name == former
        {
            known.event.metadata.name.clone_from(&job.event.metadata.name);
        }
    }

    pub(super) fn status(&self) -> RecorderStatus {
        RecorderStatus { queued: self.queue.len(), ..self.status }
    }

    fn enqueue(&mut self, key: Arc<str>) {
        let known = self.known.peek_mut(&key).expect("a queued event must be known");
        known.is_queued = true;
        self.enqueued += 1;
        self.queue.push_back(key);
    }

    fn new_event(&mut self, occurrence: &Occurrence, wall: Timestamp) -> Event {
        let object = occurrence.regarding.name.as_deref().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                name: Some(self.names.next(object, wall)),
                namespace: Some(occurrence.namespace().to_owned()),
                annotations: (!occurrence.annotations.is_empty())
                    .then(|| occurrence.annotations.clone()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(wall)),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            action: Some(occurrence.action.clone()),
            reason: Some(occurrence.reason.clone()),
            regarding: Some(occurrence.regarding.clone()),
            related: occurrence.related.clone(),
            note: Some(occurrence.note.clone()),
            type_: Some(occurrence.type_.to_owned()),
            ..Event::default()
        }
    }
}

impl Known {
    /// Whether another occurrence belongs to it: the last one was not long ago, or still waits.
    fn is_current(&self, now: Instant) -> bool {
        self.is_queued || now.saturating_duration_since(self.seen) <= SERIES_WINDOW
    }

    /// Counts another occurrence.
    fn repeat(&mut self, now: Instant, wall: Timestamp) {
        self.seen = now;
        let (count, last) = match (&self.event.series, &self.event.event_time) {
            (Some(series), _) => (series.count, series.last_observed_time.0),
            (None, first) => (1, first.as_ref().map_or(wall, |first| first.0)),
        };
        // The wall clock may have been set back.
        let last_observed_time = MicroTime(last.max(wall));
        self.event.series =
            Some(EventSeries { count: count.saturating_add(1), last_observed_time });
    }
}

#[cfg(test)]
mod tests;
