//! Reconcile a type: a controller wires informers to a work queue that workers drain.

mod action;
mod builder;
mod cause;
mod context;
mod controller;
mod difference;
mod error;
mod finalizer;
mod journal;
mod owner;
mod predicate;
mod reconcile;
mod run_error;
mod watch;

pub use action::Action;
pub use builder::{BuildError, ControllerBuilder};
pub use cause::{Cause, Change};
pub use context::Context;
pub use controller::Controller;
pub use difference::difference;
pub use error::{Class, Error};
pub use finalizer::{Finalize, Finalized};
pub use journal::{KEYS_MAX, Outcome, RUNS_PER_KEY, Run};
pub use predicate::Predicate;
pub use reconcile::Reconcile;
pub use run_error::RunError;
pub use watch::Watch;
