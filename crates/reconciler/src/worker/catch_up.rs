//! Read your writes: before a key runs, the caches catch up with what its earlier runs have
//! written.
//!
//! At first the worker itself waits, because most caches catch up soon. Then the key is deferred,
//! so that a late watch does not keep other keys waiting. A cache that may never show a write,
//! because only the server can evaluate its field selector, is waited for only as long as the
//! worker waits.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use windlass_indexer::ObjectKey;

use crate::controller_core::ControllerCore;
use crate::writes::expectations::PendingWrites;

/// After a run that wrote, its key waits at most this long for the caches.
const CACHE_WAIT: Duration = Duration::from_secs(5);

/// The worker itself waits for the first part of [`CACHE_WAIT`].
const WORKER_WAIT: Duration = Duration::from_millis(100);

/// After that, how often to look whether the caches have caught up.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Whether a key may run.
pub(crate) enum CatchUp {
    /// It may. `is_behind` says whether a cache is or may be behind nevertheless.
    Run { is_behind: bool },
    /// Some caches are late.
    CheckAgainAfter(Duration),
}

impl ControllerCore {
    /// Waits for the caches to show what earlier runs of a key have written, while a worker holds
    /// the key.
    ///
    /// Cancel safe: the writes stay noted while it waits.
    pub(crate) async fn catch_up(&self, key: &ObjectKey) -> CatchUp {
        if let Some(pending) = self.expectations.pending(key) {
            self.wait_for_caches(&pending).await;
        }
        match self.expectations.take(key) {
            Some(pending) => self.decide(key, pending, Instant::now()),
            None => CatchUp::Run { is_behind: false },
        }
    }

    /// Waits until the caches show these writes, but no longer than a worker waits.
    async fn wait_for_caches(&self, pending: &PendingWrites) {
        let caught_up = async {
            // Check the writes in order: a deletion counts as shown while the cache lacks the
            // object, which is also so before its creation has arrived.
            for tracked in &pending.writes {
                for behind in self.sources.behind(tracked) {
                    if behind.surely_selects(&tracked.written) {
                        let (written, answered) = (&tracked.written, tracked.write.answered);
                        behind.wait_until_caught_up(written, answered).await;
                    }
                }
            }
        };
        let _ = timeout_at(pending.since + WORKER_WAIT, caught_up).await;
    }

    /// Whether the key may run now, and keeps what a later run has to wait for.
    fn decide(&self, key: &ObjectKey, mut pending: PendingWrites, now: Instant) -> CatchUp {
        if pending.writes.iter().all(|tracked| self.is_seen(tracked)) {
            return CatchUp::Run { is_behind: pending.reports_behind };
        }
        let worker_deadline = pending.since + WORKER_WAIT;
        if now < worker_deadline {
            // Only caches that may never show the object are missing. Free the worker, and look
            // again at the deadline.
            self.expectations.put_back(key, pending);
            return CatchUp::CheckAgainAfter(worker_deadline - now);
        }
        self.give_up_uncertain(&mut pending, now);
        pending.forget_seen(|tracked| self.is_seen(tracked));
        let is_late = !pending.writes.is_empty();
        if is_late && now < pending.since + CACHE_WAIT {
            self.expectations.put_back(key, pending);
            return CatchUp::CheckAgainAfter(CHECK_EVERY);
        }
        // A write whose response was lost is reported to one run only.
        let reports_behind = std::mem::take(&mut pending.reports_behind);
        self.expectations.put_back(key, pending);
        CatchUp::Run { is_behind: reports_behind || is_late }
    }

    /// Stops waiting for the writes that only caches with field selectors lack, which may never
    /// show them. A run within 5 s of such a write has `cache_behind` set.
    fn give_up_uncertain(&self, pending: &mut PendingWrites, now: Instant) {
        let PendingWrites { writes, reports_behind, .. } = pending;
        writes.retain(|tracked| {
            let behind = self.sources.behind(tracked);
            let is_uncertain = !behind.is_empty()
                && !behind.iter().any(|cache| cache.surely_selects(&tracked.written));
            *reports_behind |= is_uncertain && now < tracked.write.answered + CACHE_WAIT;
            !is_uncertain
        });
    }
}
