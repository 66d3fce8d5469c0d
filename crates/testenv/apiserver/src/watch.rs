//! Watch: the existing objects, then their changes, as lines of JSON for as long as the client
//! stays.
//!
//! A watch keeps a cursor into the log of its kind and reads from there when it is polled. It has
//! no buffer of its own: a slow reader costs nothing, until the log has dropped changes after its
//! cursor and it gets a 410.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::body::BodyError;
use crate::failure::Failure;
use crate::fault::Fault;
use crate::filter::Filter;
use crate::ids::Ids;
use crate::kinds::KindId;
use crate::object::{Encoding, INITIAL_EVENTS_END, Key, Stored};
use crate::query::{Query, version_number};
use crate::request::RequestInfo;
use crate::shared::Shared;
use crate::state::State;
use crate::store::{Event, Range, encode_line};
use crate::target::Target;
use crate::webhook::caller::Caller;
use crate::webhook::convert;

/// How long a watch lasts by default. The real server draws from 30 to 60 minutes.
const TIMEOUT_DEFAULT: Duration = Duration::from_mins(30);

/// How long a watch may last, whatever timeout it asks for.
const TIMEOUT_MAX: Duration = Duration::from_hours(24);

/// The time between two bookmarks, as on the real server.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);

/// How long before the end the last bookmark is sent, so that the client resumes from a recent
/// version.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// How many changes are read under one lock.
const BATCH: usize = 256;

/// The minimum size of a chunk of initial events, in bytes.
const CHUNK: usize = 64 * 1024;

/// An open watch.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    request: RequestInfo,
    kind: Arc<crate::kinds::Registered>,
    encoding: Encoding,
    filter: Filter,
    /// The objects that are still to be sent as initial events.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// The initial objects before a webhook has converted them.
    unconverted: Vec<Arc<Stored>>,
    /// The revision of the bookmark that ends the initial events, if the client asked for it.
    initial_end: Option<u64>,
    /// Whether the first bookmark also marks the end of the initial events. This is the case if the
    /// watch starts with all objects by default, and not because the client asked for initial
    /// events.
    marks_first: bool,
    /// All changes up to this revision have been read from the log.
    cursor: u64,
    changed: watch::Receiver<u64>,
    /// Changes that were read from the log and not yet handled.
    backlog: VecDeque<Arc<Event>>,
    /// Lines that are sent next.
    pending: VecDeque<Bytes>,
    end: Instant,
    next_bookmark: Option<Instant>,
    /// The source of the uids of conversions, if a webhook converts objects of the kind.
    ids: Option<Ids>,
    /// Whether the log has been read since the next bookmark became due.
    caught_up: bool,
    over: bool,
}

impl State {
    /// Starts a watch.
    pub(crate) fn watch(
        &mut self,
        shared: &Arc<Shared>,
        request: RequestInfo,
        target: &Target,
        query: &Query,
        encoding: Encoding,
    ) -> Result<Watch, Failure> {
        query.check_list()?;
        let filter = self.filter(target, query)?;
        let kind = target.kind.storage;
        let now = self.store.revision();
        let from = Beginning::of(query, now)?;
        let (cursor, initial) = match from {
            Beginning::Everything => (now, self.initial(kind, &filter)),
            Beginning::Now => (now, Vec::new()),
            Beginning::After(revision) => (revision, Vec::new()),
        };
        let converts = target.kind.conversion.is_some();
        let (initial, unconverted) =
            if converts { (Vec::new(), initial) } else { (initial, Vec::new()) };
        let oldest = self.store.oldest(kind);
        let too_old = cursor < oldest;
        let start = Instant::now();
        let timeout = query.timeout.filter(|timeout| !timeout.is_zero());
        let end = start + timeout.unwrap_or(TIMEOUT_DEFAULT).min(TIMEOUT_MAX);
        let marks_end = query.send_initial_events == Some(true) && query.allow_bookmarks;
        let mut watch = Watch {
            shared: shared.clone(),
            request,
            kind: target.kind.clone(),
            initial_end: marks_end.then_some(now),
            marks_first: query.resource_version.is_none() && query.send_initial_events.is_none(),
            encoding,
            filter,
            initial: initial.into_iter(),
            unconverted,
            cursor,
            changed: self.store.subscribe(kind),
            backlog: VecDeque::new(),
            pending: VecDeque::new(),
            end,
            next_bookmark: query.allow_bookmarks.then(|| next_bookmark(start, end)).flatten(),
            ids: converts.then(|| self.ids.fork()),
            caught_up: false,
            over: false,
        };
        if too_old {
            watch.fail(&Failure::watch_too_old(cursor, oldest));
        }
        Ok(watch)
    }

    fn initial(&self, kind: KindId, filter: &Filter) -> Vec<Arc<Stored>> {
        let revision = self.store.revision();
        let range = Range { kind, namespace: filter.namespace(), start: None, revision };
        self.store.page(&range, usize::MAX, |key, object| filter.matches(key, object)).items
    }
}

/// The start of a watch.
enum Beginning {
    /// Sends all objects as initial events.
    Everything,
    /// Starts with the next change.
    Now,
    /// Starts with the first change after a revision.
    After(u64),
}

impl Beginning {
    fn of(query: &Query, now: u64) -> Result<Self, Failure> {
        let version = match query.resource_version.as_deref() {
            None => 0,
            Some(text) => version_number(text).map_err(Failure::internal)?,
        };
        Ok(match (query.send_initial_events, version) {
            (Some(true), version) if version > now => {
                return Err(Failure::version_too_large(version, now));
            }
            (Some(true), _) | (None, 0) => Self::Everything,
            (Some(false), 0) => Self::Now,
            (_, version) => Self::After(version),
        })
    }
}

impl Watch {
    /// Returns the stream of lines.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
        futures::stream::unfold(self, |mut watch| async move {
            watch.next().await.map(|line| (Ok(line), watch))
        })
    }

    /// Returns one line or more, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.pending.pop_front() {
                return Some(line);
            }
            // This comes first, so that the timeout also ends a watch that never catches up.
            let now = Instant::now();
            if self.over || now >= self.end {
                return None;
            }
            if !self.unconverted.is_empty() {
                self.convert_initial().await;
                continue;
            }
            if let Some(chunk) = self.next_initial() {
                return Some(chunk);
            }
            let due = self.next_bookmark.is_some_and(|due| now >= due);
            if let Some(event) = self.backlog.pop_front() {
                self.deliver(&event).await;
            } else if due && self.caught_up {
                self.push_bookmark();
            } else if self.read_log() {
                // A bookmark that is due is sent after the changes that were just read, whatever
                // changes in the meantime.
                self.caught_up = due;
            } else if due {
                self.push_bookmark();
            } else {
                self.wait().await;
            }
        }
    }

    fn next_initial(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK {
            let Some(object) = self.initial.next() else { break };
            chunk.extend_from_slice(&encode_line("ADDED", &object, &self.encoding));
            self.encoding.omit_columns();
        }
        if !chunk.is_empty() {
            return Some(chunk.into());
        }
        let end = self.initial_end.take().map(|now| bookmark(&self.encoding, now, true));
        if end.is_some() {
            self.encoding.omit_columns();
        }
        end
    }

    /// Reads new changes from the log. Returns whether there was anything to do.
    fn read_log(&mut self) -> bool {
        let (events, trimmed_until, now) = {
            let state = self.shared.state();
            // The kind is gone, or the server was restored to an earlier state: this is not the log
            // that was read before.
            if self.changed.has_changed().is_err() {
                self.over = true;
                return true;
            }
            self.changed.borrow_and_update();
            let store = &state.store;
            let kind = self.kind.storage;
            (
                store.changes_after(kind, self.cursor, BATCH),
                store.trimmed_until(kind),
                store.revision(),
            )
        };
        if self.cursor < trimmed_until {
            self.fail(&Failure::watch_too_old(self.cursor, trimmed_until));
            return true;
        }
        self.cursor = match events.last() {
            Some(last) if events.len() == BATCH => last.revision(),
            _ => self.cursor.max(now),
        };
        self.backlog = events.into();
        !self.backlog.is_empty()
    }

    /// Returns the type of an event for this watcher: an object may enter or leave its selection.
    /// For an object that leaves, it also returns the last selected state.
    fn change(&self, event: &Event) -> Option<(&'static str, Option<Stored>)> {
        let key: &Key = event.key();
        let picks = |object: Option<&Arc<Stored>>| {
            object.is_some_and(|object| self.filter.matches(key, object))
        };
        match (picks(event.before()), picks(event.after())) {
            (false, false) => None,
            (false, true) => Some(("ADDED", None)),
            (true, true) => Some(("MODIFIED", None)),
            (true, false) if event.after().is_none() => Some(("DELETED", None)),
            (true, false) => {
                let old = event.before().expect("an object that was picked must have been there");
                Some(("DELETED", Some(old.at_revision(event.revision(), &self.kind))))
            }
        }
    }

    /// Returns the line of an event, or `None` if it does not concern this watcher.
    async fn line(&mut self, event: &Event) -> Result<Option<Bytes>, Failure> {
        let Some((event_type, left)) = self.change(event) else { return Ok(None) };
        if self.ids.is_some() {
            let object = left.map_or_else(|| event.object().clone(), Arc::new);
            let object = self.convert(vec![object]).await?.pop();
            return Ok(object.map(|object| encode_line(event_type, &object, &self.encoding)));
        }
        Ok(Some(match left {
            None => event.line(event_type, &self.encoding),
            Some(last) => encode_line(event_type, &last, &self.encoding),
        }))
    }

    /// Converts objects to the watched version.
    async fn convert(&mut self, objects: Vec<Arc<Stored>>) -> Result<Vec<Arc<Stored>>, Failure> {
        let Some(ids) = &mut self.ids else { return Ok(objects) };
        let mut caller = Caller { webhooks: &self.shared.webhooks, ids };
        let version = self.encoding.version();
        let converted = convert::stored(&self.kind, version, objects, &mut caller).await;
        converted.map_err(Failure::internal)
    }

    async fn convert_initial(&mut self) {
        let objects = std::mem::take(&mut self.unconverted);
        match self.convert(objects).await {
            Ok(objects) => self.initial = objects.into_iter(),
            Err(failure) => self.fail(&failure),
        }
    }

    /// Queues the line of an event, and applies the faults for this event.
    async fn deliver(&mut self, event: &Event) {
        let line = match self.line(event).await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(failure) => return self.fail(&failure),
        };
        self.encoding.omit_columns();
        let mut copies = 1;
        for fault in self.shared.faults.at_event(&self.request) {
            match fault {
                Fault::DropEvent => copies = 0,
                Fault::DuplicateEvent => copies *= 2,
                Fault::DelayEvent(delay) => {
                    let until = Instant::now().checked_add(delay).unwrap_or(self.end);
                    sleep_until(until.min(self.end)).await;
                }
                _ => {}
            }
        }
        if Instant::now() < self.end {
            self.pending.extend(std::iter::repeat_n(line, copies));
        }
    }

    /// Waits until something changes, a bookmark is due, or the watch is over.
    async fn wait(&mut self) {
        let due = self.next_bookmark.unwrap_or(self.end).min(self.end);
        tokio::select! {
            biased;
            changed = self.changed.changed() => self.over |= changed.is_err(),
            () = sleep_until(due) => {}
        }
    }

    fn push_bookmark(&mut self) {
        self.caught_up = false;
        self.next_bookmark = next_bookmark(Instant::now(), self.end);
        let ends_initial = std::mem::take(&mut self.marks_first);
        self.pending.push_back(bookmark(&self.encoding, self.cursor, ends_initial));
        self.encoding.omit_columns();
    }

    fn fail(&mut self, failure: &Failure) {
        self.pending.push_back(event_line("ERROR", &failure.body()));
        self.initial_end = None;
        self.over = true;
    }
}

fn next_bookmark(now: Instant, end: Instant) -> Option<Instant> {
    let regular = now + BOOKMARK_PERIOD;
    let last = end.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now);
    [Some(regular).filter(|at| *at < end), last].into_iter().flatten().min()
}

fn bookmark(encoding: &Encoding, revision: u64, ends_initial: bool) -> Bytes {
    let (kind, api_version) = encoding.type_meta();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if ends_initial {
        metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
    match encoding.table_of(&object) {
        Some(table) => {
            [br#"{"type":"BOOKMARK","object":"#.as_slice(), &table, b"}\n"].concat().into()
        }
        None => event_line("BOOKMARK", &object),
    }
}

fn event_line(event_type: &str, object: &Value) -> Bytes {
    let mut line = json!({"type": event_type, "object": object}).to_string();
    line.push('\n');
    line.into()
}
