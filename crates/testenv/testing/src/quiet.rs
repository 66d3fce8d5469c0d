//! When a controller is quiet: nothing is left to do, and its caches are up to date.
//!
//! The checks are made in this order, and restart from the first if one fails:
//!
//! 1. No key of any queue is ready, runs, or is due at once.
//! 2. Every recorded event is written.
//! 3. Every cache shows what the server has *after* 1, and every handler has processed it.
//! 4. Step 1 still holds, and no run has ended since.
//!
//! So no run can have begun in between, and every earlier write, of the test or of the controllers,
//! has been processed.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use windlass::prelude::ObjectKey;
use windlass::reconciler::{AnyController, Cause, Counts};
use windlass::workqueue::KeyStatus;

use crate::caches::first_stale_cache;
use crate::clock::{Clock, poll};
use crate::part::Runnable;
use crate::report::{causes, fail, short, state};
use crate::test_cluster::TestCluster;

/// A key that is due within this time counts as due at once: first retries, keys that wait for late
/// caches, and pods that the made-up nodes of `windlass-workloads` start.
pub const DUE_SOON: Duration = Duration::from_millis(200);

/// How long an event may take to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Defines what "quiet" means for waiting keys.
///
/// By default a controller is quiet if no key is ready, running, or due within [`DUE_SOON`], and no
/// key waits for a retry. A key that waits longer for its timer (`Action::requeue_after`) does not
/// count: with such timers, a controller would never be quiet.
///
/// ```
/// use std::time::Duration;
/// use windlass_testing::Quiet;
///
/// // Also runs the timers that are due within a minute, and does not wait for keys that fail.
/// let quiet = Quiet::new().timers_within(Duration::from_secs(60)).ignore_retries();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Quiet {
    timers_within: Duration,
    ignores_retries: bool,
}

impl Quiet {
    /// Returns the default: timers do not count, retries do.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also waits for keys with a timer that is due within this time. A controller that requeues
    /// more often than that is never quiet.
    pub fn timers_within(self, time: Duration) -> Self {
        Self { timers_within: time, ..self }
    }

    /// Ignores keys that wait for a retry: for tests in which something fails. Retries that are due
    /// within [`DUE_SOON`] are still waited for.
    pub fn ignore_retries(self) -> Self {
        Self { ignores_retries: true, ..self }
    }

    /// Returns a description of a key that must be waited for; `None` if the key is quiet.
    fn obstacle(&self, status: &KeyStatus<ObjectKey, Cause>, now: Instant) -> Option<String> {
        let key = &status.key;
        if status.running.is_some() {
            return Some(format!("{key} runs"));
        }
        let next_run = status.next_run.as_ref()?;
        let Some(due) = next_run.due else { return Some(format!("{key} is ready")) };
        let wait = due.saturating_duration_since(now);
        let is_timer = next_run.causes.iter().all(|cause| *cause == Cause::Timer);
        if status.failures > 0 {
            let counts = !self.ignores_retries || wait <= DUE_SOON;
            return counts.then(|| format!("{key} waits {} for a retry", short(wait)));
        }
        // A key that does not wait for a timer waits for a cache, or for a retry after a conflict.
        let counts = wait <= self.timers_within.max(DUE_SOON) || !is_timer && !self.ignores_retries;
        counts.then(|| format!("{key} is due in {}", short(wait)))
    }
}

/// Waits until all of `runnables` are quiet.
pub(crate) async fn wait_until(
    cluster: &TestCluster,
    runnables: &[Arc<Runnable>],
    quiet: &Quiet,
    at: &Location<'_>,
) {
    let (limit, mut last) = (cluster.limit(), String::new());
    let waited = poll(limit, async || {
        if let Some(failure) = runnables.iter().find_map(|part| part.failure()) {
            return Some(Err(failure));
        }
        match obstacle(cluster, runnables, quiet).await {
            None => Some(Ok(())),
            Some(obstacle) => {
                last = obstacle;
                None
            }
        }
    });
    match waited.await {
        Some(Ok(())) => {}
        Some(Err(failure)) => fail(at, &failure),
        None => fail(
            at,
            &format!(
                "not quiet after {} on {}: {last}\n\n{}",
                short(limit),
                Clock::current().name(),
                state(runnables)
            ),
        ),
    }
}

/// Returns why `runnables` are not quiet; `None` if they are.
async fn obstacle(
    cluster: &TestCluster,
    runnables: &[Arc<Runnable>],
    quiet: &Quiet,
) -> Option<String> {
    if let Some(obstacle) = runnables.iter().find_map(|part| part.obstacle()) {
        return Some(obstacle);
    }
    let controllers: Vec<_> = runnables
        .iter()
        .filter(|part| !part.has_ended())
        .flat_map(|part| part.controllers())
        .collect();
    let before = counts(&controllers);
    if let Some(busy) = busy(&controllers, quiet) {
        return Some(busy);
    }
    for controller in &controllers {
        if timeout(FLUSH_TIMEOUT, controller.recorder().flush()).await.is_err() {
            return Some(format!("events of {} are not written", controller.name()));
        }
    }
    match first_stale_cache(&cluster.client(), &controllers).await {
        Ok(None) => {}
        Ok(first_stale_cache) => return first_stale_cache,
        Err(error) => return Some(format!("the server does not answer: {}", causes(&error))),
    }
    let busy = pending(&controllers, quiet).or_else(|| busy(&controllers, quiet));
    let has_run = || counts(&controllers) != before;
    busy.or_else(|| has_run().then(|| "a run has just ended".to_owned()))
}

/// Returns a description of the first key that must be waited for.
fn busy(controllers: &[Arc<dyn AnyController>], quiet: &Quiet) -> Option<String> {
    controllers.iter().find_map(|controller| {
        let snapshot = controller.queue().snapshot();
        snapshot.keys.iter().find_map(|status| quiet.obstacle(status, snapshot.taken))
    })
}

/// Returns a handler that has not processed all events of its cache, or a mapper that has not
/// mapped them.
fn pending(controllers: &[Arc<dyn AnyController>], quiet: &Quiet) -> Option<String> {
    let sources = controllers.iter().flat_map(|controller| controller.informers());
    let handlers = sources.flat_map(|source| {
        let resource = source.resource;
        source.handlers.into_iter().map(move |handler| (resource.clone(), handler))
    });
    let mut handlers = handlers.filter(|(_, handler)| handler.pending > 0 || handler.busy);
    let pending_handler = handlers.next();
    let mapped = || {
        controllers.iter().find_map(|controller| {
            let mappers = controller.status().mappers;
            let counts = mappers.mapping > 0 || mappers.waiting > 0 && !quiet.ignores_retries;
            counts.then(|| format!("events wait for a mapper of {}", controller.name()))
        })
    };
    // In this order: an event that is no longer pending then already counts as being mapped.
    pending_handler
        .map(|(resource, _)| format!("events of {resource} are on their way"))
        .or_else(mapped)
}

fn counts(controllers: &[Arc<dyn AnyController>]) -> Vec<Counts> {
    controllers.iter().map(|controller| controller.status().counts).collect()
}
