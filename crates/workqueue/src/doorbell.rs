//! Wakes sleeping workers, no more of them than are needed.
//!
//! A worker that takes a key rings for the next if there is more to do, so one ring at a time is enough: a
//! burst of adds costs its producer few wake-ups, and a hundred idle workers are not woken for one key. But a
//! woken worker may be unable to run, because the thread that it was woken on is busy with a long handler, and
//! then everything would wait for it. So when no key has been taken for a while, producers may ring for as many
//! sleepers as there are cores: two keys for idle workers start two of them, whatever the first one does.
//!
//! Where the time of an add or a take is not known, it is not read for this every time, and not at all while nobody
//! sleeps: so a worker that is stuck may be noticed some adds later, and a ring may be one too many.
//!
//! Invariants:
//! - A worker becomes a sleeper with both the ledger and the intake locked and nothing to do in either;
//!   whoever then brings something, under either lock, sees the sleeper. It listens already before, so that
//!   two rings for two sleepers are never taken for one.
//! - A producer first marks the intake as occupied and then reads the count of rings; a woken worker first
//!   takes its ring back and then reads the mark. These four are sequentially consistent, so if the producer
//!   did not ring because of that ring, the worker sees the mark, and waits for the lock of the intake.
//! - While somebody sleeps, the count of rings is at most the number of rings that have yet to wake somebody:
//!   so who does not ring because of the count can rely on a wake-up that is still to come. It may be lower, when
//!   a worker lies down, which sets it to zero because there is nothing to ring for, or is woken by something else;
//!   that costs a wake-up in vain. A ring that finds nobody is kept for the next who listens.

use std::num::NonZeroUsize;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::{Clock, Stamp};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, interlude};

/// More workers than this cannot run at once.
static RINGS_MAX: LazyLock<usize> = LazyLock::new(|| {
    // The explorer must meet the same everywhere.
    let known = if cfg!(test) { None } else { std::thread::available_parallelism().ok() };
    known.map_or(2, NonZeroUsize::get)
});

/// When no key has been taken for this long, one ring is not enough. A worker that only has to wake up, or
/// waits for its turn on a thread, is there sooner.
const SLOW_TAKE: Duration = Duration::from_micros(100);

/// Takes are noted this often at most, because the note moves a cache line between cores.
const NOTE_PERIOD: Duration = Duration::from_micros(20);

/// Of takes whose time is not known, one of this many is noted. Where takes are so slow that the last note is old, a ring
/// too many is cheap.
const NOTED_TAKES: u32 = 8;

/// Of adds whose time is not known, the first few after a ring look at the clock whether it takes too long.
const FIRST_UNANSWERED: u32 = 4;

/// Of later ones, one of this many does.
const TIMED_UNANSWERED: u32 = 8;

/// No key has been taken yet.
const NEVER: u64 = 0;

#[derive(Debug)]
pub(crate) struct Doorbell {
    /// Workers that sleep or are about to.
    sleepers: AtomicUsize,
    /// Rings that are on their way to a sleeper.
    rings: AtomicUsize,
    /// Adds since somebody last rang that would have rung for another sleeper. Not exact: it is not worth an exchange.
    unanswered: AtomicU32,
    /// When a key was last taken, as far as that was noted, as the bits of a [`Stamp`]; or [`NEVER`].
    taken_at: AtomicU64,
    bell: Notify,
}

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self {
            sleepers: AtomicUsize::new(0),
            rings: AtomicUsize::new(0),
            unanswered: AtomicU32::new(0),
            taken_at: AtomicU64::new(NEVER),
            bell: Notify::new(),
        }
    }

    pub(crate) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) > 0
    }

    /// Whether a worker, which has left something to do, should ring once it has let go of its lock; then
    /// it must.
    #[must_use]
    pub(crate) fn claim_chained_ring(&self) -> bool {
        self.has_sleepers() && self.claim(1)
    }

    /// Whether a producer, which brings a key and has the intake locked, should ring once it has let go of its lock; then
    /// it must. `at` is the time of the add, if that is known.
    #[must_use]
    #[inline]
    pub(crate) fn claim_ring(&self, at: Stamp, clock: &Clock) -> bool {
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        sleepers > 0 && (self.claim(1) || (sleepers > 1 && self.claim_more(sleepers, at, clock)))
    }

    /// Takes one more ring, if those that are under way do not help.
    fn claim_more(&self, sleepers: usize, at: Stamp, clock: &Clock) -> bool {
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        self.unanswered.store(unanswered.wrapping_add(1), Ordering::Relaxed);
        let is_looked_at =
            unanswered < FIRST_UNANSWERED || unanswered.is_multiple_of(TIMED_UNANSWERED);
        let max = sleepers.min(*RINGS_MAX);
        if !(at.is_known() || is_looked_at) || self.rings.load(Ordering::Relaxed) >= max {
            return false;
        }
        let taken_at = self.taken_at.load(Ordering::Relaxed);
        let now = if at.is_known() { at } else { clock.now() };
        let is_slow = taken_at == NEVER || now.is_after(taken_at, SLOW_TAKE);
        is_slow && self.claim(max)
    }

    /// A worker took a key, at `at` if that is known; `takes` counts them.
    #[inline]
    pub(crate) fn note_taken(&self, takes: u32, at: Stamp, clock: &Clock) {
        let now = if at.is_known() {
            at
        } else if takes.is_multiple_of(NOTED_TAKES) && self.has_sleepers() {
            clock.now()
        } else {
            return;
        };
        if now.is_after(self.taken_at.load(Ordering::Relaxed), NOTE_PERIOD) {
            self.taken_at.store(now.to_bits(), Ordering::Relaxed);
        }
    }

    /// Takes a ring, if fewer than `max` are under way.
    fn claim(&self, max: usize) -> bool {
        let may_ring = |rings| (rings < max).then_some(rings + 1);
        let is_claimed = self.rings.load(Ordering::SeqCst) < max
            && self.rings.fetch_update(Ordering::SeqCst, Ordering::SeqCst, may_ring).is_ok();
        if is_claimed {
            self.unanswered.store(0, Ordering::Relaxed);
        }
        is_claimed
    }

    pub(crate) fn ring(&self) {
        interlude();
        self.bell.notify_one();
    }

    /// Counts the caller among the sleepers; with both locks held.
    pub(crate) fn lie_down(&self) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        self.rings.store(0, Ordering::Relaxed);
    }

    /// Waits for a ring, from its first poll or [`enable`](Notified::enable) on. Dropped half-way, it passes its ring on,
    /// unless that was kept from a time when nobody listened.
    pub(crate) fn listen(&self) -> Notified<'_> {
        self.bell.notified()
    }

    /// The caller is awake, and about to look.
    pub(crate) fn wake_up(&self) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        let one_less = |rings: usize| Some(rings.saturating_sub(1));
        let _ = self.rings.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }

    /// The caller gave up sleeping, and will not look.
    pub(crate) fn give_up(&self) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
