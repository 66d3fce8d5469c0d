//! Runs under way and runs that have ended: their records, and all who read these: counts,
//! metrics, log lines, users.

pub(crate) mod finished;
pub(crate) mod hot_loop;
pub(crate) mod inactive;
pub(crate) mod journal;
#[cfg(feature = "prometheus")]
pub(crate) mod metrics;
pub(crate) mod origin;
pub(crate) mod report;
pub(crate) mod run_record;
pub(crate) mod span;
pub(crate) mod status;
pub(crate) mod watchdog;
