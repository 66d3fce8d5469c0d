//! Wakes sleeping workers, one at a time.
//!
//! At most one ring is under way: whoever is woken looks at the queue, takes a key, and rings for the
//! next if there is more. So a burst of adds costs its producer one wake-up, and a hundred idle workers
//! are not woken for one key.
//!
//! Invariants:
//! - A worker becomes a sleeper with both the ledger and the intake locked and nothing to do in either;
//!   whoever then brings something, under either lock, sees the sleeper.
//! - `ringing` is cleared by the woken worker before it looks. A producer that finds it set after that
//!   has been overtaken by another ring.

use tokio::sync::Notify;

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct Doorbell {
    /// Workers that sleep or are about to.
    sleepers: AtomicUsize,
    /// Whether a ring is on its way to a sleeper.
    ringing: AtomicBool,
    bell: Notify,
}

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self { sleepers: AtomicUsize::new(0), ringing: AtomicBool::new(false), bell: Notify::new() }
    }

    pub(crate) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) > 0
    }

    /// Whether the caller should ring, once it has let go of its lock; then it must.
    #[must_use]
    pub(crate) fn claim_ring(&self) -> bool {
        self.has_sleepers()
            && !self.ringing.load(Ordering::Relaxed)
            && !self.ringing.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Counts the caller among the sleepers; with both locks held.
    pub(crate) fn lie_down(&self) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        self.ringing.store(false, Ordering::Relaxed);
    }

    /// Sleeps until the bell rings for this sleeper. Dropped half-way, it passes its ring on.
    pub(crate) async fn sleep(&self) {
        self.bell.notified().await;
    }

    /// The caller is awake, and about to look.
    pub(crate) fn wake_up(&self) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        self.ringing.store(false, Ordering::Relaxed);
    }

    /// The caller gave up sleeping, and will not look.
    pub(crate) fn give_up(&self) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
