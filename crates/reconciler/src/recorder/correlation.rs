//! What is to be written about what happened: the pure part of the recorder.
//!
//! ```text
//!                  ┌ known, a write is ahead ──────────▶ counted, and that write carries it
//!  observe(what) ──┼ known, and may cause a write ─────▶ counted, queued: a patch of the series
//!                  ├ known, and may not ───────────────▶ counted, and the next write carries it
//!                  ├ new, and may cause a write ───────▶ queued: a create
//!                  └ new, and may not ─────────────────▶ dropped
//!  take() ─▶ Job ─▶ (the writer) ─▶ settle(job, how it went)
//! ```
//!
//! Invariants: an event stands in the queue once at most, and then it is known. Jobs are taken one at a time, and
//! settled before the next. No lock, no clock, no task in here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

use super::RecorderStatus;
use super::lru::Lru;
use super::names::Names;
use super::occurrence::Occurrence;
use super::spam::{Sort, SpamFilter};

/// An event that is not seen for so long is over; the next is a new one. As in client-go.
const SERIES_WINDOW: Duration = Duration::from_mins(6);

/// Events that are remembered, to make a series of them. As in client-go.
const KNOWN_MAX: usize = 4096;

/// Events that wait to be written. As in client-go.
pub(super) const QUEUE_MAX: usize = 1000;

const _: () = assert!(QUEUE_MAX < KNOWN_MAX, "what waits must not push out what is known");

/// What happened, what of it is known to the server, and what it is to be told next.
#[derive(Debug)]
pub(super) struct Correlator {
    source: Source,
    known: Lru<Known>,
    spam: SpamFilter,
    names: Names,
    /// What is to be written, with its ticket.
    queue: VecDeque<(u64, Arc<str>)>,
    tickets: u64,
    status: RecorderStatus,
}

/// Who reports.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) controller: String,
    pub(super) instance: String,
}

/// One write.
#[derive(Debug)]
pub(super) struct Job {
    /// Where it stood in the queue: those of later jobs are greater.
    pub(super) ticket: u64,
    pub(super) key: Arc<str>,
    /// The whole event, with its series.
    pub(super) event: Event,
    /// Whether the server does not have it yet.
    pub(super) is_new: bool,
}

/// An event that nobody will hear of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    /// What it is about, as people write it.
    pub(super) object: String,
    pub(super) why: Excess,
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// New events about the object.
    OfObject,
    /// Writes that wait.
    Queued,
}

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Written,
    GivenUp,
}

/// An event that happened within the window.
#[derive(Debug)]
struct Known {
    occurrence: Occurrence,
    name: String,
    first: Timestamp,
    last: Timestamp,
    /// When it happened last.
    seen: Instant,
    count: i32,
    /// Whether the server has it.
    is_written: bool,
    is_queued: bool,
}

impl Correlator {
    pub(super) fn new(source: Source, seed: u64) -> Self {
        Self {
            source,
            known: Lru::new(KNOWN_MAX),
            spam: SpamFilter::new(),
            names: Names::from_seed(seed),
            queue: VecDeque::new(),
            tickets: 0,
            status: RecorderStatus::default(),
        }
    }

    /// Something happened. Tells if nobody will hear of it.
    pub(super) fn observe(
        &mut self,
        occurrence: Occurrence,
        now: Instant,
        wall: Timestamp,
    ) -> Option<Dropped> {
        self.status.recorded += 1;
        let key = occurrence.key();
        let known = self.known.touch(&key).filter(|known| known.is_current(now));
        if let Some(known) = known {
            self.status.merged += 1;
            if known.repeat(now, wall) && self.may_write(&occurrence, Sort::Repeat, now).is_ok() {
                self.enqueue(key.into());
            }
            return None;
        }
        if let Err(why) = self.may_write(&occurrence, Sort::New, now) {
            self.status.dropped += 1;
            return Some(Dropped { object: occurrence.object(), why });
        }
        let key: Arc<str> = key.into();
        let known = Known::new(occurrence, &mut self.names, now, wall);
        self.known.insert(Arc::clone(&key), known, |known| !known.is_queued);
        self.enqueue(key);
        None
    }

    /// The next write.
    pub(super) fn take(&mut self) -> Option<Job> {
        let (ticket, key) = self.queue.pop_front()?;
        let known = self.known.peek(&key).expect("what is queued must be known");
        known.is_queued = false;
        let (event, is_new) = (known.event(&self.source), !known.is_written);
        Some(Job { ticket, key, event, is_new })
    }

    /// A write is over. An event that the server never got is forgotten: its next occurrence is a new one.
    pub(super) fn settle(&mut self, job: &Job, settled: Settled) {
        match settled {
            Settled::Written => self.status.written += 1,
            Settled::GivenUp => self.status.failed += 1,
        }
        let Some(known) = self.known.peek(&job.key) else { return };
        // It may be over by now, and another have its key.
        if job.event.metadata.name.as_ref() != Some(&known.name) {
            return;
        }
        match settled {
            Settled::Written => known.is_written = true,
            Settled::GivenUp if known.is_written || known.is_queued => {}
            Settled::GivenUp => self.known.remove(&job.key),
        }
    }

    /// Nobody will settle the job that was taken last.
    pub(super) fn lose(&mut self) {
        self.status.failed += 1;
    }

    /// The name of a new event is taken by somebody else: gives it another.
    pub(super) fn rename(&mut self, job: &mut Job, wall: Timestamp) {
        let object = job.event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
        let name = self.names.next(object.unwrap_or_default(), wall);
        let former = job.event.metadata.name.replace(name.clone());
        if let Some(known) = self.known.peek(&job.key)
            && Some(&known.name) == former.as_ref()
        {
            known.name = name;
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// The ticket of what was queued last.
    pub(super) fn last_ticket(&self) -> u64 {
        self.tickets
    }

    pub(super) fn status(&self) -> RecorderStatus {
        RecorderStatus { queued: self.queue.len(), ..self.status }
    }

    /// Whether there is room for one more write, and the object may cause it.
    fn may_write(
        &mut self,
        occurrence: &Occurrence,
        sort: Sort,
        now: Instant,
    ) -> Result<(), Excess> {
        if self.queue.len() >= QUEUE_MAX {
            return Err(Excess::Queued);
        }
        let is_admitted = self.spam.admit(&occurrence.object_key(), sort, now);
        if is_admitted { Ok(()) } else { Err(Excess::OfObject) }
    }

    fn enqueue(&mut self, key: Arc<str>) {
        let known = self.known.peek(&key).expect("what is queued must be known");
        known.is_queued = true;
        self.tickets += 1;
        self.queue.push_back((self.tickets, key));
    }
}

impl Known {
    fn new(occurrence: Occurrence, names: &mut Names, now: Instant, wall: Timestamp) -> Self {
        let object = occurrence.regarding.name.as_deref().unwrap_or_default();
        Self {
            name: names.next(object, wall),
            occurrence,
            first: wall,
            last: wall,
            seen: now,
            count: 1,
            is_written: false,
            is_queued: false,
        }
    }

    /// Whether one more belongs to it: the last was not long ago, or has not even been written.
    fn is_current(&self, now: Instant) -> bool {
        self.is_queued || now.saturating_duration_since(self.seen) <= SERIES_WINDOW
    }

    /// It happened again. Says whether that needs a write of its own.
    fn repeat(&mut self, now: Instant, wall: Timestamp) -> bool {
        self.count = self.count.saturating_add(1);
        self.seen = now;
        self.last = self.last.max(wall);
        !self.is_queued
    }

    fn event(&self, source: &Source) -> Event {
        let occurrence = &self.occurrence;
        Event {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(occurrence.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(self.first)),
            series: (self.count > 1).then_some(EventSeries {
                count: self.count,
                last_observed_time: MicroTime(self.last),
            }),
            reporting_controller: Some(source.controller.clone()),
            reporting_instance: Some(source.instance.clone()),
            action: Some(occurrence.action.clone()),
            reason: Some(occurrence.reason.clone()),
            regarding: Some(occurrence.regarding.clone()),
            related: occurrence.related.clone(),
            note: Some(occurrence.note.clone()),
            type_: Some(occurrence.type_().to_owned()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests;
