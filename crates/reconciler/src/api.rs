//! Requests of a run: single objects, the children of an owner as a set, events, and CRDs.
//!
//! They extend [`RunContext`](crate::RunContext): `live` and `live_of`, `children`,
//! `confirm`, `event`.

pub(crate) mod apply_conflict;
pub(crate) mod children;
pub(crate) mod confirm;
pub(crate) mod crd;
pub(crate) mod event_about;
pub(crate) mod live;
pub(crate) mod write_options;
