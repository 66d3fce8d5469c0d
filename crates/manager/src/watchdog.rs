//! Notices a process that cannot end by itself, because every thread of its runtime is blocked.
//!
//! A run that blocks its thread blocks a whole runtime of one thread, which is what a pod with one
//! CPU has. Then no timer fires: no grace period ends, and nobody notices that the leadership is
//! lost. So this runs on the thread of the signals, which has a runtime of its own.
//!
//! It counts checks and does not compare times: a process that was suspended then has its full time
//! to notice.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::state::{Phase, State};

/// How often it checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// How many checks in a row may find an expired fence. With the default timing, the Lease expires
/// then.
const UNNOTICED_MAX: u64 = 5;

/// How many checks in a row may find a process that is stopping, after its grace period, and after
/// webhooks are no longer called. Longer than cancelled tasks, informers, the Lease and HTTP may
/// take together.
const STOPPING_MAX: u64 = 60;

/// Waits until the process should have ended, or should have noticed that it no longer leads.
/// Returns what is overdue. `grace` is how long it may go on after `stop`.
pub(crate) async fn wait_until_overdue(
    state: Arc<State>,
    stop: CancellationToken,
    grace: Duration,
) -> &'static str {
    let stopping_max = STOPPING_MAX.saturating_add(grace.as_secs());
    let (mut unnoticed, mut stopping) = (0, 0);
    loop {
        sleep(CHECK_EVERY).await;
        let is_unnoticed = state.election().is_some_and(|election| election.fence.has_expired());
        unnoticed = if is_unnoticed { unnoticed + 1 } else { 0 };
        if unnoticed > UNNOTICED_MAX {
            return "it has not noticed that its leadership is over";
        }
        // A runtime that is blocked does not set the phase.
        let is_stopping = stop.is_cancelled() || state.phase() == Phase::Stopping;
        stopping = if is_stopping { stopping + 1 } else { 0 };
        if stopping > stopping_max {
            return "it has not stopped long after its grace period";
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn process_that_is_not_asked_to_stop_is_never_overdue() {
        let state = Arc::new(State::new());
        state.set_phase(Phase::Running);
        let overdue = wait_until_overdue(state, CancellationToken::new(), GRACE);
        let ended = tokio::time::timeout(Duration::from_hours(1), overdue).await;
        ended.expect_err("it is not overdue");
    }

    #[tokio::test(start_paused = true)]
    async fn process_that_stops_is_overdue_a_minute_after_its_grace_period() {
        for is_signal in [true, false] {
            let (state, stop) = (Arc::new(State::new()), CancellationToken::new());
            if is_signal {
                stop.cancel();
            } else {
                state.set_phase(Phase::Stopping);
            }
            let mut overdue = Box::pin(wait_until_overdue(state, stop, GRACE));
            let early = tokio::time::timeout(Duration::from_secs(90), &mut overdue).await;
            early.expect_err("it is within its time");
            sleep(CHECK_EVERY).await;
            assert!(overdue.now_or_never().is_some());
        }
    }
}
