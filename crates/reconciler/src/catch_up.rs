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

use crate::expectations::PendingWrites;
use crate::tools::Tools;

/// How long after the last run that wrote something its key still waits for the caches to show it.
const CACHE_WAIT: Duration = Duration::from_secs(5);

/// How long of that a worker waits.
const WORKER_WAIT: Duration = Duration::from_millis(100);

/// How long to defer a key whose caches are late.
const DEFER_DELAY: Duration = Duration::from_millis(100);

/// Whether a key may run.
pub(crate) enum CatchUp {
    /// It may. `is_behind` says whether a cache is or may be behind nevertheless.
    Ready { is_behind: bool },
    /// Some caches are late. Look again after this time.
    Late(Duration),
}

impl Tools {
    /// Waits for the caches to show what earlier runs of a key have written, while a worker holds
    /// the key.
    ///
    /// Cancel safe: the writes stay noted while it waits.
    pub(crate) async fn catch_up(&self, key: &ObjectKey) -> CatchUp {
        let Some(pending) = self.expectations.take(key) else {
            return CatchUp::Ready { is_behind: false };
        };
        let (deadline, writes) = (pending.since + WORKER_WAIT, pending.writes.clone());
        self.expectations.put_back(key, pending);
        let waited = timeout_at(deadline, async {
            for recorded in &writes {
                // Asked for each write in turn: a deletion is missing only while the cache has the
                // object, which it may first have to show.
                for behind in self.sources.behind(recorded) {
                    if behind.surely_selects(&recorded.written) {
                        let (written, answered) = (&recorded.written, recorded.write.answered);
                        behind.wait_until_caught_up(written, answered).await;
                    }
                }
            }
        });
        let is_late = waited.await.is_err();
        let Some(mut pending) = self.expectations.take(key) else {
            return CatchUp::Ready { is_behind: false };
        };
        if pending.writes.iter().all(|recorded| self.is_seen(recorded)) {
            return CatchUp::Ready { is_behind: pending.has_unknown };
        }
        let now = Instant::now();
        if !is_late && now < deadline {
            // Only caches that may never show the object are missing. Free the worker, and look
            // again at the deadline.
            self.expectations.put_back(key, pending);
            return CatchUp::Late(deadline - now);
        }
        self.give_up_uncertain(&mut pending, now);
        pending.forget_seen(|recorded| self.is_seen(recorded));
        let is_late = !pending.writes.is_empty();
        if is_late && now < pending.since + CACHE_WAIT {
            self.expectations.put_back(key, pending);
            return CatchUp::Late(DEFER_DELAY);
        }
        // A write whose response was lost is reported to one run only.
        let has_unknown = std::mem::take(&mut pending.has_unknown);
        self.expectations.put_back(key, pending);
        CatchUp::Ready { is_behind: has_unknown || is_late }
    }

    /// Stops waiting for the writes that only caches with field selectors lack, which may never
    /// show them. A run within 5 s of such a write has `cache_behind` set.
    fn give_up_uncertain(&self, pending: &mut PendingWrites, now: Instant) {
        let PendingWrites { writes, has_unknown, .. } = pending;
        writes.retain(|recorded| {
            let behind = self.sources.behind(recorded);
            let is_uncertain = !behind.is_empty()
                && !behind.iter().any(|cache| cache.surely_selects(&recorded.written));
            *has_unknown |= is_uncertain && now < recorded.write.answered + CACHE_WAIT;
            !is_uncertain
        });
    }
}
