//! The crate's locks and shared pointers, in one place so that they can be exchanged.
//!
//! In this crate's own unit tests they are shuttle's, which lets a schedule explorer interleave every
//! lock. Hence a rule: a unit test that touches a whole queue runs under the explorer, and tests that
//! need tokio's paused clock live in `tests/`, where the crate is compiled with the real locks.

#[cfg(not(test))]
use std::sync as imp;

#[cfg(test)]
use shuttle::sync as imp;

pub(crate) use imp::MutexGuard;
pub(crate) use imp::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::Arc;

/// How often a contended lock is tried before the thread goes to sleep.
///
/// The critical sections below are tens of nanoseconds long, a futex round trip is microseconds. The
/// spin is bounded, at about two thousand pauses or a tenth of a millisecond in all, because the holder may
/// have been preempted.
const SPIN_ATTEMPTS: u32 = 10;

/// Pauses before the first retry of a contended lock; doubled each time up to the maximum.
///
/// Long on purpose: about a microsecond. The holder then finishes several operations in a row, with
/// everything in its cache, where a lock that changes hands every time would make each one fetch it all
/// from the other core.
const SPIN_PAUSES: u32 = 32;

/// The most pauses between two attempts.
const SPIN_PAUSES_MAX: u32 = 256;

/// A mutex that spins briefly, ignores poisoning, and does not share a cache line with its neighbours.
///
/// Poisoning is ignored, so that a lease can end while its thread panics. User code under the lock is kept
/// out of changes: hashing, grouping and limiters run before, a key is cloned before, observers are called
/// after, and their panics caught. What is left is a key type whose `Eq` panics (it loses the adds that came
/// in the same batch), and keys or causes whose `Drop` calls the queue (it waits for itself).
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lock<T>(imp::Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let mut pauses = SPIN_PAUSES;
        for _ in 0..SPIN_ATTEMPTS {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
            pauses = (2 * pauses).min(SPIN_PAUSES_MAX);
        }
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}
