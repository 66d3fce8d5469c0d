//! The crate's locks and shared pointers, in one place so that they can be exchanged.
//!
//! In this crate's own unit tests they are shuttle's, which lets a schedule explorer interleave every
//! lock. Hence a rule: a unit test that touches a whole queue runs under the explorer, and tests that
//! need tokio's paused clock live in `tests/`, where the crate is compiled with the real locks.

#[cfg(not(test))]
mod imp {
    pub(crate) use spin::mutex::SpinMutex as BriefMutex;
    pub(crate) use spin::mutex::SpinMutexGuard as BriefGuard;
    pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

    pub(crate) fn interlude() {}
}

#[cfg(test)]
mod imp {
    pub(crate) use shuttle::sync::{Mutex as BriefMutex, MutexGuard as BriefGuard};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
    pub(crate) use shuttle::thread::yield_now as interlude;
}

use std::sync::PoisonError;

pub(crate) use imp::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
/// Where other threads may do anything, which the explorer would not try: it lets them at locks and atomics only.
pub(crate) use imp::interlude;
pub(crate) use imp::{BriefGuard, MutexGuard};
pub(crate) use std::sync::Arc;

/// A mutex that ignores poisoning. For what may take long, such as a limiter of the user's.
#[derive(Debug)]
pub(crate) struct Lock<T>(imp::Mutex<T>);

/// A mutex that spins, does not know poisoning, and does not share a cache line with its neighbours.
///
/// Nearly all critical sections are tens of nanoseconds long, so that sleeping on a lock does not pay. And a lock on
/// which nobody sleeps is left by a plain store: the system's is left by an exchange, which waits until all that was
/// written under the lock has come from the other core. Those who meet one of the few long sections (a snapshot, a table
/// that grows or is swept) sleep between their attempts.
///
/// User code under the lock is kept out of changes, so that a lease can end while its thread panics: hashing, grouping
/// and limiters run before, a key is cloned before, observers are called after, and their panics caught, and keys and causes
/// are dropped when the lock is left. What is left is a key type whose `Eq` panics (that loses the adds that came in the same
/// batch), and the causes that a run has too many of, or that are refused (should their `Drop` call the queue, it waits for
/// itself).
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct BriefLock<T>(imp::BriefMutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> BriefLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::BriefMutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> BriefGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.wait())
    }
}

#[cfg(not(test))]
impl<T> BriefLock<T> {
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<BriefGuard<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    fn wait(&self) -> BriefGuard<'_, T> {
        let mut backoff = Backoff::new();
        loop {
            backoff.pause();
            if let Some(guard) = self.try_lock() {
                return guard;
            }
        }
    }
}

#[cfg(test)]
impl<T> BriefLock<T> {
    pub(crate) fn try_lock(&self) -> Option<BriefGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    fn wait(&self) -> BriefGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait between two attempts at a contended lock: several times with the processor's pauses, at most a tenth
/// of a millisecond in all, and then a sleep, because the holder was preempted or is at something long; and so on.
#[cfg(not(test))]
struct Backoff {
    pauses: u32,
    spins: u32,
    sleep: std::time::Duration,
}

#[cfg(not(test))]
impl Backoff {
    /// Attempts before a sleep.
    const SPINS: u32 = 10;

    /// Pauses before the first attempt; doubled each time up to the maximum.
    ///
    /// Long on purpose: about a microsecond. The holder then finishes several operations in a row, with
    /// everything in its cache, where a lock that changes hands every time would make each one fetch it all
    /// from the other core.
    const PAUSES: u32 = 32;

    /// The most pauses before an attempt.
    const PAUSES_MAX: u32 = 256;

    /// The first sleep; doubled each time up to the maximum.
    const SLEEP: std::time::Duration = std::time::Duration::from_micros(50);

    /// The longest sleep.
    const SLEEP_MAX: std::time::Duration = std::time::Duration::from_millis(1);

    fn new() -> Self {
        Self { pauses: Self::PAUSES, spins: 0, sleep: Self::SLEEP }
    }

    fn pause(&mut self) {
        if self.spins < Self::SPINS {
            for _ in 0..self.pauses {
                std::hint::spin_loop();
            }
            self.pauses = (2 * self.pauses).min(Self::PAUSES_MAX);
            self.spins += 1;
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "it waits for a thread, not for a task")]
        std::thread::sleep(self.sleep);
        self.sleep = (2 * self.sleep).min(Self::SLEEP_MAX);
        self.spins = 0;
    }
}
