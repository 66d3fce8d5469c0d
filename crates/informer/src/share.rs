//! One list and watch for many users: the tasks of an informer, and what users hold.

pub(crate) mod dynamic;
pub(crate) mod engine;
pub(crate) mod factory;
pub(crate) mod feed;
pub(crate) mod informer;
pub(crate) mod informer_cache;
pub(crate) mod options;
pub(crate) mod overlay;
pub(crate) mod position;
pub(crate) mod registration;
pub(crate) mod registry;
pub(crate) mod server_check;
