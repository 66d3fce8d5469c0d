//! What informers show of themselves: status, counts, observers, metrics.

pub(crate) mod observer;
#[cfg(feature = "prometheus")]
pub(crate) mod prometheus;
pub(crate) mod status;
pub(crate) mod vitals;
