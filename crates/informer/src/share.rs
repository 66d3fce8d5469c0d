//! One watch for many users: objects that arrive are judged, queued by the delta fifo, put into the
//! store, and sent to every handler at its own pace.

pub(crate) mod backlog;
pub(crate) mod cache;
pub(crate) mod delta_fifo;
pub(crate) mod dynamic;
pub(crate) mod engine;
pub(crate) mod event;
pub(crate) mod factory;
pub(crate) mod informer;
pub(crate) mod judge;
pub(crate) mod listener;
pub(crate) mod listing;
pub(crate) mod options;
pub(crate) mod registration;
pub(crate) mod registry;
