//! Reconcile a type: a controller wires informers to a work queue that workers drain.

mod action;
mod builder;
mod cause;
mod conditions;
mod context;
mod controller;
mod definition;
mod difference;
mod error;
mod finalizer;
mod journal;
mod live;
mod owner;
mod ownership;
mod predicate;
mod reconcile;
mod recorder;
mod recording;
mod report;
mod run_error;
mod source;
mod tally;
mod target;
mod unseen;
mod watch;
mod wiring;
mod worker;
mod write;

pub use action::Action;
pub use builder::{BuildError, ControllerBuilder};
pub use cause::{Cause, Change};
pub use conditions::{
    condition, find_condition, is_condition_true, remove_condition, set_condition, set_condition_at,
};
pub use context::Context;
pub use controller::{Controller, ControllerStatus};
pub use definition::{
    INSTALL_TIMEOUT, InstallError, Obstacle, install_definition, install_definition_within,
};
pub use difference::difference;
pub use error::{Class, Error};
pub use finalizer::{Finalize, Finalized};
pub use journal::{KEYS_MAX, Outcome, RUNS_PER_KEY, Run};
pub use live::{Incomplete, Live};
pub use ownership::{OwnershipError, is_controlled_by, owner_reference, set_owner};
pub use predicate::Predicate;
pub use reconcile::Reconcile;
pub use recorder::{Occurrence, Recorder, RecorderBuilder, RecorderStatus, WallClock};
pub use run_error::RunError;
pub use source::SourceId;
pub use tally::Counts;
pub use watch::Watch;
pub use write::{Verb, Write};
