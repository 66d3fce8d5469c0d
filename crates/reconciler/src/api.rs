//! Objects at the server: single ones, the children of an owner as a set, and CRDs.

pub(crate) mod applied;
pub(crate) mod apply_conflict;
pub(crate) mod children;
pub(crate) mod conditions;
pub(crate) mod crd;
pub(crate) mod live;
pub(crate) mod merge_patch;
pub(crate) mod objects;
pub(crate) mod ownership;
pub(crate) mod write_options;
