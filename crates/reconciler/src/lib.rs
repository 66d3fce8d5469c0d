//! Controllers for a type: informers fill a work queue, and workers reconcile its keys.
//!
//! ```
//! use std::sync::Arc;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use windlass_informer::SharedInformerFactory;
//! use windlass_reconciler::{
//!     Action, Controller, Error, Reconcile, RunContext, Watch, stop_on_signal,
//! };
//!
//! /// Writes the number of entries into an annotation of every ConfigMap.
//! struct Counter;
//!
//! impl Reconcile<ConfigMap> for Counter {
//!     async fn reconcile(
//!         &self,
//!         object: Arc<ConfigMap>,
//!         cx: &RunContext,
//!     ) -> Result<Action, Error> {
//!         let mut new = ConfigMap::clone(&object);
//!         let entries = object.data.as_ref().map_or(0, |data| data.len()).to_string();
//!         new.metadata.annotations.get_or_insert_default().insert("entries".into(), entries);
//!         cx.live().update(&*object, &new).await?; // sends the difference, if there is one
//!         Ok(Action::done())
//!     }
//! }
//!
//! async fn run(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
//!     let factory = SharedInformerFactory::new(client);
//!     let builder = Controller::named("configmap", Watch::<ConfigMap>::new()).workers(2);
//!     let controller = builder.build(&factory, Counter)?;
//!     controller.run(stop_on_signal()?).await?;
//!     Ok(())
//! }
//! ```
//!
//! # What a reconciler can rely on
//!
//! - It gets the object as it is now, not the change that caused the run. Many changes may be
//!   merged into one run, and a run may have no change at all: after a restart, a resync, a
//!   failure. So it looks at the current state, and makes what is missing.
//! - No two runs of a key overlap. Runs of different keys do, as many as there are
//!   [workers](ControllerBuilder::workers).
//! - Before the first run, the caches of all sources are complete.
//! - Its caches stand still: each is frozen when the run begins. So a list, a get, a look-up by
//!   index and the object that it was given agree, however long the run takes. The caches of two
//!   resources can differ by a moment, as their watches do.
//! - The caches show what the last run of the same key has written through [`RunContext::client`]
//!   or [`RunContext::live`], and what this run has written; see [below](#read-your-writes).
//! - The table of [`Reconcile`] says what follows a run.
//!
//! What runs share, such as clients of other services, are fields of the type that implements
//! [`Reconcile`].
//!
//! # Read your writes
//!
//! If a run creates an object, and the next run reads a cache that does not have it yet, it creates
//! another one. So a key whose last run has written waits until the caches of the controller show
//! what was written:
//!
//! - A write is shown when the cache has the version in the server's answer, or a later one.
//! - A deletion is shown when the object with that uid is not in the cache any more. The write that
//!   removes the last finalizer of an object that is being deleted is also a deletion, unless the
//!   grace period of a pod or the finalizers in the spec of a namespace still keep it.
//! - Writes that no cache of the controller selects, by resource, namespace, label or name, are not
//!   waited for.
//! - If a source has a field selector on anything but `metadata.name` and `metadata.namespace`, and
//!   its cache does not have the object, only the server knows whether it ever will. The key waits
//!   at most 100 ms after that run for such a source.
//! - For other sources the key waits for at most 5 seconds after the run that made the last write.
//!   Other keys run meanwhile.
//! - If the cluster is restored from a backup, earlier writes are forgotten as soon as the
//!   informers have noticed it.
//!
//! Then the run begins, and [`RunContext::cache_behind`] says whether a cache may still lack
//! something: because it is late, because only the server knows, or because the answer to a write
//! was lost. Deleting a collection is not tracked, and neither are writes through other clients.
//!
//! A run itself never waits: its caches are frozen, and what the run has written is laid over
//! them, from the answers to its writes; see [`CacheView`].
//!
//! # When something goes wrong
//!
//! `?` makes an [`Error`] of any error, also of `anyhow`'s. The [`Class`] of an error follows from
//! its causes, however it was wrapped: after a conflict the run starts again, an overloaded server
//! is left alone for as long as it asks for, and an object that does not decode is not retried
//! until it changes. Panics, and runs that exceed the [timeout](ControllerBuilder::timeout), if
//! there is one, are caught and retried. Every failure is one log line with the controller, the
//! key, what is wrong and what to do; [`ControllerBuilder::on_error`] is called with it. With
//! [`ControllerBuilder::max_attempts`], a key that fails again and again is given up until
//! something changes.
//!
//! A run that takes a minute is logged, and again each time that its duration has doubled. That
//! includes a run that blocks its thread, if the runtime has another one. On a `current_thread`
//! runtime nothing else can run then, so there is no warning.
//!
//! [`Controller::runs`] returns the last runs of a key: why each ran, what it wrote (the first and
//! the last writes, if there are more than [`WRITES_PER_RUN`]), which events it published, how it
//! ended, and when it is retried. [`Controller::run_count`] says how many there were.
//! [`Controller::status`] has counts, [`Controller::informers`] the state of the informers,
//! [`Controller::queue`] what every key waits for, and [`Controller::inactive`] the keys that do
//! not run: their object is [paused](ControllerBuilder::paused_by), their last run ended with a
//! [terminal](Error::terminal) error, or they were given up.
//! [`ControllerHandle::finished`] is a stream of runs as they end. A key that its own writes wake
//! again and again is logged with the write.
//!
//! # Reading order of the source
//!
//! - `controller`: what users build (`builder`), how events become keys (`wiring`), how it starts
//!   and stops (`main_loop`); `controller_core`: what its parts share.
//! - `sources`: what is watched, which events count, and which keys they lead to.
//! - `worker`: what happens to a key, from `catch_up` to `settle`.
//! - `run`: what one run is given: its `context`, its `frozen` caches, the client that is
//!   `recording` what it writes; `api`: the requests that helpers of a run send.
//! - `writes`: what was written, and which of it the caches do not show yet.
//! - `history`: the runs under way and those that have ended; `plan`, `recorder`, `objects`.
//!
//! # Coming from controller-runtime or kube-runtime
//!
//! `docs/coming-from.md` in the repository has everything that they export, with ours beside it.

#![forbid(unsafe_code)]

mod api;
mod cause;
mod controller;
mod controller_core;
mod error;
mod finalizer;
mod guard;
mod history;
mod objects;
mod plan;
mod reconcile;
mod reconcile_fn;
mod recorder;
mod run;
mod shutdown;
mod sources;
mod worker;
mod writes;

pub use api::apply_conflict::{ApplyConflict, FieldConflict};
pub use api::children::{Child, Children, ChildrenReport, DeletedChild};
pub use api::crd::{
    INSTALL_TIMEOUT, InstallError, Obstacle, install_crd, install_crd_within, plan_crd,
};
pub use api::event_about::EventAbout;
pub use api::live::apply::ApplyChange;
pub use api::live::{Live, WaitTimeout};
pub use api::write_options::{FieldValidation, Propagation, WriteOptions};
pub use cause::{Cause, Change};
pub use controller::Controller;
pub use controller::any_controller::AnyController;
pub use controller::builder::{BuildError, ControllerBuilder};
pub use controller::defaults::ControllerDefaults;
pub use controller::handle::{AddSourceError, ControllerHandle};
#[cfg(feature = "prometheus")]
pub use controller::metrics::ControllerMetrics;
pub use controller::run_error::RunError;
pub use controller::signal::stop_on_signal;
pub use controller::status::ControllerStatus;
pub use controller_core::OnWrite;
pub use error::{Class, Delay, Error, OwnerDeleted, StaleRead};
pub use finalizer::{Cleanup, Finalize, Finalized};
pub use history::counts::Counts;
pub use history::finished::{FailedRun, FinishedRuns};
pub use history::hot_loop::HotLoop;
pub use history::inactive::{InactiveKey, InactiveReason};
pub use history::journal::{
    EVENTS_PER_RUN, JOURNAL_BYTES, JournalStatus, KEYS_MAX, RUNS_PER_KEY, RecentRuns,
};
pub use history::run_record::{Outcome, Run, RunId};
pub use objects::any_object::{AnyObject, ObjectRef};
pub use objects::child_labels::{CONTROLLER_LABEL, children_selector};
pub use objects::conditions::{ConditionType, set_conditions};
#[cfg(feature = "schemars")]
pub use objects::conditions_schema::conditions_schema;
pub use objects::merge_patch::merge_patch;
pub use objects::ownership::{
    OwnershipError, add_owner, is_controlled_by, owner_reference, remove_owner, set_owner,
};
pub use plan::{
    DryRunIgnored, Effect, FieldChange, InPlan, Plan, PlanRecorder, PlannedRun, PlannedWrite,
};
pub use reconcile::{Action, Reconcile};
pub use reconcile_fn::{RunOnce, reconcile_fn};
pub use recorder::{Occurrence, RecordedEvents, Recorder, RecorderBuilder, RecorderStatus};
pub use run::cache_view::CacheView;
pub use run::context::RunContext;
pub use run::recording::WRITES_PER_RUN;
pub use run::sent_by::SentBy;
pub use run::span::SPAN_TARGET;
pub use shutdown::Shutdown;
pub use sources::mapping::status::MapperStatus;
pub use sources::pause::PAUSED_ANNOTATION;
pub use sources::predicate::{AnyEvent, Predicate};
pub use sources::source::SourceId;
pub use sources::watch::{OwnedBy, Watch};
/// What stops a controller: `Controller::run` takes one, and `Shutdown::token` returns one.
pub use tokio_util::sync::CancellationToken;
pub use windlass_indexer::ObjectType;
pub use windlass_informer::StaticResource;
pub use writes::authorship::WriteEffect;
pub use writes::write::{Verb, Write};
