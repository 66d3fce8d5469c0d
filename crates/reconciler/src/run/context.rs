//! What a run is given besides its object.
//!
//! The methods that send requests are beside what they return: `live` and `live_of` in
//! `api/live.rs`, `children` in `api/children.rs`, `event` in `api/event_about.rs`; those that read
//! caches are in `cache_view.rs`.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kube::Client;
use kube::core::GroupVersionKind;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_indexer::{Object, ObjectKey};
use windlass_informer::{Resource, Written};

use crate::api::children::kinds::is_same;
use crate::cause::Cause;
use crate::controller_core::ControllerCore;
use crate::history::journal::EVENTS_PER_RUN;
use crate::history::origin::SpanOrigin;
use crate::history::run_record::RunId;
use crate::objects::any_object::AnyObject;
use crate::objects::ownership::{Owner, OwnershipError};
use crate::plan::PlanRecorder;
use crate::recorder::Occurrence;
use crate::run::frozen::FrozenCaches;
use crate::run::recording::{KeptWrites, WriteLog, recording};
use crate::shutdown::Shutdown;
use crate::writes::write::TrackedWrite;

/// One run: its key, its causes, its attempt number and its deadline; and what it reads and writes
/// with.
///
/// There are two ways to read. [`get`](Self::get), [`list`](Self::list), [`owned`](Self::owned) and
/// [`cache`](Self::cache) read the caches of the controller, which costs no request.
/// [`live`](Self::live) asks the server. The caches are as they were when the run began, and show
/// what this run has written since then, and what the last run of this key has written, unless they
/// are [behind](Self::cache_behind).
pub struct RunContext {
    pub(crate) core: Arc<ControllerCore>,
    pub(crate) id: RunId,
    pub(crate) key: ObjectKey,
    pub(crate) started: Instant,
    pub(crate) causes: Vec<Cause>,
    pub(crate) causes_omitted: u64,
    pub(crate) attempt: u32,
    /// Whether a cache may not show what earlier runs of the key have written.
    pub(crate) is_behind: bool,
    pub(crate) shutdown: Shutdown,
    /// What the run would write; `None` if it really writes.
    pub(crate) plan: Option<PlanRecorder>,
    /// Set once the run has a span.
    pub(crate) origin: SpanOrigin,
    /// A client, and the log of what is written through it. Created on first use, because most runs
    /// write nothing.
    pub(crate) recording: OnceLock<(Client, WriteLog)>,
    pub(crate) caches: FrozenCaches,
    /// The reconciled object when the run began.
    pub(crate) object: Option<Arc<Object>>,
    /// Whether it was paused.
    pub(crate) is_paused: bool,
    /// The first events that the run has published.
    pub(crate) events: Mutex<Vec<Occurrence>>,
}

impl RunContext {
    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.core.controller
    }

    /// A client. The next run of this key sees what this run writes through it.
    pub fn client(&self) -> &Client {
        let create = || {
            let log = WriteLog::new(self.key.clone(), self.origin.clone(), &self.core);
            let client = recording(self.core.client.clone(), log.clone());
            // The plan is outside, so that what is recorded below is known to be a dry run.
            let client = match &self.plan {
                Some(plan) => plan.client(client),
                None => client,
            };
            (client, log)
        };
        &self.recording.get_or_init(create).0
    }

    /// The resource that the controller reconciles.
    pub fn resource(&self) -> &Resource {
        &self.core.primary
    }

    /// The kind of an object. The reconciled object need not say its kind.
    pub(crate) fn kind_of<O: AnyObject>(&self, object: &O) -> Option<GroupVersionKind> {
        let reconciled = self.object.as_ref().map(|object| object.head().uid().to_string());
        let uid = object.meta().uid.as_ref();
        let is_reconciled = uid.is_some() && uid == reconciled.as_ref();
        let primary = self.resource();
        let primary = || GroupVersionKind::gvk(primary.group(), primary.version(), primary.kind());
        object.object_kind().or_else(|| is_reconciled.then(primary))
    }

    /// An object as an owner of others.
    pub(crate) fn owner<O: AnyObject>(&self, owner: &O) -> Result<Owner, OwnershipError> {
        Owner::new(self.kind_of(owner).as_ref(), owner.meta())
    }

    /// Whether a cache of a resource may not show what this run, or an earlier one, has written.
    pub(crate) fn may_lack_own_writes(&self, resource: &Resource) -> bool {
        let has_unseen = |(_, log): &(_, WriteLog)| log.has_unseen_write_of(&self.core, resource);
        self.is_cache_behind(resource) || self.recording.get().is_some_and(has_unseen)
    }

    /// As [`cache_behind`](Self::cache_behind), but after a failover only for a cache of this
    /// resource, in any version. One that cannot be checked leaves the others in use.
    pub(crate) fn is_cache_behind(&self, resource: &Resource) -> bool {
        self.is_behind || self.caches.is_catching_up(|cached| is_same(cached, resource))
    }

    /// The version that this run has made of an object that it saw at `version`, in one or more
    /// writes that named the version before; `version` itself if there is none. Nobody else wrote
    /// in between.
    pub(crate) fn own_version(&self, uid: &str, version: &str) -> String {
        let own = self.recording.get().and_then(|(_, log)| log.own_version(uid, version));
        own.unwrap_or_else(|| version.to_owned())
    }

    /// Makes the next run wait until the caches show what the server has.
    pub(crate) fn expect_to_see(&self, resource: &Resource, read: Written) {
        if let Some((_, log)) = self.recording.get() {
            log.expect_to_see(TrackedWrite::of_read(resource, read));
        }
    }

    /// Ends the log of writes, and stores for the next run of the key what the caches may not show
    /// yet. Returns the writes for the journal.
    pub(crate) fn close_write_log(&self) -> KeptWrites {
        let Some((_, log)) = self.recording.get() else { return KeptWrites::default() };
        let (kept, pending) = log.close();
        // No cache will ever show what a plan did not store.
        if self.plan.is_none() {
            self.core.expect_writes(&self.key, pending);
        }
        kept
    }

    /// Keeps an event for the journal.
    pub(crate) fn note_event(&self, occurrence: &Occurrence) {
        let mut events = self.events.lock();
        if events.len() < EVENTS_PER_RUN {
            events.push(occurrence.without_annotations());
        }
    }

    /// The id of this run. By default every line that is logged during the run has it, as
    /// `reconcile_id`, and so has [its entry](crate::Run::id) in the journal.
    pub fn run_id(&self) -> RunId {
        self.id
    }

    /// The key that runs.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Why it runs: the oldest and the newest causes.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// How many causes between them were left out.
    pub fn causes_omitted(&self) -> u64 {
        self.causes_omitted
    }

    /// Which attempt this is since the last success: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When the run is cancelled: because it has a timeout, or because the controller is stopping
    /// and gives its runs a grace period.
    pub fn deadline(&self) -> Option<Instant> {
        let timeout = self.core.timeout.and_then(|timeout| self.started.checked_add(timeout));
        timeout.into_iter().chain(self.shutdown.deadline()).min()
    }

    /// Whether the controller is stopping. A run that takes long should end early then:
    /// [`Shutdown::token`] can be awaited beside whatever takes long.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Whether this run only shows what it would do: nothing that it writes through its context is
    /// stored, and its events are not published. A reconciler that changes something elsewhere
    /// leaves that out then. See [`Controller::plan`](crate::Controller::plan).
    pub fn is_plan(&self) -> bool {
        self.plan.is_some()
    }

    /// Whether a cache may not show yet what the last run of this key has written, although the
    /// controller waited for it. Then read [live](Self::live) before you create something that may
    /// exist already.
    ///
    /// It is `true` in every run until the cache has caught up. What cannot be known is reported in
    /// one run only: whether a write was made whose answer was lost, and whether a source will ever
    /// show an object that it selects by a field other than its name.
    ///
    /// It is also `true` after a failover, while a cache may not show what the last leader has
    /// written: see [`take_over`](crate::Controller::take_over).
    pub fn cache_behind(&self) -> bool {
        self.is_behind || self.caches.is_catching_up(|_| true)
    }
}

impl Drop for RunContext {
    /// If the run was cancelled, its writes are noted here. Otherwise `settle` has closed the log,
    /// and nothing is left.
    fn drop(&mut self) {
        self.close_write_log();
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("controller", &self.controller())
            .field("id", &self.id)
            .field("key", &self.key)
            .field("causes", &self.causes)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
