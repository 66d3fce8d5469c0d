//! Tests of the queue through the public interface. One program, because linking takes long.

mod common;
mod model;
mod queue_backoff;
mod queue_cancel;
mod queue_cancel_safety;
mod queue_causes;
mod queue_dedup;
mod queue_delay;
mod queue_drop;
mod queue_fairness;
mod queue_idle;
mod queue_lease;
mod queue_limits;
mod queue_misuse;
mod queue_model;
mod queue_observer;
mod queue_priority;
mod queue_prometheus;
mod queue_regressions;
mod queue_shutdown;
mod queue_snapshot;
mod queue_stress;
mod queue_workers;
