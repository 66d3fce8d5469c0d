//! The async part of a reflector: sends its requests, reads the bodies, and passes what arrives to
//! the cache.
//!
//! The reflector decides what to request, and the cache decides which objects are new. The feed
//! waits: for an answer, for the next chunk of a body, for the end of a backoff.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use windlass_indexer::{HeadError, Object};

use crate::cache::Cache;
use crate::cache::judge::{ListOutcome, Received};
use crate::cache::listing::Listing;
use crate::decode::frames::{Bookmark, EventType, Frame, FrameOptions, Frames};
use crate::decode::ingest::Ingest;
use crate::reflector::{
    ChangeKind, DeadlineCheck, ListFault, Listed, NextStep, Reaction, Reflector, Relist,
};
use crate::share::informer_cache::SelectionCheck;
use crate::share::position::FeedPosition;
use crate::telemetry::feed::FeedTelemetry;
use crate::telemetry::observer::Observation;
use crate::telemetry::status::{InformerPhase, Progress};
use crate::transport::source::{Body, ListWatch, Request, SourceError};

/// What others see of a feed.
#[derive(Clone)]
pub(crate) struct FeedHandle {
    /// How far it is.
    pub(crate) position: Arc<FeedPosition>,
    /// What it does, and did.
    pub(crate) telemetry: Arc<FeedTelemetry>,
}

/// The list and watch of one namespace, or of all.
pub(crate) struct Feed {
    cache: Arc<Cache>,
    phase: watch::Sender<InformerPhase>,
    position: Arc<FeedPosition>,
    telemetry: Arc<FeedTelemetry>,
    source: Arc<dyn ListWatch>,
    reflector: Reflector,
    ingest: Ingest,
    frame_options: FrameOptions,
    selected: SelectionCheck,
    /// Whether the server has sent an object that is not selected.
    is_selector_ignored: bool,
    list: Option<ActiveList>,
    /// Whether a list has been completed.
    has_listed: bool,
    /// The objects of a chunk that are not in the cache yet.
    received: Vec<Received>,
    /// How many changes the current watch has delivered.
    events: u64,
}

/// The list that is under way, over all of its pages.
struct ActiveList {
    listing: Listing,
    began: Instant,
    /// How much of it has arrived.
    objects: u64,
    bytes: u64,
}

/// How a body ended without an error.
enum End {
    /// The server closed it.
    Closed,
    /// The feed dropped it, because it does not need the rest.
    Dropped,
}

/// How long to read the few bytes that follow a complete list.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// Used as a deadline where there is none.
const NEVER: Duration = Duration::from_hours(24 * 365);

impl Feed {
    pub(crate) fn new(
        cache: Arc<Cache>,
        phase: watch::Sender<InformerPhase>,
        FeedHandle { position, telemetry }: FeedHandle,
        source: Arc<dyn ListWatch>,
        reflector: Reflector,
        ingest: Ingest,
        frame_options: FrameOptions,
    ) -> Self {
        Self {
            cache,
            phase,
            position,
            telemetry,
            source,
            reflector,
            ingest,
            frame_options,
            selected: SelectionCheck::default(),
            is_selector_ignored: false,
            list: None,
            has_listed: false,
            received: Vec::new(),
            events: 0,
        }
    }

    /// Drops objects that a server sends although they are not selected.
    pub(crate) fn selecting(self, selected: SelectionCheck) -> Self {
        Self { selected, ..self }
    }

    /// Runs until it is stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        if stop.run_until_cancelled(self.list_and_watch()).await.is_none() {
            self.telemetry.report(&Observation::Stopped);
        }
    }

    async fn list_and_watch(&mut self) {
        loop {
            match self.reflector.next(Instant::now()) {
                NextStep::Wait(until) => {
                    self.telemetry.report(&Observation::Waiting(until));
                    sleep_until(until).await;
                }
                NextStep::Request(request) => self.send_and_read(&request).await,
            }
        }
    }

    /// Sends one request, reads its body, and reports to the reflector how it ended.
    async fn send_and_read(&mut self, request: &Request) {
        self.begin(request);
        let end = self.send(request).await;
        let now = Instant::now();
        let cut_after = self.reflector.cut_after();
        match end {
            Ok(End::Dropped) => {}
            Ok(End::Closed) => match self.reflector.on_closed(now) {
                None => {}
                // Nothing has failed: without a version, a list follows every watch.
                Some(Reaction::Relist(reason @ Relist::Unversioned)) => {
                    self.telemetry.report(&Observation::WatchEndedForList(reason));
                }
                Some(reaction) => {
                    let error = &SourceError::EndedEarly;
                    self.telemetry.report(&Observation::Failed { error, reaction });
                }
            },
            Err(error) => {
                let reaction = self.reflector.on_failed(&error, now);
                self.telemetry.report(&Observation::Failed { error: &error, reaction });
            }
        }
        if let (None, Some(silence)) = (cut_after, self.reflector.cut_after()) {
            self.telemetry.report(&Observation::IdleCutsFound(silence));
        }
        // A list continues with its next page. An interrupted one starts over.
        if !self.reflector.is_listing() {
            self.list = None;
        }
    }

    async fn send(&mut self, request: &Request) -> Result<End, SourceError> {
        let began = Instant::now();
        let source = Arc::clone(&self.source);
        let mut answer = source.request(request);
        let body = loop {
            tokio::select! {
                biased;
                answer = &mut answer => break answer?,
                () = sleep_until(self.deadline()) => {
                    if let Some(end) = self.deadline_passed()? {
                        return Ok(end);
                    }
                }
            }
        };
        self.reflector.on_opened(Instant::now());
        if let Request::List(_) = request {
            return self.read(request, body).await;
        }
        self.events = 0;
        self.telemetry.report(&Observation::WatchOpened);
        let end = self.read(request, body).await;
        let lasted = began.elapsed();
        self.telemetry.report(&Observation::WatchClosed { lasted, events: self.events });
        end
    }

    fn begin(&mut self, request: &Request) {
        let begins_list = match request {
            Request::List(list) => list.continue_token.is_none(),
            Request::Watch(watch) => watch.wants_initial_events(),
        };
        if begins_list {
            // Everything up to the position is in the cache. The high-water mark would be wrong
            // here: it may come from a list that was interrupted.
            let complete = self.reflector.position().cloned();
            let is_after_refused = self.reflector.is_last_list_refused();
            let namespace = self.position.namespace();
            let store = &self.cache.reader;
            self.list = Some(ActiveList {
                listing: Listing::begin(store, namespace, complete, is_after_refused),
                began: Instant::now(),
                objects: 0,
                bytes: 0,
            });
            self.telemetry.report(&Observation::ListBegun { is_relist: self.has_listed });
        } else if self.list.is_none() {
            self.telemetry.report(&Observation::WatchBegun);
        }
    }

    /// Reads a body to its end.
    async fn read(&mut self, request: &Request, mut body: Body) -> Result<End, SourceError> {
        let mut frames = match request {
            Request::List(_) => Frames::list(self.frame_options),
            Request::Watch(_) => Frames::watch(self.frame_options),
        };
        let mut timer = pin!(sleep_until(self.deadline()));
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = body.next() => chunk,
                () = &mut timer => {
                    if let Some(end) = self.deadline_passed()? {
                        return Ok(end);
                    }
                    // Chunks move the deadline later. The timer is not moved with each of them: it
                    // fires early, and is set again here.
                    timer.as_mut().reset(self.deadline());
                    continue;
                }
            };
            // A body that is always ready, such as one from an API server in the same process, must
            // not block the thread.
            tokio::task::coop::consume_budget().await;
            let Some(chunk) = chunk else {
                frames.finish()?;
                return Ok(End::Closed);
            };
            if self.process_chunk(&chunk?, &mut frames)?.is_break() {
                if let Request::List(_) = request {
                    // We do not need the rest. We read it for a second at most, so that HTTP/1.1
                    // can reuse the connection.
                    let rest = async { while let Some(Ok(_)) = body.next().await {} };
                    let _ = timeout(DRAIN_MAX, rest).await;
                }
                return Ok(End::Dropped);
            }
            // The deadline is earlier if the interval of bookmarks became known.
            if self.deadline() < timer.deadline() {
                timer.as_mut().reset(self.deadline());
            }
        }
    }

    /// Asks the reflector what a passed deadline means. Returns how the request ends, if it does.
    fn deadline_passed(&mut self) -> Result<Option<End>, SourceError> {
        match self.reflector.check_deadline(Instant::now()) {
            DeadlineCheck::NotYet => Ok(None),
            DeadlineCheck::Silent(time) => Err(SourceError::Silent(time)),
            DeadlineCheck::Relist(reason) => {
                self.telemetry.report(&Observation::WatchEndedForList(reason));
                Ok(Some(End::Dropped))
            }
        }
    }

    /// Processes a chunk of a body. Breaks if the rest of the body is not needed.
    fn process_chunk(
        &mut self,
        chunk: &[u8],
        frames: &mut Frames,
    ) -> Result<ControlFlow<()>, SourceError> {
        let now = Instant::now();
        self.reflector.on_progress(now);
        if let Some(list) = &mut self.list {
            list.bytes += chunk.len() as u64;
        }
        frames.push(chunk);
        let result = self.process_frames(frames, now);
        // Also after an error: the objects before it are valid.
        self.flush();
        // In this order: what the position covers must be in the cache, and tasks that wait for the
        // cache read the position when they are woken.
        self.position.set_reached(self.reflector.position());
        self.telemetry.report(&Observation::Advanced(self.reflector.position()));
        self.cache.progress.notify_waiters();
        if let Some(list) = &self.list {
            self.telemetry.report(&Observation::ListGrew(list.progress(now)));
        }
        result
    }

    fn process_frames(
        &mut self,
        frames: &mut Frames,
        now: Instant,
    ) -> Result<ControlFlow<()>, SourceError> {
        while let Some(frame) = frames.next()? {
            match frame {
                Frame::Item(bytes) => self.on_item(bytes, now),
                Frame::ListEnd(end) => {
                    self.flush();
                    if let Some(listed) = self.reflector.on_page_end(&end, now) {
                        let _ = self.on_list_end(listed, now);
                    }
                    return Ok(ControlFlow::Break(()));
                }
                Frame::Change(change, bytes) => self.on_change(change, bytes, now),
                Frame::Bookmark(bookmark) => {
                    if self.on_bookmark(&bookmark, now).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Frame::Error(status) => return Err(SourceError::Status(status)),
                Frame::Unknown => {}
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn on_item(&mut self, bytes: Box<[u8]>, now: Instant) {
        self.note_list_object();
        match self.ingest.object(bytes) {
            Ok(object) if !self.is_in_namespace(&object) => {}
            Ok(object) => {
                self.reflector.on_change(
                    EventType::Added,
                    Some(object.head().resource_version()),
                    now,
                );
                self.cache.quarantine.release(object.head().key());
                if self.is_selected(&object) {
                    self.received.push(Received::Item(object));
                }
            }
            Err(error) => self.quarantine(error),
        }
    }

    fn on_change(&mut self, change: EventType, bytes: Box<[u8]>, now: Instant) {
        let object = match self.ingest.object(bytes) {
            Ok(object) if !self.is_in_namespace(&object) => return,
            Ok(object) => object,
            Err(error) => {
                self.reflector.on_change(change, None, now);
                match error.key() {
                    // The deleted object cannot be read, but its key can: delete the cached one.
                    Some(key) if change == EventType::Deleted => {
                        self.cache.quarantine.release(key);
                        self.received.push(Received::Gone(key.clone()));
                    }
                    _ => self.quarantine(error),
                }
                return;
            }
        };
        self.cache.quarantine.release(object.head().key());
        // A server that knows the selector says that the object is gone.
        let is_present = change != EventType::Deleted && self.is_selected(&object);
        let change = if is_present { change } else { EventType::Deleted };
        let kind = self.reflector.on_change(change, Some(object.head().resource_version()), now);
        if kind != ChangeKind::Initial {
            self.events += 1;
            self.telemetry.report(&Observation::Changed(change));
        }
        match (kind, change) {
            (ChangeKind::Initial, EventType::Added | EventType::Modified) => {
                self.note_list_object();
                self.received.push(Received::Item(object));
            }
            (ChangeKind::Initial, EventType::Deleted) | (ChangeKind::Live, _) => {
                self.received.push(Received::Change(change, object));
            }
            (ChangeKind::Stale, _) => self.telemetry.report(&Observation::Stale(1)),
        }
    }

    /// Whether an object is in the watched namespace. Objects of another one, which a faulty source
    /// may send, would stay forever: no list of this namespace deletes them.
    fn is_in_namespace(&self, object: &Object) -> bool {
        self.position.covers(object.head().namespace())
    }

    /// Whether an object was asked for. A server that ignores a selector, as some aggregated ones
    /// do, sends all objects; they would be taken for selected ones.
    fn is_selected(&mut self, object: &Object) -> bool {
        let is_selected = self.selected.may_select(object.head());
        if !is_selected && !std::mem::replace(&mut self.is_selector_ignored, true) {
            self.telemetry.log_ignored_selector();
        }
        is_selected
    }

    fn on_bookmark(&mut self, bookmark: &Bookmark, now: Instant) -> ControlFlow<()> {
        self.flush();
        let listed = self.reflector.on_bookmark(bookmark, now);
        self.telemetry.report(&Observation::Bookmark);
        match listed {
            Some(listed) => self.on_list_end(listed, now),
            None => ControlFlow::Continue(()),
        }
    }

    /// A list, or a page of one, has ended.
    fn on_list_end(&mut self, listed: Listed, now: Instant) -> ControlFlow<()> {
        let is_restored = match listed {
            Listed::More => return ControlFlow::Continue(()),
            Listed::Refused(fault) => return self.refuse_list(fault),
            Listed::Complete { is_restored } => is_restored,
        };
        let list = self.list.take().expect("a list must have begun before it ends");
        let began = list.began;
        let progress = list.progress(now);
        match self.cache.end_list(list.listing, is_restored, !self.has_listed) {
            ListOutcome::WentBack => {
                self.reflector.refuse_list(now);
                return self.refuse_list(ListFault::WentBack);
            }
            ListOutcome::Applied { swept, repaired, is_restored } => {
                if is_restored {
                    self.position.set_restored(began);
                }
                self.telemetry.report(&Observation::Listed {
                    list: progress,
                    swept,
                    repaired,
                    is_restored,
                });
            }
        }
        if !std::mem::replace(&mut self.has_listed, true) && self.cache.note_first_list() {
            InformerPhase::transition(&self.phase, &InformerPhase::Listing, InformerPhase::Synced);
            self.telemetry.report(&Observation::Synced);
        }
        ControlFlow::Continue(())
    }

    fn refuse_list(&mut self, fault: ListFault) -> ControlFlow<()> {
        self.list = None;
        self.telemetry.report(&Observation::ListRefused(fault));
        ControlFlow::Break(())
    }

    /// Passes the received objects to the cache.
    fn flush(&mut self) {
        if self.received.is_empty() {
            return;
        }
        let received = self.received.drain(..);
        let listing = self.list.as_mut().map(|list| &mut list.listing);
        let stale = self.cache.apply(received, listing, !self.has_listed);
        if stale > 0 {
            self.telemetry.report(&Observation::Stale(stale));
        }
    }

    /// When the request times out.
    fn deadline(&self) -> Instant {
        self.reflector.deadline().unwrap_or_else(|| Instant::now() + NEVER)
    }

    fn quarantine(&mut self, error: HeadError) {
        self.telemetry.report(&Observation::Quarantined(&error));
        if let (Some(list), Some(key)) = (&mut self.list, error.key()) {
            list.listing.keep_unreadable(key);
        }
        self.cache.quarantine.add(error);
    }

    fn note_list_object(&mut self) {
        if let Some(list) = &mut self.list {
            list.objects += 1;
        }
    }
}

impl ActiveList {
    fn progress(&self, now: Instant) -> Progress {
        Progress {
            objects: self.objects,
            bytes: self.bytes,
            elapsed: now.saturating_duration_since(self.began),
        }
    }
}
