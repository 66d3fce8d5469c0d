//! The runs under way, and the record of those that have ended.

pub(crate) mod counts;
pub(crate) mod finished;
pub(crate) mod hot_loop;
pub(crate) mod inactive;
pub(crate) mod journal;
pub(crate) mod origin;
pub(crate) mod run_record;
pub(crate) mod size;
pub(crate) mod watchdog;
