//! Wakes sleeping workers, no more of them than can run.
//!
//! At most as many rings are under way as there are cores: whoever is woken looks at the queue, takes a key,
//! and rings for the next if there is more. So a burst of adds costs its producer a few wake-ups, and a
//! hundred idle workers are not woken for one key. One ring would do, were it not for a woken worker that
//! cannot run yet, because the thread it was woken on is busy; the rings of the other cores make up for it.
//!
//! Invariants:
//! - A worker becomes a sleeper with both the ledger and the intake locked and nothing to do in either;
//!   whoever then brings something, under either lock, sees the sleeper.
//! - A woken worker takes its ring back before it looks, and then looks with the intake locked. A producer
//!   that found all rings under way has put its key there before one of those workers looks.
//! - The count of rings may be too high when a ring finds nobody; it is set right whenever a worker lies
//!   down, because then there is nothing to ring for.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use tokio::sync::Notify;

use crate::sync::{AtomicUsize, Ordering};

/// More workers than this cannot run at once.
static RINGS_MAX: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(2, NonZeroUsize::get));

#[derive(Debug)]
pub(crate) struct Doorbell {
    /// Workers that sleep or are about to.
    sleepers: AtomicUsize,
    /// Rings that are on their way to a sleeper.
    rings: AtomicUsize,
    bell: Notify,
}

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self { sleepers: AtomicUsize::new(0), rings: AtomicUsize::new(0), bell: Notify::new() }
    }

    pub(crate) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) > 0
    }

    /// Whether the caller should ring, once it has let go of its lock; then it must.
    #[must_use]
    pub(crate) fn claim_ring(&self) -> bool {
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        if sleepers == 0 {
            return false;
        }
        let may_ring = |rings| (rings < sleepers.min(*RINGS_MAX)).then_some(rings + 1);
        self.rings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, may_ring).is_ok()
    }

    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Counts the caller among the sleepers; with both locks held.
    pub(crate) fn lie_down(&self) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        self.rings.store(0, Ordering::Relaxed);
    }

    /// Sleeps until the bell rings for this sleeper. Dropped half-way, it passes its ring on.
    pub(crate) async fn sleep(&self) {
        self.bell.notified().await;
    }

    /// The caller is awake, and about to look.
    pub(crate) fn wake_up(&self) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        let one_less = |rings: usize| Some(rings.saturating_sub(1));
        let _ = self.rings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    }

    /// The caller gave up sleeping, and will not look.
    pub(crate) fn give_up(&self) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
