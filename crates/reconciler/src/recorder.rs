//! Kubernetes events (`events.k8s.io/v1`), recorded in the background.
//!
//! Recording only takes a short lock: `correlation.rs` decides what is written, and the task of
//! `writer.rs` writes it. The task exists only while there is something to write. So a recorder
//! that is not used costs nothing, and one that is dropped leaves nothing behind.
//!
//! Invariants: there is at most one writer at a time. Only the writer and [`Recorder::flush`] wait
//! for the server. Everything is bounded: the queue, what is remembered, tries, and their time.

mod correlation;
mod memory;
mod names;
mod occurrence;
mod spam;
mod warnings;
mod writer;

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use fastrand::Rng;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use correlation::Correlator;
pub use correlation::RecorderStatus;
pub use memory::RecordedEvents;
pub use occurrence::Occurrence;
use parking_lot::Mutex;
use warnings::Warnings;
use writer::{Shared, State};

/// Records events about objects, for people who want to know what happened to an object.
///
/// Recording never blocks and never fails. Events are best effort, as everywhere in Kubernetes:
///
/// - The same event (object, type, reason, action and note) again, within 6 minutes of the last,
///   becomes a series: the event is kept, and its count and time are updated.
/// - An object may have 25 new events at once, and after that one in 5 minutes. Beyond that, new
///   events are dropped. Updates of series have the same limit, of their own; repeats beyond it are
///   counted by the next update.
/// - At most 1,000 events wait to be written, and 4,096 are remembered. Beyond that, new events are
///   dropped.
/// - The first dropped event of an object is logged, with what to do; [`RecorderStatus::dropped`]
///   counts all.
/// - If the server does not answer or has trouble, an event is tried 12 times. What the server
///   refuses is given up at once, with one line in the log that says what to do about it.
///
/// Clones share a recorder. When the last one is dropped, what still waits is tried once more, in
/// the background.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{Occurrence, Recorder};
/// use kube::Resource as _;
///
/// # async fn example(client: kube::Client, object: ConfigMap) {
/// let recorder = Recorder::new(client, "config-controller");
/// recorder.record(Occurrence::normal(object.object_ref(&()), "Synced", "everything is in sync"));
/// recorder.flush().await;
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder {
    target: Target,
}

/// Where events go.
#[derive(Clone)]
enum Target {
    Server {
        shared: Arc<Shared>,
        /// Tells the writer when the last handle is dropped.
        _last: Arc<DropGuard>,
    },
    Memory(RecordedEvents),
}

/// Settings of a [`Recorder`].
#[derive(Clone)]
#[must_use]
pub struct RecorderBuilder {
    client: Client,
    controller: Arc<str>,
    instance: Option<String>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    seed: Option<u64>,
}

impl Recorder {
    /// A recorder for the controller of this name, with the defaults of [`Recorder::builder`].
    pub fn new(client: Client, controller: impl Into<Arc<str>>) -> Self {
        Self::builder(client, controller).build()
    }

    /// Settings for a recorder. Events show the name of the controller as `reportingController`; it
    /// may begin with a domain, as in `example.com/foo-controller`.
    pub fn builder(client: Client, controller: impl Into<Arc<str>>) -> RecorderBuilder {
        RecorderBuilder {
            client,
            controller: controller.into(),
            instance: None,
            clock: Arc::new(windlass_environment::now),
            seed: None,
        }
    }

    /// A recorder for tests, and what it has recorded. It writes nothing, merges nothing and drops
    /// nothing but the oldest of more than 10,000 events.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ObjectReference;
    /// use windlass_reconciler::{Occurrence, Recorder};
    ///
    /// let (recorder, events) = Recorder::in_memory();
    /// recorder.record(Occurrence::normal(ObjectReference::default(), "Synced", "all is well"));
    /// assert_eq!(events.all()[0].reason(), "Synced");
    /// ```
    pub fn in_memory() -> (Self, RecordedEvents) {
        let events = RecordedEvents::default();
        (Self { target: Target::Memory(events.clone()) }, events)
    }

    /// Records that something happened.
    ///
    /// Outside of a runtime nothing can be written. What is recorded there waits for the next call
    /// within a runtime.
    pub fn record(&self, occurrence: Occurrence) {
        let shared = match &self.target {
            Target::Server { shared, .. } => shared,
            Target::Memory(events) => return events.push(occurrence),
        };
        let wall = (shared.clock)();
        let observed = shared.state().correlator.observe(&occurrence, Instant::now(), wall);
        if let Err((loss, object)) = observed {
            shared.warn(&loss, &object);
        }
        shared.start_writer();
    }

    /// Waits until all that was recorded so far is written or given up. With a server that does not
    /// answer this can take minutes: put a timeout around it.
    ///
    /// # Cancel safety
    /// Dropping it half-way only ends the waiting.
    pub async fn flush(&self) {
        let Target::Server { shared, .. } = &self.target else { return };
        let mut settled = shared.settled.subscribe();
        let enqueued = shared.state().correlator.enqueued;
        while *settled.borrow_and_update() < enqueued {
            // There is no writer for what was recorded outside of a runtime, or in one that has
            // ended.
            shared.start_writer();
            // Cannot fail: this handle holds the sender.
            let _ = settled.changed().await;
        }
    }

    /// What it has done so far.
    pub fn status(&self) -> RecorderStatus {
        match &self.target {
            Target::Server { shared, .. } => shared.state().correlator.status(),
            Target::Memory(events) => events.status(),
        }
    }
}

impl RecorderBuilder {
    /// Which of several processes this is: `reportingInstance`. Default: the variable `POD_NAME`,
    /// or else `HOSTNAME`, or else the name of the controller.
    pub fn instance(self, instance: impl Into<String>) -> Self {
        Self { instance: Some(instance.into()), ..self }
    }

    /// The clock for the times in events. It must not panic. Default: the time of day.
    pub fn clock(self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// The seed for the names of events and the jitter of retries. Default: derived from the names
    /// of the controller and of the instance.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Builds the recorder. It does nothing until something is recorded.
    pub fn build(self) -> Recorder {
        let controller = names::controller_name(&self.controller);
        let instance = self.instance.unwrap_or_else(instance_from_environment);
        let instance = occurrence::word(instance, &controller);
        let seed = self.seed.unwrap_or_else(|| {
            let mut hasher = DefaultHasher::new();
            (&controller, &instance).hash(&mut hasher);
            hasher.finish()
        });
        let state = State {
            correlator: Correlator::new(controller, instance, seed),
            has_writer: false,
            random: Rng::with_seed(seed),
            warnings: Warnings::default(),
        };
        let no_handles = CancellationToken::new();
        let shared = Shared {
            client: self.client,
            controller: self.controller,
            clock: self.clock,
            state: Mutex::new(state),
            settled: watch::Sender::new(0),
            no_handles: no_handles.clone(),
            tracker: TaskTracker::new(),
        };
        let (shared, last) = (Arc::new(shared), Arc::new(no_handles.drop_guard()));
        Recorder { target: Target::Server { shared, _last: last } }
    }
}

/// The name of this process among its replicas; empty if the environment does not tell.
pub(crate) fn instance_from_environment() -> String {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    name("POD_NAME").or_else(|| name("HOSTNAME")).unwrap_or_default()
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let controller = match &self.target {
            Target::Server { shared, .. } => &*shared.controller,
            Target::Memory(_) => "in memory",
        };
        f.debug_struct("Recorder")
            .field("controller", &controller)
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
