//! Kubernetes events (`events.k8s.io/v1`), recorded in the background.
//!
//! Whoever records something only takes a short lock: `correlation.rs` decides what is to be written, and a task of
//! `writer.rs` writes it. The task is there while there is something to write, and no longer; so a recorder that is
//! not used costs nothing, and one that is dropped leaves nothing behind.
//!
//! Invariants: at most one writer at a time. Nobody waits for the server but the writer and [`Recorder::flush`].
//! Everything is bounded: what waits, what is remembered, tries, and their time.

mod clock;
mod correlation;
mod lru;
mod names;
mod occurrence;
mod spam;
mod warnings;
mod writer;

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use clock::WallClock;
use correlation::{Correlator, Source};
pub use occurrence::Occurrence;
use warnings::{Trouble, Warnings};

/// Records events about objects: for people who look at an object and wonder what became of it.
///
/// Recording never blocks and never fails. Events are best effort, as everywhere in Kubernetes:
///
/// - The same event (object, type, reason, action and note) again, within 6 minutes of the last, becomes a series: the
///   event is kept, and its count and time go up.
/// - An object may have 25 new events at once, and after that one in 5 minutes. Beyond that, new
///   events are dropped. Updates of series have the same limit, of their own; repeats beyond it are
///   counted by the next update.
/// - At most 1,000 events wait to be written, and 4,096 are remembered. Beyond that, new events are
///   dropped.
/// - The first event of an object that is dropped is mentioned in the log, with what to do;
///   [`RecorderStatus::dropped`] counts all.
/// - A server that does not answer or has trouble is tried 12 times. What it refuses is given up at once, with one
///   line in the log that says what to do about it.
///
/// Clones record to the same place. When the last is dropped, what still waits is tried once more, in the background.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::Recorder;
/// use kube::Resource as _;
///
/// # async fn example(client: kube::Client, object: ConfigMap) {
/// let recorder = Recorder::new(client, "config-controller");
/// recorder.normal(object.object_ref(&()), "Synced", "the object is as it should be");
/// recorder.flush().await;
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
    /// Tells the writer that nobody is left to record anything.
    _last: Arc<DropGuard>,
}

/// Settings of a [`Recorder`].
#[derive(Clone)]
#[must_use]
pub struct RecorderBuilder {
    client: Client,
    controller: Arc<str>,
    instance: Option<String>,
    clock: WallClock,
    seed: Option<u64>,
}

/// What a recorder has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStatus {
    /// What happened, as controllers told it. Each is merged, dropped, or an event of its own.
    pub recorded: u64,
    /// Of them, those that were added to the count of an event.
    pub merged: u64,
    /// Of them, those that nobody will hear of, because their object causes too many, or too many wait.
    pub dropped: u64,
    /// Writes that succeeded: events created, and series patched.
    pub written: u64,
    /// Writes that were given up.
    pub failed: u64,
    /// Writes that wait.
    pub queued: usize,
}

/// What handles and the writer share.
struct Shared {
    client: Client,
    controller: Arc<str>,
    clock: WallClock,
    /// What is to be written. Held for short synchronous scopes only.
    state: Mutex<State>,
    /// The ticket of the last write that is over.
    settled: watch::Sender<u64>,
    /// Cancelled with the last handle.
    is_left: CancellationToken,
    tracker: TaskTracker,
}

struct State {
    correlator: Correlator,
    has_writer: bool,
    /// For the jitter of retries.
    random: Rng,
    warnings: Warnings,
}

impl Recorder {
    /// A recorder for the controller of this name, with the defaults of [`Recorder::builder`].
    pub fn new(client: Client, controller: impl Into<Arc<str>>) -> Self {
        Self::builder(client, controller).build()
    }

    /// Settings for a recorder. The name of the controller is what events show as `reportingController`; a domain may
    /// stand before it, as in `example.com/foo-controller`.
    pub fn builder(client: Client, controller: impl Into<Arc<str>>) -> RecorderBuilder {
        RecorderBuilder {
            client,
            controller: controller.into(),
            instance: None,
            clock: WallClock::system(),
            seed: None,
        }
    }

    /// Something is as it should be. The reason is a word in `CamelCase`, the note a sentence for people.
    pub fn normal(
        &self,
        regarding: ObjectReference,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) {
        self.record(Occurrence::normal(regarding, reason, note));
    }

    /// Somebody should look at this.
    pub fn warning(
        &self,
        regarding: ObjectReference,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) {
        self.record(Occurrence::warning(regarding, reason, note));
    }

    /// Something happened: the long form of [`normal`](Self::normal) and [`warning`](Self::warning).
    ///
    /// Outside of a runtime nothing can be written; what is recorded there waits for the next call within one.
    pub fn record(&self, occurrence: Occurrence) {
        let wall = self.shared.clock.now();
        let dropped = {
            let mut state = self.shared.state();
            let dropped = state.correlator.observe(occurrence, Instant::now(), wall);
            dropped.map(|dropped| (Trouble::Excess(dropped.why), dropped.object))
        };
        if let Some((trouble, object)) = dropped {
            self.shared.warn(&trouble, &object);
        }
        self.shared.start_writer();
    }

    /// Waits until all that was recorded so far is written or given up. With a server that does not answer this can
    /// take minutes: put a timeout around it.
    ///
    /// # Cancel safety
    /// Dropping it half-way only ends the waiting.
    pub async fn flush(&self) {
        let mut settled = self.shared.settled.subscribe();
        let last = self.shared.state().correlator.last_ticket();
        while *settled.borrow_and_update() < last {
            // Nobody writes what was recorded outside of a runtime, or in one that has ended.
            self.shared.start_writer();
            // The sender is in what this handle holds, so it cannot have gone.
            let _ = settled.changed().await;
        }
    }

    /// What it has done so far.
    pub fn status(&self) -> RecorderStatus {
        self.shared.state().correlator.status()
    }
}

impl RecorderBuilder {
    /// Which of several processes this is: `reportingInstance`. Default: the variable `POD_NAME`, or else `HOSTNAME`,
    /// or else the name of the controller.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// The clock of the times in events. Default: the machine's.
    pub fn clock(mut self, clock: WallClock) -> Self {
        self.clock = clock;
        self
    }

    /// Where the ends of names and the jitter of retries are drawn from. Default: derived from the names of the
    /// controller and of the instance.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The recorder. It does nothing until something is recorded.
    pub fn build(self) -> Recorder {
        let controller = occurrence::controller(&self.controller);
        let instance = self.instance.unwrap_or_else(instance_from_environment);
        let instance = occurrence::instance(instance, &controller);
        let seed = self.seed.unwrap_or_else(|| seed_of(&controller, &instance));
        let state = State {
            correlator: Correlator::new(Source { controller, instance }, seed),
            has_writer: false,
            random: Rng::with_seed(seed),
            warnings: Warnings::default(),
        };
        let is_left = CancellationToken::new();
        let shared = Shared {
            client: self.client,
            controller: self.controller,
            clock: self.clock,
            state: Mutex::new(state),
            settled: watch::Sender::new(0),
            is_left: is_left.clone(),
            tracker: TaskTracker::new(),
        };
        Recorder { shared: Arc::new(shared), _last: Arc::new(is_left.drop_guard()) }
    }
}

impl Shared {
    /// Says what is wrong, unless that was said.
    fn warn(&self, trouble: &Trouble, about: &str) {
        if self.state().warnings.is_news(trouble, about) {
            trouble.warn(&self.controller, about);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the writer, if there is something to write and nobody does.
    fn start_writer(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        {
            let mut state = self.state();
            if state.has_writer || state.correlator.is_idle() {
                return;
            }
            state.has_writer = true;
        }
        let shared = Arc::clone(self);
        self.tracker.spawn_on(writer::run(shared), &runtime);
    }
}

fn instance_from_environment() -> String {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    name("POD_NAME").or_else(|| name("HOSTNAME")).unwrap_or_default()
}

/// Two instances draw differently; the same one draws the same again.
fn seed_of(controller: &str, instance: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (controller, instance).hash(&mut hasher);
    hasher.finish()
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("controller", &self.shared.controller)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RecorderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecorderBuilder")
            .field("controller", &self.controller)
            .field("instance", &self.instance)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
