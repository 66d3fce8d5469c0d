//! The informer's side of one handler: its pending events, whether it is synced, and its task.
//!
//! The cache pushes and the handler's task pops. Between them is a [`Backlog`], so that neither
//! waits for the other. A listener knows no types; [`typed`] and [`run_handler`] add them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use windlass_indexer::{Lister, ObjectType};

use crate::cache::backlog::{Backlog, Notice, Pending};
use crate::cache::event::{Event, Handler};
use crate::lock::lock;
use crate::telemetry::status::HandlerStatus;

/// Settings of a handler.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HandlerOptions {
    pub(crate) name: Option<String>,
    pub(crate) resync: Option<Duration>,
}

/// The shortest time between two resyncs, as in client-go. Each resync reads the whole cache.
const RESYNC_MIN: Duration = Duration::from_secs(1);

/// The untyped part of a handler.
pub(crate) struct Listener {
    pub(crate) name: Box<str>,
    /// Whether it is a handler with its own task, and not a subscription.
    pub(crate) is_handler: bool,
    resync: Option<Duration>,
    state: Mutex<State>,
    wake: Notify,
    /// `wait_for_sync` reads it while it holds the lock of `synced`. Taking `state` then would
    /// break the lock order, so it is an atomic.
    closed: AtomicBool,
    synced: watch::Sender<bool>,
}

struct State {
    backlog: Backlog,
    /// Whether an event was taken and is still being handled. So an event is always either pending,
    /// or taken with `busy` set.
    busy: bool,
    delivered: u64,
    panics: u64,
}

impl HandlerOptions {
    /// The informer's resync, and a name made of the handler's type.
    pub fn new() -> Self {
        Self::default()
    }

    /// A name for logs, metrics and the status.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Redelivers every cached object once per `period`. No request is sent. Zero means never.
    /// Default: [the informer's](crate::InformerOptions::resync).
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }
}

impl Listener {
    pub(crate) fn new(
        name: String,
        is_handler: bool,
        resync: Duration,
        merge_above: usize,
    ) -> Self {
        let backlog = Backlog::new(merge_above);
        Self {
            name: name.into(),
            is_handler,
            resync: (!resync.is_zero()).then(|| resync.max(RESYNC_MIN)),
            state: Mutex::new(State { backlog, busy: false, delivered: 0, panics: 0 }),
            wake: Notify::new(),
            closed: AtomicBool::new(false),
            synced: watch::Sender::new(false),
        }
    }

    /// When its next resync is due; `None` for never.
    pub(crate) fn resync_after(&self, now: Instant) -> Option<Instant> {
        self.resync.and_then(|period| now.checked_add(period))
    }

    /// Adds notices, in order, and wakes the handler.
    pub(crate) fn push(&self, notices: impl Iterator<Item = Notice>) {
        self.fill(|backlog| notices.for_each(|notice| backlog.push(notice)));
    }

    /// Adds the end of the initial list, and wakes the handler.
    pub(crate) fn push_synced(&self) {
        self.fill(Backlog::push_synced);
    }

    fn fill(&self, push: impl FnOnce(&mut Backlog)) {
        let mut state = lock(&self.state);
        let was_empty = state.backlog.is_empty();
        push(&mut state.backlog);
        self.take_synced_mark(&mut state.backlog);
        let has_news = was_empty && !state.backlog.is_empty();
        drop(state);
        // A handler that still has notices is awake.
        if has_news {
            self.wake.notify_one();
        }
    }

    /// The next notice; `None` when the handler was removed or the informer has stopped. Cancel
    /// safe.
    pub(crate) async fn next(&self) -> Option<Notice> {
        loop {
            if self.is_closed() {
                return None;
            }
            let pending = {
                let mut state = lock(&self.state);
                let pending = state.backlog.pop();
                self.take_synced_mark(&mut state.backlog);
                state.busy = pending.is_some();
                let is_event = matches!(pending, Some(Pending::Notice(_)));
                state.delivered += u64::from(is_event);
                pending
            };
            match pending {
                Some(Pending::Synced) => drop(self.synced.send_replace(true)),
                Some(Pending::Notice(notice)) => return Some(notice),
                None => self.wake.notified().await,
            }
        }
    }

    /// Takes the end of the initial list, if that is next and this is a subscription: a subscriber
    /// is synced when it has taken the last object of the list. A handler is synced later, when it
    /// has handled that object and asks for the next event.
    fn take_synced_mark(&self, backlog: &mut Backlog) {
        if !self.is_handler && backlog.pop_synced() {
            self.synced.send_replace(true);
        }
    }

    /// Waits until it has seen the initial state, or is closed. Returns whether it has.
    pub(crate) async fn wait_for_sync(&self) -> bool {
        let mut synced = self.synced.subscribe();
        let settled = synced.wait_for(|synced| *synced || self.is_closed()).await;
        settled.is_ok_and(|synced| *synced)
    }

    /// Closes the listener. Pending events are not delivered.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // If the handler is busy, it sees this when it next waits: `Notify` keeps the permit.
        self.wake.notify_one();
        self.synced.send_modify(|_| {});
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    pub(crate) fn status(&self) -> HandlerStatus {
        let state = lock(&self.state);
        HandlerStatus {
            name: self.name.to_string(),
            synced: self.has_synced(),
            pending: state.backlog.len(),
            busy: state.busy,
            delivered: state.delivered,
            merged: state.backlog.merged(),
            panics: state.panics,
        }
    }
}

/// Calls `handler` with its events until the listener is closed.
pub(crate) async fn run_handler<K, H>(listener: Arc<Listener>, lister: Lister<K>, mut handler: H)
where
    K: ObjectType,
    H: Handler<K>,
{
    while let Some(notice) = listener.next().await {
        let event = typed(notice, &lister);
        let key = event.key().clone();
        // After a panic the handler is responsible for its own state.
        if catch_unwind(AssertUnwindSafe(|| handler.handle(event))).is_err() {
            lock(&listener.state).panics += 1;
            let handler = &*listener.name;
            tracing::error!(handler, %key, "a handler panicked and has missed an event");
        }
        // A backlog that never ends must not block the thread.
        tokio::task::coop::consume_budget().await;
    }
}

/// Converts a notice to an event.
pub(crate) fn typed<K: ObjectType>(notice: Notice, lister: &Lister<K>) -> Event<K> {
    match notice {
        Notice::Added { object, initial } => {
            Event::Added { object: lister.handle(object), initial }
        }
        Notice::Updated { old, new, merged } => {
            Event::Updated { old: lister.handle(old), new: lister.handle(new), merged }
        }
        Notice::Deleted { object, state } => {
            Event::Deleted { object: lister.handle(object), state }
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("name", &self.name).finish_non_exhaustive()
    }
}
