//! One handler's end of an informer: what waits for it, whether it is synced, and the task that feeds it.
//!
//! The cache pushes, the handler's task pops; between them is a [`Backlog`], so that neither waits for the
//! other. A listener knows no types; [`Subscription`] and [`drive`] give what comes out its type.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use windlass_indexer::Lister;

use crate::share::backlog::{Backlog, Notice};
use crate::share::engine::Engine;
use crate::share::event::{Event, Handler};
use crate::share::lock::lock;

/// What a handler asks for beside events.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HandlerOptions {
    pub(crate) name: Option<String>,
    pub(crate) resync: Option<Resync>,
}

/// How often a handler is shown everything again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resync {
    /// Never.
    Never,
    /// Each time after so long.
    Every(Duration),
}

/// The shortest time between two resyncs, as client-go has it: each walks over the whole cache.
const RESYNC_MIN: Duration = Duration::from_secs(1);

/// The untyped part of a handler.
pub(crate) struct Listener {
    name: Box<str>,
    /// Whether a task of its own takes the events, or somebody who may also never come.
    is_driven: bool,
    resync: Option<Duration>,
    backlog: Mutex<Backlog>,
    wake: Notify,
    closed: AtomicBool,
    synced: watch::Sender<bool>,
    delivered: AtomicU64,
    panics: AtomicU64,
}

/// A handler that was added to an informer. Dropping this changes nothing; the handler stays until it is
/// [removed](Self::remove) or the informer stops.
pub struct Registration {
    listener: Arc<Listener>,
    engine: Weak<Engine>,
}

/// Events to be awaited, for those who have to wait between them. Dropping it ends it.
///
/// What is not taken merges, as it does for a slow handler.
pub struct Subscription<K> {
    registration: Registration,
    lister: Lister<K>,
}

/// A handler, as a person wants to see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerStatus {
    /// Its name, or its type.
    pub name: String,
    /// Whether it has seen all that was there when it joined.
    pub synced: bool,
    /// Events that wait for it.
    pub pending: usize,
    /// Events that it was given.
    pub delivered: u64,
    /// Events that merged with others because it was slow.
    pub merged: u64,
    /// Events that it panicked on.
    pub panics: u64,
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

    /// Shows everything again each time after `period`, from the cache: the server is asked for nothing.
    /// Default: as the informer says.
    pub fn resync(mut self, resync: Resync) -> Self {
        self.resync = Some(resync);
        self
    }
}

impl Listener {
    pub(crate) fn new(
        name: String,
        is_driven: bool,
        resync: Option<Duration>,
        merge_above: usize,
    ) -> Self {
        Self {
            name: name.into(),
            is_driven,
            resync: resync.filter(|period| !period.is_zero()).map(|period| period.max(RESYNC_MIN)),
            backlog: Mutex::new(Backlog::new(merge_above)),
            wake: Notify::new(),
            closed: AtomicBool::new(false),
            synced: watch::Sender::new(false),
            delivered: AtomicU64::new(0),
            panics: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_driven(&self) -> bool {
        self.is_driven
    }

    pub(crate) fn has_resync(&self) -> bool {
        self.resync.is_some()
    }

    /// When it is to be shown everything again; `None` for never, or for later than any clock.
    pub(crate) fn resync_after(&self, now: Instant) -> Option<Instant> {
        self.resync.and_then(|period| now.checked_add(period))
    }

    /// Hands over notices, in order, and wakes the handler.
    pub(crate) fn push(&self, notices: impl Iterator<Item = Notice>) {
        let mut backlog = lock(&self.backlog);
        let was_empty = backlog.is_empty();
        for notice in notices {
            backlog.push(notice);
        }
        self.pass_mark(&mut backlog);
        let has_news = was_empty && !backlog.is_empty();
        drop(backlog);
        // Who has something left to take does not sleep.
        if has_news {
            self.wake.notify_one();
        }
    }

    /// The next notice; `None` when the handler was removed or the informer has stopped. Cancel safe.
    pub(crate) async fn next(&self) -> Option<Notice> {
        loop {
            if self.is_closed() {
                return None;
            }
            let notice = {
                let mut backlog = lock(&self.backlog);
                let notice = backlog.pop();
                self.pass_mark(&mut backlog);
                notice
            };
            match notice {
                Some(Notice::Synced) => drop(self.synced.send_replace(true)),
                Some(notice) => {
                    self.delivered.fetch_add(1, Ordering::Relaxed);
                    return Some(notice);
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Who takes events by himself has seen all of the initial list when he has taken the last of it. For a handler
    /// that is so when it comes back for more.
    fn pass_mark(&self, backlog: &mut Backlog) {
        if !self.is_driven && backlog.pop_synced() {
            self.synced.send_replace(true);
        }
    }

    /// Waits until it has seen everything that was there when it joined, or is closed. Returns which.
    pub(crate) async fn wait_for_sync(&self) -> bool {
        let mut synced = self.synced.subscribe();
        let settled = synced.wait_for(|synced| *synced || self.is_closed()).await;
        settled.is_ok_and(|synced| *synced)
    }

    /// Ends it: what is pending is dropped.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // A permit stays for a handler that is busy now.
        self.wake.notify_one();
        self.synced.send_modify(|_| {});
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn status(&self) -> HandlerStatus {
        let backlog = lock(&self.backlog);
        HandlerStatus {
            name: self.name.to_string(),
            synced: *self.synced.borrow(),
            pending: backlog.len(),
            delivered: self.delivered.load(Ordering::Relaxed),
            merged: backlog.merged(),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }
}

/// Gives `handler` its events until the listener is closed.
pub(crate) async fn drive<K, H>(listener: Arc<Listener>, lister: Lister<K>, mut handler: H)
where
    K: DeserializeOwned + Send + Sync + 'static,
    H: Handler<K>,
{
    while let Some(notice) = listener.next().await {
        let Some(event) = typed(notice, &lister) else { continue };
        let key = event.key().clone();
        // The handler's state after a panic is the handler's affair, as with any retained `&mut`.
        if catch_unwind(AssertUnwindSafe(|| handler.handle(event))).is_err() {
            listener.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(handler = &*listener.name, %key, "a handler panicked and has missed an event");
        }
        // A backlog that never ends must not keep the thread from others.
        tokio::task::coop::consume_budget().await;
    }
}

/// A notice as an event of one type; `None` for the marks among them.
fn typed<K>(notice: Notice, lister: &Lister<K>) -> Option<Event<K>>
where
    K: DeserializeOwned + Send + Sync + 'static,
{
    Some(match notice {
        Notice::Added { object, initial } => {
            Event::Added { object: lister.handle(object), initial }
        }
        Notice::Updated { old, new } => {
            Event::Updated { old: lister.handle(old), new: lister.handle(new) }
        }
        Notice::Deleted { object, state } => {
            Event::Deleted { object: lister.handle(object), state }
        }
        Notice::Synced => return None,
    })
}

impl Registration {
    pub(crate) fn new(listener: Arc<Listener>, engine: &Arc<Engine>) -> Self {
        Self { listener, engine: Arc::downgrade(engine) }
    }

    /// Whether the handler was given everything that was there when it joined.
    pub fn has_synced(&self) -> bool {
        *self.listener.synced.borrow()
    }

    /// Waits until [`has_synced`](Self::has_synced). Returns whether it is; it will not be if the handler is
    /// removed or the informer stops before. Cancel safe.
    pub async fn wait_for_sync(&self) -> bool {
        self.listener.wait_for_sync().await
    }

    /// Takes the handler away. It finishes the event that it is at, if it is at one, and gets no other.
    pub fn remove(&self) {
        self.leave();
    }

    /// What the handler is at.
    pub fn status(&self) -> HandlerStatus {
        self.listener.status()
    }

    fn leave(&self) {
        self.listener.close();
        if let Some(engine) = self.engine.upgrade() {
            engine.forget(&self.listener);
        }
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Subscription<K> {
    pub(crate) fn new(registration: Registration, lister: Lister<K>) -> Self {
        Self { registration, lister }
    }

    /// The next event; `None` when the informer has stopped. Cancel safe.
    pub async fn next(&mut self) -> Option<Event<K>> {
        typed(self.registration.listener.next().await?, &self.lister)
    }

    /// Whether everything was taken that was there in the beginning.
    pub fn has_synced(&self) -> bool {
        self.registration.has_synced()
    }

    /// Waits until the cache is complete, if nothing of it is left to take. Whoever takes events looks at
    /// [`has_synced`](Self::has_synced) between them. Cancel safe.
    pub async fn wait_for_sync(&self) -> bool {
        self.registration.wait_for_sync().await
    }

    /// What is pending.
    pub fn status(&self) -> HandlerStatus {
        self.registration.status()
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.registration.leave();
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.listener.name).finish()
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.registration.listener.name).finish()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("name", &self.name).finish_non_exhaustive()
    }
}
