//! The shell around a reflector: sends its requests, reads bodies, and hands what arrives to the cache.
//!
//! All decisions are the reflector's (what to ask for) and the cache's (what is news). Here is what waits: for an
//! answer, for the next piece of a body, for the end of a backoff, and always for the informer to be stopped.

mod body;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_indexer::{HeadError, Object, ObjectKey};

use crate::decode::frames::{Bookmark, Change, Frame, FrameOptions, Frames};
use crate::decode::ingest::Ingest;
use crate::reflect::gathered::Gathered;
use crate::reflect::reflector::{
    Action, Arrival, Listed, Phase, Reflector, Relist, ServerTraits, TimedOut,
};
use crate::share::cache::{Arrived, Ended, Listing, Outcome};
use crate::share::engine::Engine;
use crate::share::options::{ErrorHandler, InformerOptions};
use crate::telemetry::observer::{ListReport, Observers};
use crate::telemetry::vitals::{Changes, Doing, Vitals};
use crate::transport::source::{Body, ListWatch, Request, SourceError};
use body::drain;

/// Lists and watches of one namespace, or of all.
pub(crate) struct Feed {
    engine: Arc<Engine>,
    vitals: Arc<Vitals>,
    source: Arc<dyn ListWatch>,
    reflector: Reflector,
    ingest: Ingest,
    frame_options: FrameOptions,
    observers: Observers,
    on_error: Option<ErrorHandler>,
    /// The list that is under way, over all of its pages.
    listing: Option<Listing>,
    arrived: Gathered,
    has_listed: bool,
    list: ListNotes,
    /// Changes of this piece of a body that are not noted yet.
    changes: Changes,
}

/// What is counted of a list for its report.
struct ListNotes {
    began: Instant,
    told: Instant,
    objects: u64,
    bytes: u64,
}

/// How a body ended.
enum End {
    /// The server closed it.
    Closed,
    /// It did not end well.
    Failed(SourceError),
    /// We closed it: what it said was enough, or the informer stops.
    Enough,
}

/// How often a long list says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Long enough.
const NEVER: Duration = Duration::from_hours(24 * 365);

impl Feed {
    pub(crate) fn new(
        engine: Arc<Engine>,
        vitals: Arc<Vitals>,
        source: Arc<dyn ListWatch>,
        ingest: Ingest,
        options: &InformerOptions,
        server: ServerTraits,
        seed: u64,
    ) -> Self {
        let frame_options = FrameOptions {
            managed_fields: options.managed_fields,
            frame_max: options.frame_max.unwrap_or(FrameOptions::FRAME_MAX_DEFAULT),
        };
        let now = Instant::now();
        Self {
            engine,
            vitals,
            source,
            reflector: Reflector::new(options.reflector.clone().seed(seed), server),
            ingest,
            frame_options,
            observers: options.observers.clone(),
            on_error: options.on_error.clone(),
            listing: None,
            arrived: Gathered::new(options.is_compact()),
            has_listed: false,
            list: ListNotes { began: now, told: now, objects: 0, bytes: 0 },
            changes: Changes::default(),
        }
    }

    /// Goes on until it is stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        // Everything it waits for is dropped with it, and so is what is left of a piece. What was taken in is applied.
        if stop.run_until_cancelled(self.go_on()).await.is_none() {
            self.vitals.note(|notes| notes.do_now(Doing::Stopped, Instant::now()));
        }
    }

    async fn go_on(&mut self) {
        loop {
            match self.reflector.next(Instant::now()) {
                Action::Wait(until) => {
                    self.vitals.note(|notes| notes.do_now(Doing::Waiting(until), Instant::now()));
                    sleep_until(until).await;
                }
                Action::Request(request) => self.serve(&request).await,
            }
        }
    }

    /// One request, from its sending to the end of its body.
    async fn serve(&mut self, request: &Request) {
        self.begin(request);
        let began = Instant::now();
        let source = Arc::clone(&self.source);
        let answer = tokio::select! {
            answer = source.request(request) => answer,
            () = sleep_until(self.deadline()) => Err(SourceError::Silent(began.elapsed())),
        };
        let end = match answer {
            Err(error) => End::Failed(error),
            Ok(body) => {
                self.reflector.opened(Instant::now());
                match request {
                    Request::List(_) => self.read(request, body).await,
                    Request::Watch(_) => self.watch(request, body, began).await,
                }
            }
        };
        self.end(end);
    }

    fn begin(&mut self, request: &Request) {
        let now = Instant::now();
        let is_list_begun = match request {
            Request::List(list) => list.continue_token.is_none(),
            Request::Watch(watch) => watch.wants_initial_events(),
        };
        if is_list_begun {
            // All that there was at the position is held. The high-water mark may be of a list that was cut.
            let complete = self.reflector.position().cloned();
            let is_second = self.reflector.is_in_doubt();
            let cache = self.engine.cache();
            self.listing = Some(cache.begin_list(self.vitals.namespace(), complete, is_second));
            self.list = ListNotes { began: now, told: now, objects: 0, bytes: 0 };
            self.vitals.note(|notes| notes.begin_list(now));
            if self.has_listed {
                self.observers.tell(|observer| observer.relisting(self.engine.resource()));
            }
        }
        let doing = if self.listing.is_some() { Doing::Listing } else { Doing::Watching };
        self.vitals.note(|notes| notes.do_now(doing, now));
    }

    /// Reads a watch to its end. One that was refused was none.
    async fn watch(&mut self, request: &Request, body: Body, began: Instant) -> End {
        self.vitals.note(|notes| notes.counts.watches += 1);
        self.observers.tell(|observer| observer.watch_opened(self.engine.resource()));
        let before = self.events();
        let end = self.read(request, body).await;
        let (lasted, events) = (began.elapsed(), self.events() - before);
        let resource = self.engine.resource();
        self.observers.tell(|observer| observer.watch_closed(resource, lasted, events));
        end
    }

    /// Reads a body to its end.
    async fn read(&mut self, request: &Request, mut body: Body) -> End {
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
                    // What waits for more has waited long enough.
                    self.flush();
                    match self.reflector.timed_out(Instant::now()) {
                        TimedOut::Silent(time) => return End::Failed(SourceError::Silent(time)),
                        TimedOut::Relist(reason) => return self.give_way(reason),
                        // The deadline moves with everything that arrives; the timer is set again when it rings.
                        TimedOut::NotYet => {
                            timer.as_mut().reset(self.deadline());
                            continue;
                        }
                    }
                }
            };
            // A body that is always ready, as one from the same process is, must not keep the thread from others.
            tokio::task::coop::consume_budget().await;
            match chunk {
                Some(Ok(chunk)) => {
                    match self.chunk(&chunk, &mut frames) {
                        // Nearer than it was, if it became known how often bookmarks come, or if objects wait.
                        Ok(ControlFlow::Continue(())) if self.deadline() < timer.deadline() => {
                            timer.as_mut().reset(self.deadline());
                        }
                        Ok(ControlFlow::Continue(())) => {}
                        Ok(ControlFlow::Break(())) => {
                            if let Request::List(_) = request {
                                drain(body).await;
                            }
                            return End::Enough;
                        }
                        Err(error) => return End::Failed(error),
                    }
                }
                Some(Err(error)) => return End::Failed(error),
                None => {
                    return frames
                        .finish()
                        .map_or_else(|error| End::Failed(error.into()), |()| End::Closed);
                }
            }
        }
    }

    /// Takes in a chunk of a body. Breaks if nothing that follows matters.
    fn chunk(&mut self, chunk: &[u8], frames: &mut Frames) -> Result<ControlFlow<()>, SourceError> {
        let now = Instant::now();
        self.reflector.progressed(now);
        frames.push(chunk);
        let is_listing = self.listing.is_some();
        let before = self.list.objects;
        let taken = self.frames(frames, now);
        // Also what came before an error is valid.
        let is_first_list = self.listing.is_some() && !self.has_listed;
        if taken.is_err() || !is_first_list || !self.arrived.waits(now) {
            self.flush();
        }
        let (version, changes) =
            (self.reflector.position().cloned(), std::mem::take(&mut self.changes));
        self.vitals.note(|notes| notes.moved_on(version, changes, now));
        self.engine.progressed();
        if is_listing {
            self.list.bytes += chunk.len() as u64;
            let objects = self.list.objects - before;
            self.vitals.note(|notes| notes.list_grew(objects, chunk.len() as u64, now));
            self.tell_progress(now);
        }
        taken
    }

    fn frames(
        &mut self,
        frames: &mut Frames,
        now: Instant,
    ) -> Result<ControlFlow<()>, SourceError> {
        while let Some(frame) = frames.next()? {
            let flow = match frame {
                Frame::Item(bytes) => {
                    self.item(bytes, now);
                    ControlFlow::Continue(())
                }
                Frame::ListEnd(end) => {
                    self.flush();
                    let listed = self.reflector.page(&end, now);
                    let _ = self.listed(listed, now);
                    // Nothing that follows matters, and it may never come.
                    ControlFlow::Break(())
                }
                Frame::Change(change, bytes) => {
                    self.change(change, bytes, now);
                    ControlFlow::Continue(())
                }
                Frame::Bookmark(bookmark) => self.bookmark(&bookmark, now),
                Frame::Error(status) => return Err(SourceError::Status(status)),
                Frame::Unknown => ControlFlow::Continue(()),
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn item(&mut self, bytes: Box<[u8]>, now: Instant) {
        self.list.objects += 1;
        match self.ingest.object(bytes) {
            Ok(object) if !self.is_ours(&object) => {}
            Ok(object) => {
                self.reflector.changed(Change::Added, Some(object.head().resource_version()), now);
                self.engine.cache().quarantine.release(object.head().key());
                self.arrived.push(Arrived::Item(object));
            }
            Err(error) => self.quarantine(error),
        }
    }

    fn change(&mut self, change: Change, bytes: Box<[u8]>, now: Instant) {
        let object = match self.ingest.object(bytes) {
            Ok(object) if !self.is_ours(&object) => return,
            Ok(object) => object,
            Err(error) => {
                self.reflector.changed(change, None, now);
                return match error.key() {
                    Some(key) if change == Change::Deleted => self.gone(key.clone()),
                    _ => self.quarantine(error),
                };
            }
        };
        self.engine.cache().quarantine.release(object.head().key());
        let arrival = self.reflector.changed(change, Some(object.head().resource_version()), now);
        match (arrival, change) {
            (Arrival::Initial, Change::Added | Change::Modified) => {
                self.list.objects += 1;
                self.arrived.push(Arrived::Item(object));
            }
            (Arrival::Initial, Change::Deleted) => {
                self.arrived.push(Arrived::Change(change, object));
            }
            (Arrival::Live, _) => {
                self.arrived.push(Arrived::Change(change, object));
                self.count(change);
            }
            (Arrival::Stale, _) => {
                self.count(change);
                self.account(Outcome { stale: 1, ..Outcome::default() });
            }
        }
    }

    /// Whether an object is in the namespace that is watched. A source that sends others would have them stay for
    /// ever: they are not in what a list of the namespace can sweep.
    fn is_ours(&self, object: &Object) -> bool {
        let namespace = self.vitals.namespace();
        namespace.is_none() || namespace == object.head().namespace()
    }

    /// An object went in a state that cannot be read. What is held of it has gone as well.
    fn gone(&mut self, key: ObjectKey) {
        self.engine.cache().quarantine.release(&key);
        self.arrived.push(Arrived::Gone(key));
    }

    fn bookmark(&mut self, bookmark: &Bookmark, now: Instant) -> ControlFlow<()> {
        self.flush();
        let listed = self.reflector.bookmark(bookmark, now);
        self.vitals.note(|notes| notes.counts.bookmarks += 1);
        match listed {
            Some(listed) => self.listed(listed, now),
            None => ControlFlow::Continue(()),
        }
    }

    /// A list, or a page of one, has ended.
    fn listed(&mut self, listed: Listed, now: Instant) -> ControlFlow<()> {
        let is_new_epoch = match listed {
            Listed::More => return ControlFlow::Continue(()),
            Listed::Refused => return self.doubt(),
            Listed::Unsupported => {
                self.listing = None;
                return ControlFlow::Break(());
            }
            Listed::Complete { epoch_changed } => epoch_changed,
        };
        let listing = self.listing.take().expect("a list must have begun before it ends");
        match self.engine.cache().end_list(listing, is_new_epoch, !self.has_listed) {
            Ended::Doubtful => {
                self.reflector.doubt(now);
                self.doubt()
            }
            Ended::Applied { outcome, is_new_epoch } => {
                self.report_list(outcome, is_new_epoch, now);
                ControlFlow::Continue(())
            }
        }
    }

    fn report_list(&mut self, outcome: Outcome, is_new_epoch: bool, now: Instant) {
        let resource = self.engine.resource();
        self.vitals.note(|notes| {
            notes.counts.lists += 1;
            if is_new_epoch {
                notes.counts.restored += 1;
                notes.restored = Some(self.list.began);
            }
            notes.do_now(Doing::Watching, now);
        });
        let report = ListReport {
            objects: self.list.objects,
            bytes: self.list.bytes,
            took: now.saturating_duration_since(self.list.began),
            swept: outcome.swept,
            repaired: outcome.repaired,
        };
        let namespace = self.vitals.namespace();
        if self.list.told > self.list.began {
            let (objects, took) = (report.objects, report.took.as_secs());
            tracing::info!(%resource, namespace, "listed {objects} objects in {took} s");
        } else {
            tracing::debug!(%resource, namespace, ?report, "listed");
        }
        self.observers.tell(|observer| observer.listed(resource, &report));
        if is_new_epoch {
            tracing::warn!(
                %resource,
                "the versions of the cluster went back, twice: it was restored, and the cache follows it"
            );
            self.observers.tell(|observer| observer.restored(resource));
        }
        self.account(outcome);
        if !std::mem::replace(&mut self.has_listed, true) {
            self.engine.note_first_list();
        }
    }

    /// A list contradicts what is known. Once that may be a server that lags behind; it is asked again.
    fn doubt(&mut self) -> ControlFlow<()> {
        self.listing = None;
        tracing::warn!(
            resource = %self.engine.resource(),
            "a list is older than what is known: it is not believed, and asked for again"
        );
        ControlFlow::Break(())
    }

    /// Hands what has arrived to the cache.
    fn flush(&mut self) {
        if self.arrived.is_empty() {
            return;
        }
        let initial = !self.has_listed;
        // Dropped at the end, and not one after the other.
        let _old = if initial { self.arrived.move_bytes() } else { Vec::new() };
        let cache = self.engine.cache();
        let outcome = cache.take(self.arrived.drain(), self.listing.as_mut(), initial);
        self.account(outcome);
    }

    /// Says what a request has ended with, and lets the reflector decide what follows.
    fn end(&mut self, end: End) {
        self.flush();
        let now = Instant::now();
        let cut_after = self.reflector.cut_after();
        match end {
            End::Enough => {}
            End::Closed => {
                self.reflector.closed(now);
            }
            End::Failed(error) => self.failed(&error, now),
        }
        if let (None, Some(silence)) = (cut_after, self.reflector.cut_after()) {
            let (resource, namespace) = (self.engine.resource(), self.vitals.namespace());
            let silence = silence.as_secs();
            tracing::info!(
                %resource, namespace,
                "something on the way to the server cuts watches that are silent for {silence} s: the server is asked to \
                 end them earlier"
            );
        }
        // Between two pages a list goes on; otherwise it begins anew, if it was not complete.
        if self.reflector.phase() != Phase::Listing {
            self.listing = None;
        }
    }

    /// A watch is ended for a list.
    fn give_way(&self, reason: Relist) -> End {
        let (resource, namespace) = (self.engine.resource(), self.vitals.namespace());
        tracing::info!(%resource, namespace, ?reason, "everything is listed again");
        End::Enough
    }

    /// By when something must come, or what has come must go to the cache; never, if nothing is under way.
    fn deadline(&self) -> Instant {
        let deadlines = self.reflector.deadline().into_iter().chain(self.arrived.due());
        deadlines.min().unwrap_or_else(|| Instant::now() + NEVER)
    }

    fn failed(&mut self, error: &SourceError, now: Instant) {
        let reaction = self.reflector.failed(error, now);
        let (resource, namespace) = (self.engine.resource(), self.vitals.namespace());
        self.vitals.note(|notes| notes.failed(error, now));
        tracing::warn!(%resource, namespace, %error, ?reaction, "a list or watch failed");
        self.observers.tell(|observer| observer.failed(resource, error));
        let handled = self
            .on_error
            .as_ref()
            .map(|handler| catch_unwind(AssertUnwindSafe(|| handler(resource, error))));
        if let Some(Err(_)) = handled {
            tracing::error!(%resource, "the error handler of an informer panicked");
        }
    }

    fn quarantine(&mut self, error: HeadError) {
        let resource = self.engine.resource();
        tracing::warn!(%resource, %error, "an object is left out: its head cannot be read");
        self.observers.tell(|observer| observer.quarantined(resource));
        if let (Some(listing), Some(key)) = (&mut self.listing, error.key()) {
            listing.keep_unreadable(key);
        }
        self.engine.cache().quarantine.add(error);
    }

    fn count(&mut self, change: Change) {
        self.changes.count(change);
        self.observers.tell(|observer| observer.changed(self.engine.resource(), change, 1));
    }

    fn account(&self, outcome: Outcome) {
        if outcome.stale + outcome.swept + outcome.repaired == 0 {
            return;
        }
        self.vitals.note(|notes| {
            notes.counts.stale += outcome.stale;
            notes.counts.swept += outcome.swept;
            notes.counts.repaired += outcome.repaired;
        });
        if outcome.stale > 0 {
            let resource = self.engine.resource();
            self.observers.tell(|observer| observer.stale(resource, outcome.stale));
        }
    }

    fn tell_progress(&mut self, now: Instant) {
        if now.saturating_duration_since(self.list.told) < TELL_EVERY {
            return;
        }
        self.list.told = now;
        let progress = self.vitals.status(now).list;
        let (resource, namespace) = (self.engine.resource(), self.vitals.namespace());
        tracing::info!(%resource, namespace, "listing: {progress}");
    }

    fn events(&self) -> u64 {
        let counts = self.vitals.note(|notes| notes.counts);
        counts.added + counts.modified + counts.deleted
    }
}
